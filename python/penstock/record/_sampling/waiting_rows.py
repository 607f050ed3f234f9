"""The rows between the instruments and their consumer: a bounded number, in columns."""

from __future__ import annotations

from collections import deque

import anyio
import anyio.lowlevel

from penstock.overflow import OverflowPolicy
from penstock.record._columns.batch import SampleBatch
from penstock.record._columns.columns import ColumnBuffer
from penstock.record._sampling.summary import AcquisitionSummary
from penstock.record.schema import RecordSchema


class WaitingRows:
    """Rows that wait for their consumer, and the policy for too many of them.

    For one event loop; one task takes, any number add. A row is added in three steps, without an
    await between them: :meth:`admit`, the row itself into :attr:`buffer`, :meth:`added`.
    """

    def __init__(
        self,
        schema: RecordSchema,
        capacity: int,
        overflow: OverflowPolicy,
        summary: AcquisitionSummary,
    ) -> None:
        if capacity < 1:
            raise ValueError(f"buffer_size must be at least 1 sample, not {capacity!r}")
        self.buffer = ColumnBuffer(schema)
        """Where rows are added. Replaced whenever rows are taken."""
        self._complete: deque[SampleBatch] = deque()
        self._complete_rows = 0
        self._skip = 0  # rows at the head of the buffer that DROP_OLDEST has given up
        self._capacity = capacity
        self._overflow = overflow
        self._blocks = overflow is OverflowPolicy.BLOCK
        self._summary = summary
        self._arrived = anyio.Event()
        self._room = anyio.Event()
        self._wanted = 1
        self._ended = False

    def __len__(self) -> int:
        return self._complete_rows + len(self.buffer.t_utc) - self._skip

    @property
    def is_full(self) -> bool:
        """Whether another row has to wait for room, as it does with BLOCK."""
        return self._blocks and len(self) >= self._capacity

    @property
    def schema(self) -> RecordSchema:
        """The columns known so far."""
        return self.buffer.schema

    # -- adding

    async def wait_for_room(self) -> bool:
        """With BLOCK, return when there is room; otherwise at once. Whether it had to wait.

        Call it before a poll and not after it, so that a task that may be cancelled never holds a
        reply while it waits for room.
        """
        waited = False
        while self.is_full:
            waited = True
            self._room = anyio.Event()
            await self._room.wait()
        return waited

    def admit(self, device: str) -> bool:
        """Whether a row of ``device`` may be added; makes room for it by the overflow policy."""
        # Not len(self), here and in added(): it calls a Python function, twice a row.
        if self._complete_rows + len(self.buffer.t_utc) - self._skip >= self._capacity:
            if self._overflow is OverflowPolicy.DROP_NEWEST:
                self._summary.count_dropped(device)
                return False
            if self._overflow is OverflowPolicy.DROP_OLDEST:
                self._drop_oldest()
        return True

    def added(self) -> None:
        """Note that a row was added: wake the consumer."""
        if self._complete_rows + len(self.buffer.t_utc) - self._skip >= self._wanted:
            self._arrived.set()

    def change_schema(self, schema: RecordSchema) -> None:
        """Add what follows to columns of another schema."""
        self._complete_batch()
        self.buffer = ColumnBuffer(schema)

    def end(self) -> None:
        """End: no more rows are added."""
        self._ended = True
        self._arrived.set()

    # -- taking

    async def next_batch(self, min_rows: int, max_wait: float | None) -> SampleBatch | None:
        """Take rows, once there are ``min_rows`` or ``max_wait`` seconds have passed.

        Returns an empty batch when the time is up without a row, and None once there will be no
        more. Cancellation takes nothing.
        """
        await anyio.lowlevel.checkpoint()
        self._wanted = max(1, min(min_rows, self._capacity))
        if len(self) < self._wanted and not self._ended:
            # Woken once, by the row that fills the batch: not at every row.
            self._arrived = anyio.Event()
            with anyio.move_on_after(max_wait):
                await self._arrived.wait()
        if not len(self) and self._ended:
            return None
        return self.take()

    def take(self) -> SampleBatch:
        """Take the waiting rows, as far as they have one schema; may be empty."""
        if not self._complete:
            self._complete_batch()
            self.buffer = ColumnBuffer(self.buffer.schema)
        batch = self._complete.popleft()
        self._complete_rows -= len(batch)
        self._room.set()
        return batch

    def _complete_batch(self) -> None:
        batch = SampleBatch.from_buffer(self.buffer)
        if self._skip:
            batch = batch.slice(self._skip)
            self._skip = 0
        self._complete.append(batch)
        self._complete_rows += len(batch)

    def _drop_oldest(self) -> None:
        while self._complete:
            # Only after a change of schema, so the whole batch may go at once.
            batch = self._complete.popleft()
            self._complete_rows -= len(batch)
            if len(batch):
                for device in batch.column("device"):
                    self._summary.count_dropped(device)
                return
        column = self.buffer.device
        self._summary.count_dropped(column.table[column.codes[self._skip]])
        self._skip += 1
        if self._skip >= self._capacity:
            # Rows given up are cleared away once a buffer's length at a time: shifting all
            # columns for every dropped row would cost more than the row.
            self.buffer.drop_first(self._skip)
            self._skip = 0
