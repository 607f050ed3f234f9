"""Runs every asynchronous file test on each loop, and on Penstock's with both engines."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from penstock.files._log import append_log, log_reader
from penstock.files._whole_files import copying, writing
from tests.python.conftest import BACKENDS, CORE_MISSING, skip_absent
from tests.python.files.open_files import open_files

UseBackend = Callable[[Any], None]

BUILT_ON_BACKENDS = (append_log, copying, log_reader, writing)


def penstock_loop(engine: str) -> Any:
    """Return a loop that uses this file engine. A loop selects its engine at the first use."""
    import penstock

    loop = penstock.new_event_loop()
    before = os.environ.get("PENSTOCK_FILES")
    os.environ["PENSTOCK_FILES"] = engine
    try:
        chosen = loop._file_engine().name
    finally:
        if before is None:
            del os.environ["PENSTOCK_FILES"]
        else:
            os.environ["PENSTOCK_FILES"] = before
    if chosen != engine:
        loop.close()
        skip_absent(f"the {engine} engine is not available here")
    return loop


def _penstock(engine: str) -> Any:
    return pytest.param(
        ("asyncio", {"loop_factory": lambda: penstock_loop(engine)}),
        id=f"penstock-{engine}",
        marks=pytest.mark.skipif(CORE_MISSING, reason="penstock._core is not built"),
    )


LOOPS = [param for param in BACKENDS if param.id != "asyncio+penstock"]


@pytest.fixture(scope="module", params=[_penstock("uring"), _penstock("threads"), *LOOPS])
def anyio_backend(request: pytest.FixtureRequest) -> Any:
    # Create the loop here to find out whether it is available: a skip while AnyIO creates the loop
    # would leave the thread marked as running asyncio.
    if (factory := request.param[1].get("loop_factory")) is not None:
        factory().close()
    return request.param


@pytest.fixture
def use_backend(monkeypatch: pytest.MonkeyPatch) -> UseBackend:
    """Replace the running loop's backend with this one, in every module that uses a backend."""

    def use(backend: Any) -> None:
        for module in BUILT_ON_BACKENDS:
            monkeypatch.setattr(module, "current_backend", lambda: backend)

    return use


@pytest.fixture
def no_descriptor_left() -> Iterator[None]:
    """Fail if the test leaves a file or a folder open."""
    before = named_files()
    yield
    assert named_files() == before


def named_files() -> list[str]:
    """Return the open files and folders, without devices and what has no name."""
    return sorted(
        target
        for target in open_files()
        if target.startswith("/") and not target.startswith(("/dev/", "/proc/"))
    )


@pytest.fixture
def run_on() -> Callable[..., Any]:
    """Run ``function(*arguments)`` on the named loop: asyncio, penstock or trio."""

    def run(loop: str, function: Callable[..., Coroutine[Any, Any, Any]], *arguments: Any) -> Any:
        if loop == "trio":
            pytest.importorskip("trio")
            return anyio.run(function, *arguments, backend="trio")
        if loop == "penstock":
            pytest.importorskip("penstock._core")
            from penstock import run as penstock_run

            return penstock_run(function(*arguments))
        return anyio.run(function, *arguments)

    return run


def child_environment() -> dict[str, str]:
    """Environment for a child interpreter that imports this package and these tests.

    Does not copy ``sys.path``: the benchmarks, which other tests import, insert themselves first.
    """
    import penstock

    folders = [str(Path(penstock.__file__).parents[1]), str(Path(__file__).parents[3])]
    return dict(os.environ, PYTHONPATH=os.pathsep.join(folders))


@pytest.fixture
def run_on_engine() -> Callable[[str, Awaitable[Any]], Any]:
    """Run something on Penstock's loop with this engine, and close the loop."""

    def run(engine: str, main: Awaitable[Any]) -> Any:
        async def bounded() -> Any:
            return await asyncio.wait_for(main, 60)

        with asyncio.Runner(loop_factory=lambda: penstock_loop(engine)) as runner:
            return runner.run(bounded())

    return run
