"""Runs every test of this folder on Penstock's loop, on asyncio's and, if present, on uvloop's."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from tests.python.asyncio_loops import run

__all__ = ["eager_collector", "run"]


@pytest.fixture
def eager_collector() -> Iterator[None]:
    """The collector of garbage runs nearly all the time."""
    before = gc.get_threshold()
    gc.set_threshold(20)
    try:
        yield
    finally:
        gc.set_threshold(*before)
