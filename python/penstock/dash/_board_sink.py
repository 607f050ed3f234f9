"""A recording's sink that fills a board."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import anyio.to_thread

from penstock.dash._board import Board
from penstock.record import SampleBatch
from penstock.record.arrow import load_pyarrow
from penstock.record.schema import RecordSchema
from penstock.record.sink import SinkBase


class BoardSink(SinkBase):
    """Shows the rows of a running recording; for :func:`penstock.record.pipe`.

    Writing never waits for a browser: browsers read the board at their own speed.
    """

    def __init__(self, board: Board) -> None:
        super().__init__()
        self._board = board

    def record_events(self, record_event: Callable[[str, str, str], None]) -> None:
        """Record each action of a person on the page as an event of the recording."""
        self._board.record_event = record_event

    async def open(
        self, schema: RecordSchema | None = None, metadata: Mapping[str, Any] | None = None
    ) -> None:
        """Import pyarrow in a thread: that takes half a second, and polls go on meanwhile."""
        await anyio.to_thread.run_sync(load_pyarrow)

    async def write_batch(self, batch: Any) -> None:
        """Show the rows of a batch."""
        if len(batch) if isinstance(batch, SampleBatch) else batch.num_rows:
            self._board.add(batch.to_arrow() if isinstance(batch, SampleBatch) else batch)

    async def close(self) -> None:
        """Tell the browsers that no more rows come."""
        self._board.ended = "the recording has ended"
