"""Runs every test of this folder on Penstock's loop and on asyncio's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import pytest

import penstock

T = TypeVar("T")
LOOPS = {"penstock": penstock.new_event_loop, "asyncio": asyncio.SelectorEventLoop}


@pytest.fixture(params=list(LOOPS))
def run(request: pytest.FixtureRequest) -> Callable[[Coroutine[Any, Any, T]], T]:
    def run_with_limit(main: Coroutine[Any, Any, T]) -> T:
        with asyncio.Runner(loop_factory=LOOPS[request.param]) as runner:
            return runner.run(asyncio.wait_for(main, 60))

    return run_with_limit
