"""run_in_executor and the default executor."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

from .conftest import LoopFactory, Run


def test_a_function_runs_in_another_thread(loop: asyncio.AbstractEventLoop, run: Run) -> None:
    async def main() -> None:
        assert await loop.run_in_executor(None, pow, 2, 10) == 1024
        thread = await loop.run_in_executor(None, threading.get_ident)
        assert thread != threading.get_ident()

    run(main())


def test_a_functions_exception_reaches_the_awaiter(
    loop: asyncio.AbstractEventLoop, run: Run
) -> None:
    async def main() -> None:
        with pytest.raises(ZeroDivisionError):
            await loop.run_in_executor(None, divmod, 1, 0)

    run(main())


def test_an_executor_may_be_passed_or_set_as_the_default(
    loop: asyncio.AbstractEventLoop, run: Run
) -> None:
    def name() -> str:
        return threading.current_thread().name

    async def main() -> None:
        with concurrent.futures.ThreadPoolExecutor(thread_name_prefix="given") as pool:
            assert (await loop.run_in_executor(pool, name)).startswith("given")
        loop.set_default_executor(
            concurrent.futures.ThreadPoolExecutor(thread_name_prefix="default")
        )
        assert (await loop.run_in_executor(None, name)).startswith("default")
        assert (await asyncio.to_thread(name)).startswith("default")

    run(main())
    with pytest.raises(TypeError, match="ThreadPoolExecutor"):
        loop.set_default_executor(object())  # type: ignore[arg-type]


def test_what_a_function_sends_comes_before_its_result(
    run: Run, loop: asyncio.AbstractEventLoop, loop_name: str
) -> None:
    """Whether the function has ended when it is waited for or not."""
    if loop_name == "asyncio" and sys.version_info >= (3, 14):
        pytest.skip("asyncio's own loop sets the result of an ended function at once (gh-144506)")

    class Inline(concurrent.futures.ThreadPoolExecutor):
        """Has run the function when `submit` returns."""

        def submit(self, *arguments: Any, **options: Any) -> concurrent.futures.Future[Any]:
            future = super().submit(*arguments, **options)
            concurrent.futures.wait([future])
            return future

    def work(order: list[str], fails: bool) -> str:
        loop.call_soon_threadsafe(order.append, "call")
        if fails:
            raise ValueError("deliberate")
        return "result"

    async def main() -> None:
        for kind in (concurrent.futures.ThreadPoolExecutor, Inline):
            with kind(1) as pool:
                order: list[str] = []
                order.append(await loop.run_in_executor(pool, work, order, False))
                assert order == ["call", "result"]
                with pytest.raises(ValueError, match="deliberate"):
                    await loop.run_in_executor(pool, work, order, True)
                assert order == ["call", "result", "call"]

    run(main())


def test_to_thread_passes_the_context_and_run_in_executor_does_not(
    loop: asyncio.AbstractEventLoop, run: Run
) -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")

    async def main() -> None:
        variable.set("set")
        assert await asyncio.to_thread(variable.get) == "set"
        assert await loop.run_in_executor(None, variable.get) == "unset"

    run(main())


def test_a_cancelled_call_does_not_block_the_loop(
    loop: asyncio.AbstractEventLoop, run: Run
) -> None:
    release = threading.Event()

    async def main() -> None:
        future = loop.run_in_executor(None, release.wait, 30)
        await asyncio.sleep(0)
        future.cancel()
        with pytest.raises(asyncio.CancelledError):
            await future
        release.set()

    run(main())


def test_shutdown_waits_for_running_calls_and_refuses_new_calls(
    loop: asyncio.AbstractEventLoop, run: Run
) -> None:
    finished: list[int] = []
    started = threading.Event()

    def work() -> None:
        started.set()
        finished.append(1)

    async def main() -> None:
        future = loop.run_in_executor(None, work)
        await asyncio.to_thread(started.wait, 30)
        await loop.shutdown_default_executor()
        assert finished == [1]
        await future
        with pytest.raises(RuntimeError, match="Executor shutdown has been called"):
            loop.run_in_executor(None, work)
        await loop.shutdown_default_executor()

    run(main())


@pytest.mark.skipif(sys.version_info < (3, 12), reason="the timeout came with Python 3.12")
def test_shutdown_returns_after_its_timeout(
    loop: asyncio.AbstractEventLoop, run: Run, loop_name: str
) -> None:
    if loop_name == "asyncio" and sys.version_info < (3, 13):
        pytest.skip("asyncio 3.12's first releases wait without a limit for the threads")
    release = threading.Event()

    async def main() -> None:
        future = loop.run_in_executor(None, release.wait, 30)
        arguments: dict[str, Any] = {"timeout": 0.01}
        with pytest.warns(RuntimeWarning, match="did not finishing joining its threads"):
            await loop.shutdown_default_executor(**arguments)
        release.set()
        await asyncio.wait([future], timeout=1)

    run(main())


def test_a_call_that_ends_after_the_loop_was_closed_is_ignored(
    new_loop: LoopFactory, in_thread: Callable[..., threading.Thread]
) -> None:
    release, ended = threading.Event(), threading.Event()
    loop = new_loop()

    def work() -> None:
        release.wait(30)
        ended.set()

    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        loop.call_soon(loop.run_in_executor, pool, work)
        loop.call_soon(loop.stop)
        loop.run_forever()
        loop.close()
        release.set()
        assert ended.wait(30)
