"""One sink of a recording: its queue, the task that writes it, its failure and its fallback."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

import anyio

from penstock._bounded_queue import BoundedQueue
from penstock.overflow import OverflowPolicy
from penstock.record._columns.batch import SampleBatch
from penstock.record._sampling.summary import AcquisitionSummary, SinkSummary
from penstock.record.errors import SinkError, SinkWriteError
from penstock.record.sink import Sink, SupportsMetadata

__all__ = ["SinkWriter"]


class SinkWriter:
    """Writes batches to one sink in the order in which they are put.

    Args:
        sink: An open sink. Closed by :meth:`run`.
        summary: Where its counts are kept, under its description.
        fallback: Takes over when the sink fails. Opened only then.
        queue_rows: How many rows may wait.
        overflow: What happens with more.
        batch_timeout: Seconds after which a batch that is being written counts as a failure.
        on_failure: Called with a sink that has failed and its error.
    """

    def __init__(
        self,
        sink: Sink,
        summary: AcquisitionSummary,
        *,
        fallback: Sink | None,
        queue_rows: int,
        overflow: OverflowPolicy,
        batch_timeout: float,
        on_failure: Callable[[Sink, Exception], Any] | None,
    ) -> None:
        self._sink: Sink | None = sink
        self._fallback = fallback
        self._summary = summary
        self._counts = self._register(sink)
        self._queue: BoundedQueue[SampleBatch] = BoundedQueue(queue_rows, overflow, weigh=len)
        self._batch_timeout = batch_timeout
        self._on_failure = on_failure
        self._failure: Exception | None = None
        self._close_failures: list[Exception] = []
        self._rescued = False
        # What the sink has accepted and may still lose, for its fallback.
        self._at_risk: deque[SampleBatch] = deque()
        self._facts: Mapping[str, Any] = {}
        self._scope = anyio.CancelScope(shield=True)
        self._closed = anyio.Event()
        self._idle = anyio.Event()
        self._idle.set()

    @property
    def healthy(self) -> bool:
        """Whether rows still reach a sink."""
        return self._sink is not None

    def put(self, batch: SampleBatch) -> None:
        """Queue a batch. Never waits; the queue's overflow policy decides."""
        if self._sink is not None:
            if self._idle.is_set():
                self._idle = anyio.Event()
            self._queue.put(batch)
            self._counts.rows_dropped = self._queue.dropped

    async def wait_for_room(self) -> None:
        """Return when there is room, for a queue that blocks."""
        if self._sink is not None:
            await self._queue.wait_for_room()

    async def wait_written(self) -> None:
        """Return when the sink has everything that was put, or has failed."""
        await self._idle.wait()

    def finish(self, facts: Mapping[str, Any], deadline: float) -> None:
        """Close the queue: no more batches are put. Waiting ones are written until ``deadline``.

        ``facts`` are stored in the sink when it is closed.
        """
        self._facts = facts
        self._queue.close()
        self._scope.deadline = deadline

    async def wait_closed(self) -> None:
        """Return when the sink is closed or abandoned."""
        await self._closed.wait()

    def errors(self) -> list[Exception]:
        """The failure that the fallback has not made good."""
        errors = [] if self._failure is None or self._rescued else [self._failure]
        if dropped := self._queue.dropped:
            errors.append(
                SinkWriteError(
                    f"{self._describe()} did not keep up: {dropped} rows were dropped for it; "
                    "record more slowly, or give it a longer queue"
                )
            )
        return errors + self._close_failures

    async def run(self) -> None:
        """Write until :meth:`finish`, then close the sink. Shielded from cancellation."""
        try:
            with self._scope:
                try:
                    await self._write_all()
                finally:
                    await self._close(self._sink)
            if self._scope.cancelled_caught:
                self._failure = self._failure or SinkWriteError(
                    f"the last samples could not be flushed to {self._describe()} in time: check "
                    "that the disk still answers, then recover the files"
                )
                self._counts.error = str(self._failure)
        finally:
            self._idle.set()
            self._closed.set()

    async def _write_all(self) -> None:
        while (sink := self._sink) is not None:
            try:
                batch = await self._queue.get()
            except StopAsyncIteration:
                return
            await self._write(sink, batch)
            if not len(self._queue):
                self._idle.set()

    async def _write(self, sink: Sink, batch: SampleBatch) -> None:
        limit = self._batch_timeout
        failure: Exception | None = SinkWriteError(
            f"{len(batch)} samples could not be written to {self._describe()} within {limit:g} s: "
            "check that the disk still answers"
        )
        with anyio.move_on_after(limit):
            try:
                await sink.write_batch(batch)
                failure = None
            except Exception as error:
                failure = error
        if failure is None:
            self._counts.rows_written += len(batch)
            if self._fallback is not None:
                self._keep(sink, batch)
        else:
            await self._fail(sink, failure, batch)

    def _keep(self, sink: Sink, batch: SampleBatch) -> None:
        kept = self._at_risk
        kept.append(batch)
        spare = sum(map(len, kept)) - getattr(sink, "rows_at_risk", 0)
        while kept and spare >= len(kept[0]):
            spare -= len(kept.popleft())

    async def _fail(self, sink: Sink, failure: Exception, batch: SampleBatch) -> None:
        self._failure = self._failure or failure
        self._counts.error = str(failure)
        if self._on_failure is not None:
            self._on_failure(sink, failure)
        await self._close(sink)
        fallback = self._fallback
        self._sink = self._fallback = None
        self._rescued = False
        if fallback is not None:
            try:
                await fallback.open(batch.schema)
            except Exception as error:
                self._close_failures.append(error)
                return
            before, self._counts = self._counts, self._register(fallback)
            before.replaced_by = describe_sink(fallback)
            self._sink = fallback
            self._rescued = True
            for each in (*self._at_risk, batch):
                if self._sink is fallback:
                    await self._write(fallback, each)
            self._at_risk.clear()

    async def _close(self, sink: Sink | None) -> None:
        if sink is None:
            return
        if isinstance(sink, SupportsMetadata):
            sink.add_metadata(dict(self._facts))
        try:
            await sink.close()
        except SinkError as error:
            # A sink that has failed says so again when it is closed.
            if str(error) != str(self._failure):
                self._close_failures.append(error)
                self._counts.error = self._counts.error or str(error)
        except Exception as error:
            self._close_failures.append(error)
            self._counts.error = self._counts.error or str(error)

    def _register(self, sink: Sink) -> SinkSummary:
        name = describe_sink(sink)
        number = 2
        while name in self._summary.sinks:
            name = f"{describe_sink(sink)} #{number}"
            number += 1
        return self._summary.sinks.setdefault(name, SinkSummary())

    def _describe(self) -> str:
        return next(name for name, counts in self._summary.sinks.items() if counts is self._counts)


def describe_sink(sink: Sink) -> str:
    """The path of a sink that has one, else the name of its class."""
    path = getattr(sink, "path", None)
    return str(path) if path is not None else type(sink).__name__
