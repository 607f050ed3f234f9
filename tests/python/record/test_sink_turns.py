"""A task that hands over rows without end lets others run, and notices its cancellation."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from penstock.record import CsvSink
from tests.python.record.batches import flow_batch

pytestmark = pytest.mark.anyio


async def test_a_writer_without_end_lets_other_tasks_run(tmp_path: Path) -> None:
    ran = False

    async def other() -> None:
        nonlocal ran
        ran = True

    async with CsvSink(tmp_path / "run.csv") as sink, anyio.create_task_group() as tasks:
        tasks.start_soon(other)
        while not ran:
            await sink.write_many([])


async def test_a_cancelled_writer_hands_over_nothing_more(tmp_path: Path) -> None:
    async with CsvSink(tmp_path / "run.csv", loss_interval=None) as sink:
        await sink.write_batch(flow_batch(1))
        with anyio.CancelScope() as scope:
            scope.cancel()
            await sink.write_batch(flow_batch(2))
        assert scope.cancelled_caught
        assert sink.rows_at_risk == 1
