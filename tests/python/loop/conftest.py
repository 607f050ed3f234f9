"""Runs every test of this folder on asyncio's own loop (the reference) and on Penstock's."""

from __future__ import annotations

import asyncio
import faulthandler
import gc
import logging
import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, Protocol, TypeVar

import pytest

from .socket_pairs import Pair, connected_pair

T = TypeVar("T")
LoopFactory = Callable[[], asyncio.AbstractEventLoop]

# Per test. A loop that hangs in native code ignores the first limit; the second kills it.
TEST_TIMEOUT = 60
PROCESS_TIMEOUT = 90

_SCRIPT_PRELUDE = {
    "asyncio": "import asyncio\nnew_loop = asyncio.SelectorEventLoop\n",
    "penstock": "import asyncio\nfrom penstock import new_event_loop as new_loop\n",
}


class Run(Protocol):
    def __call__(self, main: Awaitable[T], timeout: float = 30) -> T: ...


class RunScript(Protocol):
    def __call__(
        self, source: str, *arguments: str, **options: Any
    ) -> subprocess.CompletedProcess[str]: ...


def lacks_reference(item: pytest.Item) -> bool:
    """Return whether this is a run on asyncio's own loop of a test for Penstock's loop only."""
    if not isinstance(item, pytest.Function) or not hasattr(item, "callspec"):
        return False
    return (
        "only_penstock" in item.fixturenames and item.callspec.params.get("loop_name") == "asyncio"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.timeout(TEST_TIMEOUT))
    # A skip would look like a test that another machine runs.
    if left_out := [item for item in items if lacks_reference(item)]:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not lacks_reference(item)]


def penstock_factory() -> LoopFactory:
    """Skip if the extension is not built; fail if a built one cannot be imported."""
    try:
        import penstock._core
    except ModuleNotFoundError as exc:
        if exc.name in {"penstock", "penstock._core"}:
            pytest.skip("the native extension penstock._core is not built")
        raise
    import penstock

    return penstock.new_event_loop


@pytest.fixture(params=["asyncio", "penstock"])
def loop_name(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    if name == "penstock":
        penstock_factory()
    return name


@pytest.fixture
def only_penstock(loop_name: str) -> None:
    """For a test of behaviour that asyncio's own loop does not guarantee."""
    if loop_name != "penstock":
        pytest.skip("asyncio's own loop does not guarantee this")


@pytest.fixture
def pair() -> Iterator[Pair]:
    left, right = connected_pair()
    with left, right:
        yield left, right


@pytest.fixture
def new_loop(loop_name: str) -> LoopFactory:
    return asyncio.SelectorEventLoop if loop_name == "asyncio" else penstock_factory()


@pytest.fixture(autouse=True)
def hang_guard() -> Iterator[None]:
    faulthandler.dump_traceback_later(PROCESS_TIMEOUT, exit=True, file=sys.__stderr__)
    yield
    faulthandler.cancel_dump_traceback_later()


@pytest.fixture
def loop(
    new_loop: LoopFactory, caplog: pytest.LogCaptureFixture
) -> Iterator[asyncio.AbstractEventLoop]:
    """Yield a new loop. A test that makes it log an error must check and clear the log."""
    loop = new_loop()
    yield loop
    if not loop.is_closed():
        _finish(loop)
        loop.close()
    gc.collect()
    errors = [
        record.getMessage()
        for record in caplog.get_records("call")
        if record.name == "asyncio" and record.levelno >= logging.ERROR
    ]
    assert not errors


def _finish(loop: asyncio.AbstractEventLoop) -> None:
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()

    async def settle() -> None:
        await asyncio.gather(*tasks, return_exceptions=True)
        await loop.shutdown_asyncgens()
        await loop.shutdown_default_executor()

    loop.run_until_complete(settle())


@pytest.fixture
def run(loop: asyncio.AbstractEventLoop) -> Run:
    """Run a coroutine on the loop with a time limit."""

    def run(main: Awaitable[T], timeout: float = 30) -> T:
        async def bounded() -> T:
            return await asyncio.wait_for(main, timeout)

        return loop.run_until_complete(bounded())

    return run


@pytest.fixture
def contexts(loop: asyncio.AbstractEventLoop) -> list[dict[str, Any]]:
    """Collect the contexts that the loop passes to its exception handler."""
    seen: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _, context: seen.append(context))
    return seen


@pytest.fixture
def run_script(loop_name: str) -> RunScript:
    """Run source in a separate process with `asyncio` and `new_loop` defined."""

    def run_script(
        source: str, *arguments: str, **options: Any
    ) -> subprocess.CompletedProcess[str]:
        environment = dict(os.environ, PYTHONPATH=os.pathsep.join(p for p in sys.path if p))
        environment.update(options.pop("env", {}))
        return subprocess.run(
            [
                sys.executable,
                "-c",
                _SCRIPT_PRELUDE[loop_name] + textwrap.dedent(source),
                *arguments,
            ],
            capture_output=True,
            text=True,
            timeout=TEST_TIMEOUT - 2,
            env=environment,
            **options,
        )

    return run_script


def survives(run_script: RunScript, source: str) -> None:
    """Run a script that must succeed: exit code 0 and an empty standard error."""
    done = run_script(source)
    assert done.returncode == 0, (done.returncode, done.stdout, done.stderr)
    assert "Traceback" not in done.stderr, done.stderr


@pytest.fixture
def in_thread() -> Iterator[Callable[..., threading.Thread]]:
    """Start a function in a thread. The test waits for its end and fails if the function raised."""
    threads: list[threading.Thread] = []
    failures: list[BaseException] = []

    def start(function: Callable[..., object], *arguments: Any) -> threading.Thread:
        def body() -> None:
            try:
                function(*arguments)
            except BaseException as exc:
                failures.append(exc)

        thread = threading.Thread(target=body, daemon=True)
        threads.append(thread)
        thread.start()
        return thread

    yield start
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()
    assert not failures
