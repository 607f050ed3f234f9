"""What a recording of a source has written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.record import InMemorySink, Sample, pipe, record
from tests.python.record.instruments import HandClock

__all__ = ["events", "rows_of"]


async def rows_of(source: Any, **options: Any) -> tuple[list[Sample], Any]:
    sink = InMemorySink()
    options.setdefault("clock", HandClock())
    async with record(source, **options) as recording:
        summary = await pipe(recording, sink)
    return sink.samples, summary


def events(rows: Sequence[Sample]) -> list[tuple[str, str | None]]:
    return [(row.device, row.event) for row in rows if row.event is not None]
