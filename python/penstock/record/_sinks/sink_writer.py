"""One sink of a recording: its queue, the task that writes it, and what follows its failure.

A sink that has failed is closed. Its rows go to the fallback, if it has one, else they wait. If it
can be opened again, that is tried after growing pauses: a disk gets space, a mount comes back. It
is then continued after the last row that it has, and the fallback, if one stood in, is closed.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

import anyio
import anyio.abc
import anyio.to_thread

from penstock._bounded_queue import BoundedQueue
from penstock.overflow import OverflowPolicy
from penstock.record._columns.batch import SampleBatch
from penstock.record._sampling.summary import AcquisitionSummary, SinkSummary
from penstock.record.errors import SinkError, SinkWriteError
from penstock.record.sink import Sink, SupportsMetadata, ThreadedSink, describe_sink

Reopen = Callable[[], Sink]
"""Makes another sink for the place of one that has failed. Called in a worker thread."""

_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 60.0


class SinkWriter:
    """Writes batches to one sink in the order in which they are put.

    Args:
        sink: An open sink. Closed by :meth:`run`.
        summary: Where its counts are kept, under its description.
        fallback: Takes over when the sink fails. Opened only then.
        reopen: Makes the sink that continues after a failure; None gives a failed one up.
        reopen_fallback: The same for a fallback that is needed a second time.
        queue_rows: How many rows may wait.
        overflow: What happens with more.
        batch_timeout: Seconds after which a batch that is being written counts as a failure.
        on_failure: Called with a sink that has failed and its error.
        on_return: Called with the sink that has continued the place of a failed one.
    """

    def __init__(
        self,
        sink: Sink,
        summary: AcquisitionSummary,
        *,
        fallback: Sink | None,
        reopen: Reopen | None = None,
        reopen_fallback: Reopen | None = None,
        queue_rows: int,
        overflow: OverflowPolicy,
        batch_timeout: float,
        on_failure: Callable[[Sink, Exception], Any] | None,
        on_return: Callable[[Sink], Any] | None = None,
    ) -> None:
        self._own: Sink | None = sink  # None after its failure
        self._standing_in: Sink | None = None  # the fallback while it is written
        self._fallback = fallback
        self._reopen = reopen
        self._reopen_fallback = reopen_fallback
        self._summary = summary
        self._own_counts = self._counts = self._register(sink)
        self._queue: BoundedQueue[SampleBatch] = BoundedQueue(queue_rows, overflow, weigh=len)
        self._batch_timeout = batch_timeout
        self._on_failure = on_failure
        self._on_return = on_return
        self._failure: Exception | None = None
        self._close_failures: list[Exception] = []
        self._rescued = False
        # What the sink has accepted and may still lose, and the batch that it has failed with.
        self._at_risk: deque[SampleBatch] = deque()
        self._not_accepted = 0  # rows at its end that the failed sink did not even accept
        self._failed: Sink | None = None
        self._failed_is_closed = anyio.Event()
        self._pause_s = _FIRST_PAUSE_S
        self._due = 0.0
        self._tried_at_end = False
        self._facts: Mapping[str, Any] = {}
        self._finishing = anyio.Event()
        self._scope = anyio.CancelScope(shield=True)
        self._closed = anyio.Event()
        self._idle = anyio.Event()
        self._idle.set()

    @property
    def healthy(self) -> bool:
        """Whether rows still reach a sink, now or when it can be opened again."""
        return self._sink is not None or (self._failed is not None and self._reopen is not None)

    @property
    def _sink(self) -> Sink | None:
        return self._own if self._own is not None else self._standing_in

    def put(self, batch: SampleBatch) -> None:
        """Queue a batch. Never waits; the queue's overflow policy decides."""
        if self.healthy:
            if self._sink is not None and self._idle.is_set():
                self._idle = anyio.Event()
            self._queue.put(batch)
            self._counts.rows_dropped = self._queue.dropped

    async def wait_for_room(self) -> None:
        """Return when there is room, for a queue that blocks."""
        if self.healthy:
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
        self._finishing.set()
        self._scope.deadline = deadline

    async def wait_closed(self) -> None:
        """Return when the sink is closed or abandoned."""
        await self._closed.wait()

    def errors(self) -> list[Exception]:
        """The failure that nothing has made good."""
        errors = [] if self._failure is None or self._rescued else [self._failure]
        if dropped := self._queue.dropped:
            text = (
                f"{self._describe()} was away for too long: {dropped} rows had no room in memory; "
                "give it a longer queue, or a fallback"
                if self._own_counts.failures
                else f"{self._describe()} did not keep up: {dropped} rows were dropped for it; "
                "record more slowly, or give it a longer queue"
            )
            errors.append(SinkWriteError(text))
        return errors + self._close_failures

    async def run(self) -> None:
        """Write until :meth:`finish`, then close the sink. Shielded from cancellation."""
        try:
            with self._scope:
                async with anyio.create_task_group() as closing:
                    try:
                        await self._write_all(closing)
                    finally:
                        await self._close(self._own)
                        await self._close(self._standing_in)
            if self._scope.cancelled_caught:
                self._failure = self._failure or SinkWriteError(
                    f"the last samples could not be flushed to {self._describe()} in time: check "
                    "that the disk still answers, then recover the files"
                )
                self._counts.error = str(self._failure)
        finally:
            self._idle.set()
            self._closed.set()

    async def _write_all(self, closing: anyio.abc.TaskGroup) -> None:
        while self.healthy:
            if self._failed is not None and self._reopen is not None and await self._try_again():
                continue
            sink = self._sink
            if sink is None:
                if self._finishing.is_set():
                    return
                await self._wait_until_due()
                continue
            try:
                batch = await self._next_batch()
            except StopAsyncIteration:
                if await self._is_flushed(sink, closing):
                    return
                continue
            if batch is not None:
                await self._write(sink, batch, closing)
                if not len(self._queue):
                    self._idle.set()

    async def _next_batch(self) -> SampleBatch | None:
        """The next batch; None when it is time to open a failed sink again."""
        if self._failed is None or self._reopen is None or self._finishing.is_set():
            return await self._queue.get()
        batch = None
        with anyio.CancelScope(deadline=self._due):
            batch = await self._queue.get()
        return batch

    async def _is_flushed(self, sink: Sink, closing: anyio.abc.TaskGroup) -> bool:
        """Make the last rows durable while the sink can still be opened again."""
        if self._reopen is None or sink is not self._own:
            return True
        try:
            await sink.flush()
        except Exception as error:
            await self._fail(sink, error, None, True, closing)
            return False
        return True

    async def _wait_until_due(self) -> None:
        with anyio.CancelScope(deadline=self._due):
            await self._finishing.wait()

    async def _write(self, sink: Sink, batch: SampleBatch, closing: anyio.abc.TaskGroup) -> None:
        limit = self._batch_timeout
        accepted = getattr(sink, "rows_accepted", None)
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
            if self._fallback is not None or self._reopen is not None:
                self._keep(sink, batch)
            return
        was_accepted = accepted is not None and getattr(sink, "rows_accepted", 0) > accepted
        await self._fail(sink, failure, batch, was_accepted, closing)

    def _keep(self, sink: Sink, batch: SampleBatch) -> None:
        kept = self._at_risk
        kept.append(batch)
        spare = sum(map(len, kept)) - getattr(sink, "rows_at_risk", 0)
        while kept and spare >= len(kept[0]):
            spare -= len(kept.popleft())

    # -- after a failure ----------------------------------------------------------------------

    async def _fail(
        self,
        sink: Sink,
        failure: Exception,
        batch: SampleBatch | None,
        was_accepted: bool,
        closing: anyio.abc.TaskGroup,
    ) -> None:
        self._failure = self._failure or failure
        self._rescued = False
        self._counts.error = str(failure)
        self._counts.failures += 1
        if self._on_failure is not None:
            self._on_failure(sink, failure)
        closed = anyio.Event()
        # Beside, as a disk that does not answer may keep the close waiting for hours.
        closing.start_soon(self._close_failed, sink, closed)
        new = [] if batch is None else [batch]
        waiting = [*self._at_risk, *new]
        if sink is self._standing_in:
            self._standing_in = None
            self._at_risk.clear()
            # Its own sink may be back before it: what was at risk is written there.
            self._at_risk.extend(waiting)
            self._not_accepted = sum(map(len, waiting))
            self._idle.set()
            return
        self._own = None
        self._failed, self._failed_is_closed = sink, closed
        self._pause_s = _FIRST_PAUSE_S
        self._due = anyio.current_time() + self._pause_s
        self._not_accepted = 0 if was_accepted else sum(map(len, new))
        self._at_risk.extend(new)
        fallback, self._fallback = self._fallback, None
        if fallback is None and self._reopen_fallback is not None:
            try:
                fallback = await anyio.to_thread.run_sync(self._reopen_fallback)
            except Exception as error:
                self._close_failures.append(error)
        if fallback is not None and waiting and await self._stand_in(fallback, waiting[-1]):
            for each in waiting:
                if self._standing_in is fallback:
                    await self._write(fallback, each, closing)
        if self._sink is None:
            self._idle.set()  # nobody waits for what may take days

    async def _stand_in(self, fallback: Sink, batch: SampleBatch) -> bool:
        try:
            await fallback.open(batch.schema)
        except Exception as error:
            self._close_failures.append(error)
            return False
        self._own_counts.replaced_by = describe_sink(fallback)
        self._counts = self._register(fallback)
        self._standing_in = fallback
        self._rescued = True
        self._at_risk.clear()
        self._not_accepted = 0
        return True

    async def _close_failed(self, sink: Sink, closed: anyio.Event) -> None:
        try:
            if self._reopen is None:
                await self._close(sink)
            else:
                # What it says now does not matter if it comes back; else its failure is reported.
                await self._close_quietly(sink)
        finally:
            closed.set()

    async def _try_again(self) -> bool:
        """Open the failed sink again, if it is time for that; whether it is written again."""
        failed, reopen = self._failed, self._reopen
        assert failed is not None and reopen is not None
        if anyio.current_time() < self._due and not self._finishing.is_set():
            return False
        if not self._failed_is_closed.is_set():
            if self._finishing.is_set():
                await self._failed_is_closed.wait()
            else:
                self._put_off()
                return False
        if self._finishing.is_set():
            if self._standing_in is not None:
                return False
            if self._tried_at_end:
                self._give_up(failed)
                return False
            self._tried_at_end = True
        successor: Sink | None = None
        try:
            successor = await anyio.to_thread.run_sync(reopen)
            # Without a schema: what is missing in it is counted before it begins a part.
            await successor.open()
            missing = await self._missing_rows(failed, successor)
        except Exception as error:
            self._counts.error = str(error) if self._standing_in is None else self._counts.error
            if successor is not None:
                with anyio.CancelScope(shield=True):
                    await self._close_quietly(successor)
            self._put_off()
            return False
        await self._take_back(successor, missing)
        return True

    async def _missing_rows(self, failed: Sink, successor: Sink) -> int:
        """How many of the rows that wait here are not in the place of the failed sink."""
        if self._standing_in is not None:
            return 0  # they are in the fallback
        at_risk = getattr(failed, "rows_at_risk", 0)
        if isinstance(failed, ThreadedSink) and isinstance(successor, ThreadedSink):
            at_risk = await failed.rows_missing_in(successor)
        return self._not_accepted + int(at_risk)

    async def _take_back(self, successor: Sink, missing: int) -> None:
        waiting, self._at_risk = [*self._at_risk], deque()
        standing_in, self._standing_in = self._standing_in, None
        self._failed = None
        self._own = successor
        self._counts = self._own_counts
        self._counts.error = None
        self._rescued = True
        self._pause_s = _FIRST_PAUSE_S
        if standing_in is not None:
            await self._close(standing_in)
        if self._on_return is not None:
            self._on_return(successor)
        skip = max(0, sum(map(len, waiting)) - missing)
        rest: list[SampleBatch] = []
        for batch in waiting:
            if skip < len(batch):
                rest.append(batch.slice(skip) if skip else batch)
            skip = max(0, skip - len(batch))
        # Rows that were counted as written, and were not.
        self._counts.rows_written -= max(0, sum(map(len, rest)) - self._not_accepted)
        self._not_accepted = 0
        self._queue.put_back(rest)
        if len(self._queue):
            self._idle = anyio.Event()

    def _put_off(self) -> None:
        self._due = anyio.current_time() + self._pause_s
        self._pause_s = min(2 * self._pause_s, _LONGEST_PAUSE_S)

    def _give_up(self, failed: Sink) -> None:
        """The recording ends and the sink is not back: what waits for it is lost."""
        self._reopen = None
        self._rescued = False
        unwritten = self._not_accepted + int(getattr(failed, "rows_at_risk", 0))
        unwritten = min(sum(map(len, self._at_risk)), unwritten)
        self._own_counts.rows_lost += self._queue.weight + unwritten

    async def _close_quietly(self, sink: Sink) -> None:
        with contextlib.suppress(Exception):
            await sink.close()

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
