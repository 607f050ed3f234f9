"""call_soon_threadsafe: callbacks scheduled from other threads and signal handlers."""

from __future__ import annotations

import asyncio
import contextvars
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

from .conftest import LoopFactory, Run, RunScript


def test_a_call_from_a_thread_wakes_a_sleeping_loop(
    loop: asyncio.AbstractEventLoop, in_thread: Callable[..., threading.Thread]
) -> None:
    loop.call_soon(in_thread, loop.call_soon_threadsafe, loop.stop)
    loop.run_forever()


def test_a_sleeping_loop_is_woken_every_time(
    loop: asyncio.AbstractEventLoop, in_thread: Callable[..., threading.Thread], run: Run
) -> None:
    rounds = 300

    async def main() -> None:
        for _ in range(rounds):
            woken = loop.create_future()
            go.put_nowait_threadsafe(woken)
            await woken

    class Requests:
        def __init__(self) -> None:
            self.ready = threading.Semaphore(0)
            self.futures: list[asyncio.Future[None]] = []

        def put_nowait_threadsafe(self, future: asyncio.Future[None]) -> None:
            self.futures.append(future)
            self.ready.release()

    go = Requests()

    def answer() -> None:
        for _ in range(rounds):
            assert go.ready.acquire(timeout=30)
            loop.call_soon_threadsafe(go.futures.pop().set_result, None)

    in_thread(answer)
    run(main())


def test_calls_of_many_threads_are_complete_and_in_each_threads_order(
    loop: asyncio.AbstractEventLoop, in_thread: Callable[..., threading.Thread]
) -> None:
    threads, calls = 8, 500
    seen: list[tuple[int, int]] = []

    def arrived(thread: int, number: int) -> None:
        seen.append((thread, number))
        if len(seen) == threads * calls:
            loop.stop()

    def post(thread: int) -> None:
        for number in range(calls):
            loop.call_soon_threadsafe(arrived, thread, number)

    for thread in range(threads):
        loop.call_soon(in_thread, post, thread)
    loop.run_forever()
    for thread in range(threads):
        assert [n for t, n in seen if t == thread] == list(range(calls))


def test_callbacks_run_in_the_loops_thread(
    loop: asyncio.AbstractEventLoop, in_thread: Callable[..., threading.Thread]
) -> None:
    seen: list[int] = []

    def note() -> None:
        seen.append(threading.get_ident())
        loop.stop()

    loop.call_soon(in_thread, loop.call_soon_threadsafe, note)
    loop.run_forever()
    assert seen == [threading.get_ident()]


def test_calls_before_the_run_are_kept(loop: asyncio.AbstractEventLoop) -> None:
    seen: list[int] = []
    for number in range(10):
        loop.call_soon_threadsafe(seen.append, number)
    loop.call_soon_threadsafe(loop.stop)
    loop.run_forever()
    assert seen == list(range(10))


def test_calls_of_the_loops_own_thread_keep_their_order(loop: asyncio.AbstractEventLoop) -> None:
    seen: list[int] = []
    loop.call_soon(seen.append, 1)
    loop.call_soon_threadsafe(seen.append, 2)
    loop.call_soon(seen.append, 3)
    loop.call_soon_threadsafe(loop.stop)
    loop.run_forever()
    assert seen == [1, 2, 3]


def test_the_returned_handle_can_be_cancelled(loop: asyncio.AbstractEventLoop) -> None:
    seen: list[int] = []
    handle = loop.call_soon_threadsafe(seen.append, 1)
    handle.cancel()
    assert handle.cancelled()
    loop.call_soon_threadsafe(loop.stop)
    loop.run_forever()
    assert seen == []


def test_a_callback_has_the_calling_threads_context(
    loop: asyncio.AbstractEventLoop, in_thread: Callable[..., threading.Thread]
) -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="loop")
    seen: list[str] = []

    def note() -> None:
        seen.append(variable.get())
        loop.stop()

    def post() -> None:
        variable.set("thread")
        loop.call_soon_threadsafe(note)

    loop.call_soon(in_thread, post)
    loop.run_forever()
    assert seen == ["thread"]


