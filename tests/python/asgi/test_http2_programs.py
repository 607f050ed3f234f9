"""A few of the random connections of `http2_programs`, on each loop."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable
from typing import Any

import pytest

from .http2_programs import Http2Run
from .request_programs import run_programs


@pytest.mark.parametrize("seed", [0, 1_000])
def test_random_connections_of_http2(
    run: Callable[..., Any], seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)
    logging.disable(logging.CRITICAL)
    try:
        run(asyncio.wait_for(run_programs(60, seed, Http2Run), 60))
    finally:
        logging.disable(logging.NOTSET)
