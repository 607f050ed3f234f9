"""Runs real libraries, unmodified, on asyncio's own loop (the reference) and on Penstock's."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, Protocol, TypeVar

import pytest

T = TypeVar("T")
LoopFactory = Callable[[], asyncio.AbstractEventLoop]

TEST_TIMEOUT = 60


class Run(Protocol):
    def __call__(self, main: Awaitable[T], timeout: float = 30) -> T: ...


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.timeout(TEST_TIMEOUT))


def _penstock_factory() -> LoopFactory:
    try:
        import penstock._core
    except ModuleNotFoundError as exc:
        if exc.name == "penstock._core":
            pytest.skip("the native extension penstock._core is not built")
        raise
    import penstock

    return penstock.new_event_loop


@pytest.fixture
def penstock_built() -> None:
    """Skip if the extension is not built."""
    _penstock_factory()


@pytest.fixture(params=["asyncio", "penstock"])
def new_loop(request: pytest.FixtureRequest) -> LoopFactory:
    return asyncio.SelectorEventLoop if request.param == "asyncio" else _penstock_factory()


@pytest.fixture
def run(new_loop: LoopFactory) -> Iterator[Run]:
    """Run a coroutine on a new loop with a time limit; the error log must stay empty."""
    contexts: list[dict[str, Any]] = []

    def run(main: Awaitable[T], timeout: float = 30) -> T:
        async def bounded() -> T:
            asyncio.get_running_loop().set_exception_handler(lambda _, c: contexts.append(c))
            return await asyncio.wait_for(main, timeout)

        with asyncio.Runner(loop_factory=new_loop) as runner:
            return runner.run(bounded())

    yield run
    gc.collect()
    assert [context for context in contexts if not _is_cancelled_stream_of_311(context)] == []


def _is_cancelled_stream_of_311(context: dict[str, Any]) -> bool:
    """Return whether this is 3.11's report of a stream's task cancelled by the end of the run."""
    return sys.version_info < (3, 12) and isinstance(
        context.get("exception"), asyncio.CancelledError
    )


@pytest.fixture
def child_environment() -> dict[str, str]:
    """Environment in which a child process can import the same modules as this process."""
    return dict(os.environ, PYTHONPATH=os.pathsep.join(p for p in sys.path if p))
