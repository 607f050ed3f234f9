"""A fixture that runs a test on Penstock's loop, on asyncio's and, if present, on uvloop's."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import pytest

import penstock

__all__ = ["LOOPS", "run"]

T = TypeVar("T")
LOOPS = {"penstock": penstock.new_event_loop, "asyncio": asyncio.SelectorEventLoop}
if importlib.util.find_spec("uvloop") is not None:
    LOOPS["uvloop"] = importlib.import_module("uvloop").new_event_loop


@pytest.fixture(params=list(LOOPS))
def run(request: pytest.FixtureRequest) -> Callable[[Coroutine[Any, Any, T]], T]:
    def run_with_limit(main: Coroutine[Any, Any, T]) -> T:
        with asyncio.Runner(loop_factory=LOOPS[request.param]) as runner:
            return runner.run(asyncio.wait_for(main, 60))

    return run_with_limit
