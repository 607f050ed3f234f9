"""run_forever, run_until_complete, stop and close."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import socket
import sys
import threading
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from .conftest import LoopFactory, RunScript


async def answer(value: int = 42) -> int:
    await asyncio.sleep(0)
    return value


def test_run_until_complete_returns_the_result(loop: asyncio.AbstractEventLoop) -> None:
    assert loop.run_until_complete(answer()) == 42


def test_run_until_complete_accepts_futures_and_tasks(loop: asyncio.AbstractEventLoop) -> None:
    future = loop.create_future()
    loop.call_soon(future.set_result, 1)
    assert loop.run_until_complete(future) == 1
    assert loop.run_until_complete(loop.create_task(answer(2))) == 2
    assert loop.run_until_complete(future) == 1


def test_run_until_complete_refuses_an_object_that_is_not_awaitable(
    loop: asyncio.AbstractEventLoop,
) -> None:
    with pytest.raises(TypeError):
        loop.run_until_complete(42)  # type: ignore[arg-type]


def test_run_until_complete_raises_the_exception(loop: asyncio.AbstractEventLoop) -> None:
    async def fail() -> None:
        raise LookupError("meant")

    with pytest.raises(LookupError, match="meant"):
        loop.run_until_complete(fail())
    assert loop.run_until_complete(answer()) == 42


def test_run_until_complete_raises_cancelled_error(loop: asyncio.AbstractEventLoop) -> None:
    future = loop.create_future()
    loop.call_soon(future.cancel)
    with pytest.raises(asyncio.CancelledError):
        loop.run_until_complete(future)


def test_run_until_complete_refuses_a_future_of_another_loop(
    loop: asyncio.AbstractEventLoop, new_loop: LoopFactory
) -> None:
    with contextlib.closing(new_loop()) as other, pytest.raises(ValueError, match="loop"):
        loop.run_until_complete(other.create_future())


def test_a_stop_before_the_future_is_done_is_an_error(loop: asyncio.AbstractEventLoop) -> None:
    future = loop.create_future()
    loop.call_soon(loop.stop)
    with pytest.raises(RuntimeError, match="Event loop stopped before Future completed"):
        loop.run_until_complete(future)


def test_stop_before_the_run_allows_one_turn(loop: asyncio.AbstractEventLoop) -> None:
    seen: list[int] = []
    loop.call_soon(seen.append, 1)
    loop.stop()
    loop.run_forever()
    assert seen == [1]


def test_stop_finishes_the_current_turn_only(loop: asyncio.AbstractEventLoop) -> None:
    seen: list[str] = []
    loop.call_soon(loop.stop)
    loop.call_soon(seen.append, "this turn")
    loop.call_soon(lambda: loop.call_soon(seen.append, "next turn"))
    loop.run_forever()
    assert seen == ["this turn"]
    loop.stop()
    loop.run_forever()
    assert seen == ["this turn", "next turn"]


def test_a_loop_runs_again_after_a_stop(loop: asyncio.AbstractEventLoop) -> None:
    for _ in range(3):
        loop.call_soon(loop.stop)
        loop.run_forever()
        assert loop.run_until_complete(answer()) == 42


def test_is_running_is_true_during_the_run_only(loop: asyncio.AbstractEventLoop) -> None:
    seen: list[bool] = []
    assert not loop.is_running()
    loop.call_soon(lambda: seen.append(loop.is_running()))
    loop.call_soon(loop.stop)
    loop.run_forever()
    assert seen == [True]
    assert not loop.is_running()


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_a_callback_that_raises_a_base_exception_ends_the_run(
    loop: asyncio.AbstractEventLoop, error: type[BaseException]
) -> None:
    seen: list[int] = []

    def fail() -> None:
        raise error

    loop.call_soon(fail)
    with pytest.raises(error):
        loop.run_forever()
    assert not loop.is_running()
    with pytest.raises(RuntimeError):
        asyncio.get_running_loop()
    loop.call_soon(seen.append, 1)
    loop.call_soon(loop.stop)
    loop.run_forever()
    assert seen == [1]


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_a_task_that_raises_a_base_exception_ends_the_run(
    loop: asyncio.AbstractEventLoop, error: type[BaseException]
) -> None:
    async def fail() -> None:
        raise error

    with pytest.raises(error):
        loop.run_until_complete(fail())
    assert not loop.is_running()
    assert loop.run_until_complete(answer()) == 42


def test_a_timer_that_raises_a_base_exception_ends_the_run(loop: asyncio.AbstractEventLoop) -> None:
    def fail() -> None:
        raise SystemExit(3)

    loop.call_later(0.001, fail)
    with pytest.raises(SystemExit):
        loop.run_forever()


def test_callbacks_after_the_one_that_ended_the_run_are_kept(
    loop: asyncio.AbstractEventLoop,
) -> None:
    seen: list[int] = []

    def fail() -> None:
        raise KeyboardInterrupt

    loop.call_soon(fail)
    loop.call_soon(seen.append, 1)
    with pytest.raises(KeyboardInterrupt):
        loop.run_forever()
    loop.call_soon(loop.stop)
    loop.run_forever()
    assert seen == [1]


def skip_where_a_refused_run_ends_the_outer_one(loop_name: str) -> None:
    if loop_name == "asyncio" and sys.version_info[:3] == (3, 13, 0):
        pytest.skip("asyncio 3.13.0 refuses, but then loses the running loop")


def test_a_loop_cannot_be_run_inside_itself(
    loop: asyncio.AbstractEventLoop, loop_name: str, contexts: list[dict[str, Any]]
) -> None:
    skip_where_a_refused_run_ends_the_outer_one(loop_name)

    async def nested() -> None:
        with pytest.raises(RuntimeError, match="This event loop is already running"):
            loop.run_forever()
        coroutine = answer()
        with pytest.raises(RuntimeError, match="This event loop is already running"):
            loop.run_until_complete(coroutine)
        coroutine.close()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        loop.run_until_complete(nested())


def test_a_loop_cannot_be_run_inside_another(
    loop: asyncio.AbstractEventLoop, loop_name: str, new_loop: LoopFactory
) -> None:
    skip_where_a_refused_run_ends_the_outer_one(loop_name)

    async def nested() -> None:
        with contextlib.closing(new_loop()) as other:
            with pytest.raises(
                RuntimeError, match="Cannot run the event loop while another loop is running"
            ):
                other.run_forever()
            assert not other.is_running()
        assert asyncio.get_running_loop() is loop

    loop.run_until_complete(nested())


def test_two_loops_run_one_after_the_other(new_loop: LoopFactory) -> None:
    with contextlib.closing(new_loop()) as one, contextlib.closing(new_loop()) as two:
        assert one.run_until_complete(answer(1)) == 1
        assert two.run_until_complete(answer(2)) == 2
        assert one.run_until_complete(answer(3)) == 3


def test_loops_of_several_threads_run_concurrently(
    new_loop: LoopFactory, in_thread: Callable[..., Any]
) -> None:
    results: list[int] = []

    def body(number: int) -> None:
        with contextlib.closing(new_loop()) as loop:
            results.append(loop.run_until_complete(answer(number)))

    threads = [in_thread(body, number) for number in range(4)]
    for thread in threads:
        thread.join(30)
    assert sorted(results) == [0, 1, 2, 3]


def test_a_running_loop_cannot_be_closed(loop: asyncio.AbstractEventLoop) -> None:
    async def close() -> None:
        with pytest.raises(RuntimeError, match="Cannot close a running event loop"):
            loop.close()

    loop.run_until_complete(close())
    assert not loop.is_closed()


def test_close_may_be_called_again(new_loop: LoopFactory) -> None:
    loop = new_loop()
    assert not loop.is_closed()
    loop.close()
    loop.close()
    assert loop.is_closed()
    assert not loop.is_running()


def test_a_closed_loop_refuses_everything(new_loop: LoopFactory) -> None:
    loop = new_loop()
    future = loop.create_future()
    loop.close()
    coroutine = answer()
    refused: list[Callable[[], object]] = [
        lambda: loop.call_soon(print),
        lambda: loop.call_later(1, print),
        lambda: loop.call_at(1, print),
        lambda: loop.call_soon_threadsafe(print),
        lambda: loop.run_in_executor(None, print),
        lambda: loop.create_task(coroutine),
        lambda: loop.add_signal_handler(10, print),
        lambda: loop.add_reader(0, print),
        lambda: loop.add_writer(1, print),
        loop.run_forever,
        lambda: loop.run_until_complete(future),
    ]
    for call in refused:
        with pytest.raises(RuntimeError, match="Event loop is closed"):
            call()
    coroutine.close()


def test_close_drops_scheduled_callbacks(new_loop: LoopFactory) -> None:
    class Payload:
        pass

    loop = new_loop()
    payload = Payload()
    reference = weakref.ref(payload)
    loop.call_soon(lambda _: None, payload)
    loop.call_later(1000, lambda _: None, payload)
    loop.call_soon_threadsafe(lambda _: None, payload)
    del payload
    loop.close()
    gc.collect()
    assert reference() is None


def test_handles_outlive_their_loop(new_loop: LoopFactory) -> None:
    loop = new_loop()
    soon, later = loop.call_soon(print), loop.call_later(1000, print)
    loop.close()
    del loop
    gc.collect()
    for handle in (soon, later):
        repr(handle)
        handle.cancel()
        assert handle.cancelled()


def test_a_loop_closed_with_work_in_flight_keeps_the_process_intact(run_script: RunScript) -> None:
    done = run_script(
        """
        import gc, socket, warnings
        warnings.simplefilter("ignore")

        class Chatter(asyncio.Protocol):
            def connection_made(self, transport):
                transport.write(b"x" * 10_000_000)

        async def start(loop):
            server = await loop.create_server(Chatter, "127.0.0.1", 0)
            address = server.sockets[0].getsockname()
            silent = socket.create_connection(address)
            await loop.create_connection(Chatter, *address)
            left, right = socket.socketpair()
            left.setblocking(False)
            loop.create_task(loop.sock_recv(left, 10))
            loop.add_reader(right, print)
            loop.run_in_executor(None, int)
            loop.call_later(1000, print)
            return silent, left, right

        for _ in range(3):
            loop = new_loop()
            keep = loop.run_until_complete(start(loop))
            loop.close()
            del loop, keep
            gc.collect()
        print("well")
        """
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "well\n"


def test_transports_and_servers_outlive_their_loop(run_script: RunScript) -> None:
    done = run_script(
        """
        import gc, socket, warnings
        warnings.simplefilter("ignore")

        async def start(loop):
            server = await loop.create_server(asyncio.Protocol, "127.0.0.1", 0)
            address = server.sockets[0].getsockname()
            transport, protocol = await loop.create_connection(asyncio.Protocol, *address)
            full, _ = await loop.create_connection(asyncio.Protocol, *address)
            full.write(b"x" * 20_000_000)
            return server, [transport, full]

        loop = new_loop()
        server, transports = loop.run_until_complete(start(loop))
        loop.close()
        calls = [
            ("write", b"x" * 1000), ("writelines", [b"x"]), ("pause_reading",),
            ("resume_reading",), ("get_write_buffer_size",), ("get_extra_info", "peername"),
            ("get_protocol",), ("set_protocol", asyncio.Protocol()), ("is_reading",),
            ("set_write_buffer_limits", 10), ("write_eof",), ("is_closing",), ("__repr__",),
            ("close",), ("abort",), ("close",),
        ]
        for transport in transports:
            for name, *arguments in calls:
                try:
                    getattr(transport, name)(*arguments)
                except (RuntimeError, AttributeError, OSError):
                    pass
        try:
            server.close()
        except (RuntimeError, AttributeError, OSError):
            pass
        del transports, transport, server, loop
        gc.collect()
        print("well")
        """
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "well\n"


def test_a_loop_that_was_never_closed_warns_and_keeps_the_process_intact(
    run_script: RunScript,
) -> None:
    done = run_script(
        """
        import gc, warnings
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            loop = new_loop()
            loop.call_soon(print)
            del loop
            gc.collect()
        print([str(w.category.__name__) for w in seen if "unclosed event loop" in str(w.message)])
        kept = new_loop()
        """
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "['ResourceWarning']\n"


def test_closing_releases_every_descriptor(new_loop: LoopFactory) -> None:
    new_loop().close()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        loop = new_loop()
        loop.run_until_complete(answer())
        loop.close()
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("timer", [None, 10_000], ids=["no timer", "a timer far off"])
def test_an_idle_loop_is_woken_by_a_descriptor(
    loop: asyncio.AbstractEventLoop, in_thread: Callable[..., threading.Thread], timer: float | None
) -> None:
    left, right = socket.socketpair()
    running = threading.Event()

    def send() -> None:
        assert running.wait(30)
        right.send(b"x")

    with left, right:
        loop.add_reader(left, loop.stop)
        handle = loop.call_later(timer, print) if timer is not None else None
        in_thread(send)
        # Only the descriptor can end the wait, for hours at least.
        loop.call_soon(running.set)
        loop.run_forever()
        loop.remove_reader(left)
        assert left.recv(1) == b"x"
        if handle is not None:
            handle.cancel()


def test_the_repr_of_a_loop_shows_its_state(new_loop: LoopFactory) -> None:
    loop = new_loop()
    assert "running=False" in repr(loop)
    assert "closed=False" in repr(loop)
    assert "debug=False" in repr(loop)
    loop.close()
    assert "closed=True" in repr(loop)


def test_a_loop_is_an_abstract_event_loop(loop: asyncio.AbstractEventLoop) -> None:
    assert isinstance(loop, asyncio.AbstractEventLoop)


def test_run_until_complete_can_be_stopped_and_continued(loop: asyncio.AbstractEventLoop) -> None:
    released = asyncio.Event()

    async def main() -> str:
        loop.stop()
        await released.wait()
        return "finished"

    task = loop.create_task(main())
    loop.run_forever()
    assert not task.done()
    released.set()
    assert loop.run_until_complete(task) == "finished"
