"""From a running recording into sinks, losing nothing on the way out."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any

import anyio

from .batch import SampleBatch
from .errors import SinkWriteError
from .recorder import Recording
from .sink import Sink, SupportsMetadata
from .summary import AcquisitionSummary

__all__ = ["pipe"]


async def pipe(
    recording: Recording,
    *sinks: Sink,
    batch_size: int = 4096,
    flush_interval: float = 1.0,
    on_batch: Callable[[SampleBatch], Awaitable[Any] | None] | None = None,
    flush_timeout: float = 30.0,
) -> AcquisitionSummary:
    """Write a recording into every sink until it ends; returns its final summary.

    A batch is written and flushed when ``batch_size`` samples wait or ``flush_interval`` seconds
    after the last one, whichever comes first, whether or not a device has stalled. ``on_batch`` is
    called with each batch after the sinks have it. Sinks that are not open yet are opened (when one
    of them cannot be, nothing is written to any), and all are closed at the end.

    On cancellation or any exception polling is stopped, everything received is written, the sinks
    are closed complete, and then the exception leaves; all that takes at most ``flush_timeout``
    seconds. When a sink fails the recording stops, the other sinks get everything that was
    received, and the sink's error is raised.
    """
    await _open_all(recording, sinks)
    writer = _Writer(sinks)
    try:
        if recording.schema_known:
            # Columns and metadata are on disk before the first sample.
            await writer.write(SampleBatch.empty(recording.schema), flush_timeout)
        while not writer.failures:
            batch = await recording.next_batch(batch_size, flush_interval)
            if batch is None:
                break
            if len(batch):
                await writer.write(batch, flush_timeout)
                if on_batch is not None:
                    called = on_batch(batch)
                    if inspect.isawaitable(called):
                        await called
    finally:
        recording.stop()
        with anyio.move_on_after(flush_timeout, shield=True) as scope:
            await recording.wait_finished()
            await writer.write(recording.take(), flush_timeout)
            writer.add_metadata({"summary": recording.summary.as_dict()})
            await writer.close()
        if scope.cancelled_caught:
            writer.failures.append(
                SinkWriteError(
                    f"the last samples could not be flushed within {flush_timeout:g} s: "
                    "check that the disk still answers, then recover the files"
                )
            )
        writer.raise_first()
    return recording.summary


async def _open_all(recording: Recording, sinks: tuple[Sink, ...]) -> None:
    """Open every sink, or none: those opened before one that fails are closed unwritten."""
    opened: list[Sink] = []
    try:
        for sink in sinks:
            await sink.open()
            opened.append(sink)
    except BaseException:
        recording.stop()
        with anyio.CancelScope(shield=True):
            for sink in opened:
                await sink.close()
        raise


class _Writer:
    """All sinks as one: a failed one is left out from then on, but still closed."""

    def __init__(self, sinks: tuple[Sink, ...]) -> None:
        self._sinks = sinks
        self._healthy = list(sinks)
        self.failures: list[Exception] = []

    async def write(self, batch: SampleBatch, limit: float) -> None:
        # Shielded, because the batch has left the recording's buffer: a cancellation between two
        # sinks would leave it in one and not in the other.
        with anyio.move_on_after(limit, shield=True) as scope:
            for sink in tuple(self._healthy):
                try:
                    await sink.write_batch(batch)
                except Exception as error:
                    self._healthy.remove(sink)
                    self.failures.append(error)
        if scope.cancelled_caught:
            self.failures.append(
                SinkWriteError(
                    f"{len(batch)} samples could not be written within {limit:g} s: "
                    "check that the disk still answers"
                )
            )

    def add_metadata(self, facts: dict[str, Any]) -> None:
        for sink in self._sinks:
            if isinstance(sink, SupportsMetadata):
                sink.add_metadata(facts)

    async def close(self) -> None:
        for sink in self._sinks:
            try:
                await sink.close()
            except Exception as error:
                self.failures.append(error)

    def raise_first(self) -> None:
        if not self.failures:
            return
        first, *others = self.failures
        for other in others:
            first.add_note(f"also: {other}")
        raise first
