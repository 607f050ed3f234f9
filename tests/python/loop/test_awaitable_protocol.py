"""Every native awaitable behaves as a coroutine, and as a future for the waiting task."""

from __future__ import annotations

import asyncio
import inspect
import os
import socket
import threading
import tty
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

pytest.importorskip("penstock._core")

import penstock
from penstock import _core
from penstock.loop import _fed_streams

Pending = Callable[[asyncio.AbstractEventLoop], Any]


class Resources:
    """The sockets and terminals that the awaitables of one test wait on."""

    def __init__(self, loop: Any) -> None:
        """Open a socket pair and a pseudo-terminal."""
        self.loop = loop
        self.near, self.far = socket.socketpair()
        self.near.setblocking(False)
        self.manager, self.line = os.openpty()
        tty.setraw(self.line)
        os.set_blocking(self.line, False)
        self.let_go = threading.Event()
        self.reader = _core.SerialReader(loop, self.line)

    def sock_recv(self) -> Any:
        return self.loop.sock_recv(self.near, 10)

    def serial_receive(self) -> Any:
        return self.reader.receive(10)

    def stream_read(self) -> Any:
        return _core.StreamReader(loop=self.loop).read(10)

    def asyncio_read(self) -> Any:
        return _fed_streams.StreamReader(loop=self.loop).read(10)

    def file_operation(self) -> Any:
        return self.loop._file_engine().call(self.let_go.wait)

    def close(self) -> None:
        self.let_go.set()
        self.reader.close(OSError)
        self.near.close()
        self.far.close()
        os.close(self.manager)
        os.close(self.line)


COROUTINES = ["sock_recv", "serial_receive", "stream_read", "asyncio_read", "file_operation"]


@pytest.fixture(params=COROUTINES)
def make(request: pytest.FixtureRequest) -> str:
    """Return the name of an awaitable that waits once it has begun."""
    name: str = request.param
    return name


def run(use: Callable[[Any], Coroutine[Any, Any, None]], name: str) -> None:
    """Run ``use`` with a maker of the named awaitable."""
    loop = penstock.new_event_loop()

    async def main() -> None:
        resources = Resources(loop)
        try:
            await use(getattr(resources, name))
        finally:
            resources.close()

    try:
        loop.run_until_complete(main())
    finally:
        loop.close()


def test_accepts_only_none_before_it_has_begun(make: str) -> None:
    async def use(new: Any) -> None:
        coroutine = new()
        with pytest.raises(TypeError, match="just-started"):
            coroutine.send(1)
        coroutine.close()

    run(use, make)


def test_reports_its_state_like_a_coroutine(make: str) -> None:
    async def use(new: Any) -> None:
        coroutine = new()
        assert isinstance(coroutine.__name__, str)
        assert coroutine.__qualname__.endswith(coroutine.__name__)
        assert not coroutine.cr_running
        assert not coroutine.cr_suspended
        coroutine.send(None)
        assert inspect.getcoroutinestate(coroutine) == inspect.CORO_SUSPENDED
        coroutine.close()
        assert inspect.getcoroutinestate(coroutine) == inspect.CORO_CLOSED

    run(use, make)


def test_is_awaited_once(make: str) -> None:
    async def use(new: Any) -> None:
        coroutine = new()
        coroutine.send(None)
        coroutine.close()
        coroutine.close()
        with pytest.raises(RuntimeError, match="already awaited"):
            coroutine.send(None)
        with pytest.raises(RuntimeError, match="already awaited"):
            coroutine.throw(KeyError())

    run(use, make)


def test_an_exception_thrown_into_it_ends_it(make: str) -> None:
    async def use(new: Any) -> None:
        for begun in (False, True):
            coroutine = new()
            if begun:
                coroutine.send(None)
            with pytest.raises(KeyError, match="thrown"):
                coroutine.throw(KeyError("thrown"))
            assert not coroutine.cr_suspended

    run(use, make)


def test_a_cancelled_task_sees_the_message(make: str) -> None:
    async def use(new: Any) -> None:
        task = asyncio.ensure_future(new())
        await asyncio.sleep(0)
        task.cancel("enough")
        with pytest.raises(asyncio.CancelledError, match="enough"):
            await task

    run(use, make)


@pytest.fixture
def waiting(make: str) -> Iterator[Any]:
    """Begin an awaitable, and yield the future that its task blocks on."""
    loop = penstock.new_event_loop()

    async def begin() -> tuple[Resources, Any, Any]:
        resources = Resources(loop)
        coroutine = getattr(resources, make)()
        return resources, coroutine, coroutine.send(None)

    resources, coroutine, future = loop.run_until_complete(begin())
    future._asyncio_future_blocking = False
    yield loop, future
    coroutine.close()
    resources.close()
    loop.close()


def one_iteration(loop: Any) -> None:
    loop.call_soon(loop.stop)
    loop.run_forever()


def test_what_a_coroutine_yields_is_a_future_and_the_coroutine_itself_is_none(make: str) -> None:
    async def use(new: Any) -> None:
        coroutine = new()
        assert not asyncio.isfuture(coroutine)
        future = coroutine.send(None)
        assert asyncio.isfuture(future)
        assert isinstance(future, asyncio.Future) or future is not coroutine
        coroutine.close()
        assert not asyncio.isfuture(coroutine)

    run(use, make)


def test_the_blocking_future_accepts_one_callback(waiting: Any) -> None:
    loop, future = waiting
    called: list[object] = []
    future.add_done_callback(called.append)
    with pytest.raises(RuntimeError, match="another task already waits"):
        future.add_done_callback(print)
    assert future.remove_done_callback(print) == 0
    assert future.remove_done_callback(called.append) == 1
    assert future.remove_done_callback(called.append) == 0
    future.add_done_callback(called.append)
    assert not future.done()
    assert future.cancel()
    assert future.done()
    one_iteration(loop)
    assert called == [future]


def test_the_blocking_future_is_cancelled_once(waiting: Any) -> None:
    _, future = waiting
    assert future.cancel(msg="enough")
    assert not future.cancel()
    assert future.cancelled()
    with pytest.raises(asyncio.CancelledError, match="enough"):
        future.result()


def test_a_callback_added_after_the_end_is_called(waiting: Any) -> None:
    loop, future = waiting
    called: list[object] = []
    future.cancel()
    future.add_done_callback(called.append)
    one_iteration(loop)
    assert called == [future]


def test_refuses_arguments_that_a_future_refuses(waiting: Any) -> None:
    _, future = waiting
    for callbacks in [(), (print, print)]:
        with pytest.raises(TypeError, match="callback"):
            future.add_done_callback(*callbacks)
    for arguments, names in [((1, 2), {}), ((), {"message": 1}), ((1,), {"msg": 2})]:
        with pytest.raises(TypeError, match="msg"):
            future.cancel(*arguments, **names)
    assert not future.cancelled()


def test_finds_its_loop_and_asyncios_mark_by_any_equal_name(waiting: Any) -> None:
    loop, future = waiting
    assert future.get_loop() is loop
    for words in (["", "asyncio", "future", "blocking"], ["get", "loop"]):
        assert hasattr(future, "_".join(words))
    setattr(future, "_".join(["", "asyncio", "future", "blocking"]), True)
    assert future._asyncio_future_blocking is True
    future._asyncio_future_blocking = 0
    assert future._asyncio_future_blocking is False
