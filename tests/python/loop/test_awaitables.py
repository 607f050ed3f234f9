"""All native awaitables implement a coroutine's protocol in the same way."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("penstock._core")

import penstock
from penstock._core import ReadyValue

Make = Callable[[Any], Any]


@pytest.fixture
def loop() -> Iterator[Any]:
    made = penstock.new_event_loop()
    asyncio.set_event_loop(made)
    yield made
    asyncio.set_event_loop(None)
    made.close()


def called(value: Any) -> Make:
    """Return a maker of a file operation on a worker with this result."""
    return lambda loop: loop._file_engine().call(lambda: value)


@pytest.mark.parametrize(
    "value",
    [None, (), (1, 2), KeyError("no result of a failure"), StopIteration("nor the end"), KeyError],
    ids=repr,
)
def test_any_object_can_be_a_result(loop: Any, value: Any) -> None:
    async def main() -> None:
        assert await ReadyValue(value) is value
        assert await called(value)(loop) is value

    loop.run_until_complete(main())


@pytest.mark.parametrize("value", [None, (1, 2), StopIteration("no end")], ids=repr)
def test_send_ends_with_the_result(loop: Any, value: Any) -> None:
    iterator = ReadyValue(value).__await__()
    with pytest.raises(StopIteration) as ended:
        while True:
            next(iterator)
    assert ended.value.value is value


def file_operation(loop: Any) -> Any:
    return loop._file_engine().stat(os.curdir)


def test_an_operation_that_has_not_begun_accepts_no_value(loop: Any) -> None:
    operation = file_operation(loop)
    with pytest.raises(TypeError, match="just-started"):
        operation.send(1)
    operation.close()


@pytest.mark.parametrize(
    ("thrown", "expected"),
    [
        ((KeyError("a"),), KeyError("a")),
        ((KeyError,), KeyError()),
        ((KeyError, "b"), KeyError("b")),
        ((KeyError, ("c", "d")), KeyError("c", "d")),
    ],
    ids=repr,
)
def test_throw_takes_both_forms_of_an_exception(
    loop: Any, thrown: tuple[Any, ...], expected: Exception
) -> None:
    operation = file_operation(loop)
    with pytest.raises(KeyError) as raised:
        operation.throw(*thrown)
    assert raised.value.args == expected.args
    with pytest.raises(RuntimeError, match="already awaited"):
        operation.send(None)


@pytest.mark.parametrize("thrown", [(), (1,), (int,)], ids=repr)
def test_throw_refuses_what_is_no_exception(loop: Any, thrown: tuple[Any, ...]) -> None:
    with pytest.raises(TypeError, match="exception"):
        file_operation(loop).throw(*thrown)
