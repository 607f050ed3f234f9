"""Recordings with seals, for the tests of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio

from penstock.record import SealFindings, check_seals
from penstock.record.sink_choice import sink_for
from tests.python.record.batches import flow_batch

__all__ = ["NAMES", "TEXTS", "only", "write"]

TEXTS = ["run.csv", "run.jsonl"]
NAMES = [*TEXTS, "run.sqlite", "run.parquet", "run.arrow", "run"]


def write(path: Path, first: int, rows: int, step: int = 100, **options: Any) -> None:
    """A run that is closed."""

    async def record() -> None:
        async with sink_for(path, loss_rows=0, **options) as sink:
            for start in range(first, first + rows, step):
                await sink.write_batch(flow_batch(step, first=start))

    anyio.run(record)


def only(path: Path) -> SealFindings:
    (found,) = check_seals(path)
    return found
