"""Arguments that had another name take it for one release more, with a warning."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock import uring

# Function, old name, new name, value.
RENAMED = [
    (uring.copy, "qd", "queue_depth", 2),
    (uring.copy, "progress_cb", "progress", lambda done, size: None),
    (uring.write_many, "progress_cb", "progress", lambda files, size: None),
]


def arguments(function: Callable[..., Any], folder: Path) -> tuple[Any, ...]:
    (folder / "from").write_bytes(b"x" * 10)
    if function is uring.copy:
        return (folder / "from", folder / "to")
    return ([(folder / "to", b"y" * 10)],)


@pytest.mark.parametrize(("function", "old", "new", "value"), RENAMED)
def test_old_name_works_and_warns(
    function: Callable[..., Any], old: str, new: str, value: Any, tmp_path: Path
) -> None:
    given = arguments(function, tmp_path)
    with pytest.warns(DeprecationWarning, match=f"{old} is now {new};") as warned:
        assert function(*given, **{old: value}) == 10
    assert warned[0].filename == __file__
    assert function(*given, **{new: value}) == 10  # without a warning, which would be an error


@pytest.mark.parametrize(("function", "old", "new", "value"), RENAMED)
def test_only_the_new_name_is_in_the_signature(
    function: Callable[..., Any], old: str, new: str, value: Any
) -> None:
    names = inspect.signature(function).parameters
    assert new in names and old not in names


@pytest.mark.parametrize(("function", "old", "new", "value"), RENAMED)
def test_both_names_at_once_are_refused(
    function: Callable[..., Any], old: str, new: str, value: Any, tmp_path: Path
) -> None:
    with pytest.raises(TypeError, match=f"got {old} and {new}; give only {new}"):
        function(*arguments(function, tmp_path), **{old: value, new: value})
