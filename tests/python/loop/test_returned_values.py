"""The result of an await: the value of its StopIteration, and the exception's later reuse."""

from __future__ import annotations

import asyncio
import gc
import socket
import sys
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from .conftest import Run
from .socket_pairs import Pair


def end_of(operation: Coroutine[Any, Any, Any]) -> StopIteration:
    """Return the StopIteration of an operation that completes without a wait."""
    steps = operation.__await__()
    with pytest.raises(StopIteration) as caught:
        next(steps)
    stop = caught.value
    assert isinstance(stop, StopIteration)
    return stop


def test_a_stop_iteration_carries_the_value(loop: asyncio.AbstractEventLoop, pair: Pair) -> None:
    left, right = pair
    right.send(b"abc")
    stop = end_of(loop.sock_recv(left, 3))
    assert stop.value == b"abc"
    assert stop.args == (b"abc",)
    assert str(stop) == "b'abc'"


def test_a_tuple_is_one_value(loop: asyncio.AbstractEventLoop) -> None:
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as near,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as far,
    ):
        near.setblocking(False)
        near.bind(("127.0.0.1", 0))
        far.bind(("127.0.0.1", 0))
        far.sendto(b"abc", near.getsockname())
        stop = end_of(loop.sock_recvfrom(near, 10))
        assert stop.value == (b"abc", far.getsockname())
        assert stop.args == (stop.value,)


def test_kept_stop_iterations_keep_their_values(
    loop: asyncio.AbstractEventLoop, pair: Pair
) -> None:
    left, right = pair
    right.send(bytes(range(100)))
    stops = [end_of(loop.sock_recv(left, 1)) for _ in range(100)]
    assert [stop.value for stop in stops] == [bytes([number]) for number in range(100)]
    assert [stop.args for stop in stops] == [(bytes([number]),) for number in range(100)]
    assert len(set(map(id, stops))) == 100


def test_kept_arguments_stay_unchanged(loop: asyncio.AbstractEventLoop, pair: Pair) -> None:
    left, right = pair
    right.send(bytes(range(100)))
    arguments = [end_of(loop.sock_recv(left, 1)).args for _ in range(100)]
    assert arguments == [(bytes([number]),) for number in range(100)]


def test_a_stop_iteration_has_no_state_of_the_previous_one(
    loop: asyncio.AbstractEventLoop, pair: Pair
) -> None:
    left, right = pair
    right.send(b"abcdef")
    for _ in range(3):
        try:
            raise ValueError("of the one before")
        except ValueError as error:
            stop = end_of(loop.sock_recv(left, 1))
            stop.__cause__ = error
        stop.add_note("of the one before")
        stop.mine = "of the one before"  # type: ignore[attr-defined]
        stop.args = ("of", "the one before")
        del stop
        stop = end_of(loop.sock_recv(left, 1))
        assert stop.__cause__ is None
        assert stop.__context__ is None
        assert not stop.__suppress_context__
        assert not hasattr(stop, "__notes__")
        assert not hasattr(stop, "mine")
        assert stop.args == (stop.value,)
        del stop


def test_no_reference_to_a_received_value_remains(
    loop: asyncio.AbstractEventLoop, run: Run, pair: Pair
) -> None:
    left, right = pair

    async def main() -> None:
        right.send(bytes(1000))
        data = await loop.sock_recv(left, 1000)
        fresh = bytes(bytearray(1000))
        assert sys.getrefcount(data) == sys.getrefcount(fresh)

    run(main())


def test_a_cycle_through_a_stop_iteration_is_collected(
    loop: asyncio.AbstractEventLoop, pair: Pair
) -> None:
    left, right = pair
    right.send(bytes(20))
    ended: list[bool] = []

    class Watched:
        def __del__(self) -> None:
            ended.append(True)

    for number in range(20):
        stop = end_of(loop.sock_recv(left, 1))
        stop.value = [stop, Watched()]
        stop.args = (stop, [stop])
        del stop
        gc.collect()
        assert len(ended) == number + 1


def run_of_python_tasks(
    loop: asyncio.AbstractEventLoop, main: Callable[[], Coroutine[Any, Any, None]]
) -> None:
    """Run it in a task of the Python implementation, which calls result() on its future."""
    loop.run_until_complete(
        asyncio.tasks._PyTask(main(), loop=loop)  # type: ignore[attr-defined]
    )


def test_tasks_of_the_python_implementation_are_resumed(
    loop: asyncio.AbstractEventLoop, pair: Pair
) -> None:
    left, right = pair

    async def main() -> None:
        loop.call_soon(right.send, b"abc")
        assert await loop.sock_recv(left, 10) == b"abc"
        reader, writer = await asyncio.open_connection(sock=left.dup())
        loop.call_soon(right.send, b"def")
        assert await reader.read(10) == b"def"
        # Since Python 3.14, only the functions of its own implementation find a task.
        task = asyncio.current_task() or asyncio.tasks._py_current_task()  # type: ignore[attr-defined]
        assert task is not None
        loop.call_soon(task.cancel, "enough")
        with pytest.raises(asyncio.CancelledError, match="enough"):
            await reader.read(10)
        writer.close()

    run_of_python_tasks(loop, main)


class OwnTask(asyncio.Task[Any]):
    """A task class of the program."""


def test_tasks_of_a_programs_class_are_resumed(
    loop: asyncio.AbstractEventLoop, run: Run, pair: Pair
) -> None:
    left, right = pair

    async def main() -> None:
        loop.call_soon(right.send, b"abc")
        assert await loop.sock_recv(left, 10) == b"abc"
        task = asyncio.current_task()
        assert task is not None
        loop.call_soon(task.cancel, "enough")
        with pytest.raises(asyncio.CancelledError, match="enough"):
            await loop.sock_recv(left, 10)
        loop.call_soon(right.send, b"def")
        assert await loop.sock_recv(left, 10) == b"def"

    loop.set_task_factory(lambda loop, coro, **named: OwnTask(coro, loop=loop, **named))
    run(main())
