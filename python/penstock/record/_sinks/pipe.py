"""Writes a running recording into sinks, without losing rows at its end.

Each sink has a queue and a task of its own. Rejected: writing to one sink after another, where the
slowest sets the pace of all, and in the end that of the polls.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol

import anyio

from penstock._plain_task_group import plain_task_group
from penstock.overflow import OverflowPolicy
from penstock.record._columns.batch import SampleBatch
from penstock.record._sampling.summary import AcquisitionSummary
from penstock.record._sinks.sink_writer import SinkWriter
from penstock.record.schema import RecordSchema
from penstock.record.sink import Sink

_LONGEST_INTERVAL_S = 1.0
_SHORTEST_INTERVAL_S = 0.02
"""With a loss window of nothing each batch is durable; fewer rows a batch would only cost CPU."""


class BatchSource(Protocol):
    """The source of rows for :func:`pipe`: a :class:`~penstock.record.Recording`, for example."""

    @property
    def schema(self) -> RecordSchema:
        """The columns of the rows so far. Later batches may have more."""

    @property
    def schema_known(self) -> bool:
        """Whether the columns of all devices are known, so that a sink can be opened with them."""

    @property
    def summary(self) -> AcquisitionSummary:
        """The counts of the run, which grow while it lasts."""

    async def next_batch(
        self, min_rows: int = 1, max_wait: float | None = None
    ) -> SampleBatch | None:
        """Take the waiting rows, once there are ``min_rows`` or ``max_wait`` seconds have passed.

        Returns an empty batch if ``max_wait`` passes without a row, and None when the recording has
        ended and all rows have been taken. A cancelled call takes no rows.
        """

    def take(self) -> SampleBatch:
        """Take the rows that wait now, as far as they have one schema; may be empty."""

    def stop(self) -> None:
        """Begin the end of the recording: no further poll starts. Does not wait."""

    async def wait_finished(self) -> None:
        """Return when the recording has ended. Rows may still wait to be taken."""


async def pipe(
    recording: BatchSource,
    *sinks: Sink,
    fallbacks: Mapping[Sink, Sink] | None = None,
    reopen: Mapping[Sink, Callable[[], Sink]] | None = None,
    batch_size: int = 4096,
    flush_interval: float | None = None,
    on_batch: Callable[[SampleBatch], Awaitable[Any] | None] | None = None,
    on_sink_failure: Callable[[Sink, Exception], Any] | None = None,
    on_sink_return: Callable[[Sink], Any] | None = None,
    flush_timeout: float = 30.0,
    queue_rows: int = 262_144,
    queue_overflow: OverflowPolicy = OverflowPolicy.DROP_NEWEST,
) -> AcquisitionSummary:
    """Write a recording into every sink until the recording ends; return the final summary.

    Sinks that are not open are opened first. If one of them cannot be opened, nothing is written to
    any. All sinks are closed at the end.

    Each sink has a queue of ``queue_rows`` rows, so a slow sink delays neither the polls nor the
    other sinks.

    A sink that fails, or takes more than ``flush_timeout`` seconds for a batch, gets no more rows.
    Its entry in ``fallbacks``, if there is one, is opened and gets the rows that the failed sink
    had not made durable; some rows may then be in both. The recording goes on as long as one sink
    is healthy, and the error is raised at its end.

    ``reopen[sink]`` returns a new sink that continues the destination of the failed one, such as
    ``lambda: CsvSink("run.csv", append=True)``. It is called in a worker thread, and the new sink
    is opened, after one second and then with a back-off that doubles up to a minute. When the new
    sink has opened, it gets the rows that the failed one had not written, in order and none twice;
    a failure that lost no row is then no error. Until then, rows stay in the queue or go to the
    fallback, whose entry in ``reopen`` returns the next one. A sink with an entry in ``reopen``
    counts as healthy.

    After a cancellation or an exception, polling stops, all received rows are written, the sinks
    are closed, and then the exception is raised. That takes at most ``flush_timeout`` seconds, and
    the time for a batch that is being written. Errors of sinks are then not raised; they are in
    ``recording.summary.sinks``.

    Args:
        recording: the source of the rows.
        *sinks: the destinations.
        fallbacks: for a sink, the sink that replaces it after a failure.
        reopen: for a sink, the function that returns a sink for the same destination.
        batch_size: the number of queued samples at which a batch is handed to the sinks.
        flush_interval: seconds after which a smaller batch is handed over, even if a device has
            stalled. By default a quarter of the shortest loss window of the sinks, so that the
            window holds for the whole recording; a longer interval adds to the window.
        on_batch: called, and awaited, with each batch when all sinks have it; the next batch then
            waits for the slowest sink.
        on_sink_failure: called with a failed sink and its error.
        on_sink_return: called with a sink of ``reopen`` that has opened.
        flush_timeout: the longest time in seconds for one batch, and for the end.
        queue_rows: the size of each sink's queue.
        queue_overflow: what happens when a queue is full: rows are dropped for this sink only and
            counted in ``summary.sinks``, or with BLOCK the recording waits for this sink.

    Raises:
        SinkError: a sink failed that no fallback has replaced, or a queue dropped rows. If there
            are several errors, the others are notes of the first.
        ValueError: ``fallbacks`` or ``reopen`` has a sink that is not among the sinks.
    """
    if unknown := [sink for sink in fallbacks or {} if sink not in sinks]:
        raise ValueError(f"fallbacks has {unknown[0]!r}, which is not among the sinks")
    stand_ins, again = dict(fallbacks or {}), dict(reopen or {})
    if others := [sink for sink in again if sink not in (*sinks, *stand_ins.values())]:
        raise ValueError(f"reopen has {others[0]!r}, which is not among the sinks")
    if flush_interval is None:
        flush_interval = _interval_within_windows(sinks)
    await _open_all(recording, sinks)
    writers = [
        SinkWriter(
            sink,
            recording.summary,
            fallback=stand_ins.get(sink),
            reopen=again.get(sink),
            reopen_fallback=again.get(stand_ins[sink]) if sink in stand_ins else None,
            queue_rows=queue_rows,
            overflow=queue_overflow,
            batch_timeout=flush_timeout,
            on_failure=on_sink_failure,
            on_return=on_sink_return,
        )
        for sink in sinks
    ]
    async with plain_task_group() as tasks:
        for writer in writers:
            tasks.start_soon(writer.run)
        try:
            while _healthy(writers):
                batch = await recording.next_batch(batch_size, flush_interval)
                if batch is None:
                    break
                if len(batch):
                    await _wait_for_room(writers)
                    _put(writers, batch)
                    if on_batch is not None:
                        for writer in writers:
                            await writer.wait_written()
                        called = on_batch(batch)
                        if inspect.isawaitable(called):
                            await called
        finally:
            recording.stop()
            with anyio.move_on_after(flush_timeout, shield=True):
                await recording.wait_finished()
            while len(batch := recording.take()):
                _put(writers, batch)
            facts = {"summary": recording.summary.as_dict()}
            for writer in writers:
                writer.finish(facts, anyio.current_time() + flush_timeout)
            with anyio.CancelScope(shield=True):
                for writer in writers:
                    await writer.wait_closed()
    _raise_first([error for writer in writers for error in writer.errors()])
    return recording.summary


def _interval_within_windows(sinks: Sequence[Sink]) -> float:
    """How long rows may wait here, so that the loss windows of the sinks hold for a recording.

    A sink syncs half a window after it has accepted a row. A quarter before that leaves the last
    quarter to the disk.
    """
    windows = [getattr(sink, "window", None) for sink in sinks]
    seconds: list[float] = [each.seconds for each in windows if each and each.seconds is not None]
    return max(_SHORTEST_INTERVAL_S, min([_LONGEST_INTERVAL_S, *(each / 4 for each in seconds)]))


async def _open_all(recording: BatchSource, sinks: Sequence[Sink]) -> None:
    """Open every sink, or none: those opened before one that fails are closed unwritten.

    Shielded, so that a run that is cancelled before its first sample leaves files with their
    columns.
    """
    opened: list[Sink] = []
    try:
        for sink in sinks:
            with anyio.CancelScope(shield=True):
                await sink.open(recording.schema if recording.schema_known else None)
            opened.append(sink)
    except BaseException:
        recording.stop()
        with anyio.CancelScope(shield=True):
            for sink in opened:
                await sink.close()
        raise


def _healthy(writers: Sequence[SinkWriter]) -> bool:
    """Whether there is somewhere to write to; a recording without sinks only counts."""
    return not writers or any(writer.healthy for writer in writers)


def _put(writers: Sequence[SinkWriter], batch: SampleBatch) -> None:
    for writer in writers:
        writer.put(batch)


async def _wait_for_room(writers: Sequence[SinkWriter]) -> None:
    for writer in writers:
        await writer.wait_for_room()


def _raise_first(failures: Sequence[Exception]) -> None:
    if failures:
        first, *others = failures
        for other in others:
            first.add_note(f"also: {other}")
        raise first
