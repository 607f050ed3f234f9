from __future__ import annotations

import pytest

from penstock.alicat import (
    AlicatConnectionError,
    AlicatError,
    AlicatFirmwareError,
    AlicatParseError,
    AlicatTimeoutError,
    ErrorContext,
    UnknownGasError,
)


@pytest.mark.parametrize(
    "error",
    [
        AlicatError("words"),
        AlicatTimeoutError("words"),
        AlicatConnectionError("words"),
        AlicatParseError("words", field_name="x", expected=1, actual=2),
        AlicatFirmwareError("words", command="LS"),
    ],
)
def test_context_is_added_to_a_copy(error: AlicatError) -> None:
    twin = error.with_context(port="/dev/ttyUSB0", attempt=3)
    assert type(twin) is type(error)
    assert str(twin) == str(error) == "words"
    assert twin.context.port == "/dev/ttyUSB0"
    assert twin.context.extra == {"attempt": 3}
    assert error.context == ErrorContext()


def test_attributes_survive_the_copy() -> None:
    twin = UnknownGasError("N3", suggestions=("N2",)).with_context(port="p")
    assert (twin.value, twin.suggestions) == ("N3", ("N2",))
    assert "did you mean N2?" in str(twin)


def test_extra_of_a_context_cannot_be_changed() -> None:
    context = ErrorContext(extra={"a": 1})
    with pytest.raises(TypeError):
        context.extra["a"] = 2  # type: ignore[index]


def test_timeouts_and_lost_connections_are_the_standard_ones_too() -> None:
    with pytest.raises(TimeoutError):
        raise AlicatTimeoutError("late")
    with pytest.raises(ConnectionError):
        raise AlicatConnectionError("gone")