def test_a_closed_loop_refuses_calls(new_loop: LoopFactory) -> None:
    loop = new_loop()
    loop.close()
    with pytest.raises(RuntimeError, match="Event loop is closed"):
        loop.call_soon_threadsafe(print)


@pytest.mark.parametrize("debug", ["", "debug"])
def test_closing_the_loop_of_a_posting_thread_raises_only_runtime_error(
    run_script: RunScript, debug: str
) -> None:
    done = run_script(
        """
        import sys, threading
        debug = "debug" in sys.argv
        refused = []

        def post(loop, started):
            try:
                while True:
                    loop.call_soon_threadsafe(int)
                    started.set()
            except RuntimeError as exc:
                refused.append(str(exc))

        for _ in range(50):
            loop = new_loop()
            loop.set_debug(debug)
            started = threading.Event()
            thread = threading.Thread(target=post, args=(loop, started))
            thread.start()
            started.wait()
            loop.call_soon(loop.stop)
            loop.run_forever()
            loop.close()
            thread.join()
        assert len(refused) == 50, refused
        print(set(refused))
        """,
        debug,
    )
    assert (done.returncode, done.stdout) == (0, "{'Event loop is closed'}\n"), done.stderr


def test_a_python_signal_handler_may_call_call_soon_threadsafe(
    loop: asyncio.AbstractEventLoop,
) -> None:
    previous = signal.signal(signal.SIGUSR1, lambda *_: loop.call_soon_threadsafe(loop.stop))
    try:
        loop.call_soon(signal.raise_signal, signal.SIGUSR1)
        loop.run_forever()
    finally:
        signal.signal(signal.SIGUSR1, previous)


def test_run_coroutine_threadsafe_returns_the_result_to_a_thread(
    loop: asyncio.AbstractEventLoop, run: Run
) -> None:
    async def answer() -> int:
        await asyncio.sleep(0)
        return 42

    def ask() -> int:
        return asyncio.run_coroutine_threadsafe(answer(), loop).result(10)

    async def main() -> int:
        return await asyncio.to_thread(ask)

    assert run(main()) == 42


@pytest.mark.skipif(sys.version_info < (3, 14), reason="such handles are new in Python 3.14")
@pytest.mark.parametrize("ask", ["cancel", "cancelled"])
def test_another_thread_waits_for_the_callback_that_it_cancels(
    loop: asyncio.AbstractEventLoop, in_thread: Callable[..., threading.Thread], ask: str
) -> None:
    events: list[object] = []
    began = threading.Event()
    asked = threading.Event()

    def callback() -> None:
        began.set()
        asked.wait(30)
        # The other thread calls the handle now, or waits in it. It must wait until this ends.
        events.append("called")

    def cancel() -> None:
        handle = loop.call_soon_threadsafe(callback)
        assert isinstance(handle, asyncio.events._ThreadSafeHandle)  # type: ignore[attr-defined]
        began.wait(30)
        asked.set()
        events.append(getattr(handle, ask)())
        events.append(handle.cancelled())
        loop.call_soon_threadsafe(loop.stop)

    loop.call_soon(in_thread, cancel)
    loop.run_forever()
    expected = [None, True] if ask == "cancel" else [False, False]
    assert events == ["called", *expected]


@pytest.mark.skipif(sys.version_info < (3, 14), reason="such handles are new in Python 3.14")
def test_a_thread_safe_callback_may_cancel_itself_and_may_raise(
    loop: asyncio.AbstractEventLoop, contexts: list[dict[str, Any]]
) -> None:
    seen: list[object] = []

    def callback() -> None:
        handles[0].cancel()
        seen.append(handles[0].cancelled())
        loop.call_soon(loop.stop)
        raise ValueError("deliberate")

    handles = [loop.call_soon_threadsafe(callback)]
    loop.run_forever()
    assert seen == [True]
    assert [str(context["exception"]) for context in contexts] == ["deliberate"]
    assert "_ThreadSafeHandle" in repr(handles[0])
