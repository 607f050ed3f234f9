"""What a sink is, and how a file format becomes one.

A file format is written as a plain synchronous class (:class:`RecordFile`); :class:`ThreadedSink`
runs it in a worker thread, one hop a batch, so that neither a slow disk nor compression ever
holds up the event loop and with it the next poll.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, TypeVar, runtime_checkable

import anyio
import anyio.to_thread

from .batch import SampleBatch
from .errors import SinkWriteError
from .sample import Sample
from .schema import RecordSchema

__all__ = [
    "NamedRecordFile",
    "PathSink",
    "RecordFile",
    "Sink",
    "SinkBase",
    "SupportsMetadata",
    "ThreadedSink",
]

T = TypeVar("T")
SinkT = TypeVar("SinkT", bound="SinkBase")


class Sink(Protocol):
    """Where batches go.

    ``open`` reserves the place (and fails early), ``write_batch`` returns once the batch is
    flushed, ``close`` finishes. ``open`` and ``close`` may be called again without effect.
    """

    async def open(self) -> None: ...

    async def write_batch(self, batch: SampleBatch) -> None: ...

    async def write_many(self, samples: Iterable[Sample]) -> None: ...

    async def close(self) -> None: ...


@runtime_checkable
class SupportsMetadata(Protocol):
    """A sink that can store more facts about the recording when it is closed."""

    def add_metadata(self, facts: Mapping[str, Any]) -> None: ...


class SinkBase(ABC):
    """Sample objects to batches, and ``async with``, for every sink."""

    def __init__(self) -> None:
        self._samples_schema = RecordSchema()

    @abstractmethod
    async def open(self) -> None:
        """Reserve the place to write to."""

    @abstractmethod
    async def write_batch(self, batch: SampleBatch) -> None:
        """Write a batch and flush it."""

    @abstractmethod
    async def close(self) -> None:
        """Finish writing."""

    async def write_many(self, samples: Iterable[Sample]) -> None:
        """Write sample objects as one batch; :meth:`write_batch` is the fast way."""
        batch = SampleBatch.from_samples(samples, self._samples_schema)
        self._samples_schema = batch.schema
        await self.write_batch(batch)

    async def __aenter__(self: SinkT) -> SinkT:
        await self.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # Shielded: a cancelled recording must still be finished on disk.
        with anyio.CancelScope(shield=True):
            await self.close()


class RecordFile(Protocol):
    """A file format, synchronous. Called by one thread at a time, not always the same one."""

    def open(self) -> None:
        """Create the file, exclusively unless told to overwrite."""

    def write(self, batch: SampleBatch) -> None:
        """Append a batch and flush it to the operating system."""

    def close(self, facts: Mapping[str, Any]) -> None:
        """Finish the file, storing ``facts`` beside the recording's metadata."""


class NamedRecordFile(RecordFile, Protocol):
    """A file format that lies under a path of the user's, and beside it when fields turn up."""

    @property
    def path(self) -> Path: ...

    @property
    def paths(self) -> Sequence[Path]: ...


class ThreadedSink(SinkBase):
    """Runs a :class:`RecordFile` in a worker thread of its own limiter.

    Cancelling ``write_batch`` ends the wait, not the write: a batch that has reached the worker
    thread is written whole, one that has not is not written at all.
    """

    def __init__(self, file: RecordFile) -> None:
        super().__init__()
        self._file = file
        self._lock = threading.Lock()
        self._limiter: anyio.CapacityLimiter | None = None
        self._facts: dict[str, Any] = {}
        self._closed = False

    async def open(self) -> None:
        if self._limiter is None:
            self._limiter = anyio.CapacityLimiter(1)
            try:
                # Shielded, because a file that a cancelled wait has created has no owner.
                with anyio.CancelScope(shield=True):
                    await self._hop(self._file.open)
            except BaseException:
                self._limiter = None
                raise

    async def write_batch(self, batch: SampleBatch) -> None:
        if self._limiter is None or self._closed:
            state = "closed" if self._closed else "not open"
            raise SinkWriteError(f"{self!r} is {state}: open it before the first batch")
        await self._hop(lambda: self._file.write(batch))

    def add_metadata(self, facts: Mapping[str, Any]) -> None:
        """Facts to be stored in the file when it is closed (JSON types)."""
        self._facts.update(facts)

    async def close(self) -> None:
        if self._limiter is None or self._closed:
            return
        await self._hop(self._finish)

    def _finish(self) -> None:
        # Marked here and not before the hop: a cancellation that comes before the worker thread
        # has begun leaves a sink that can still be closed.
        if not self._closed:
            self._closed = True
            self._file.close(self._facts)

    async def _hop(self, work: Callable[[], T]) -> T:
        def locked() -> T:
            # A cancelled wait leaves its thread running and gives the limiter back: the lock is
            # what keeps the next operation behind it.
            with self._lock:
                return work()

        return await anyio.to_thread.run_sync(locked, abandon_on_cancel=True, limiter=self._limiter)


class PathSink(ThreadedSink):
    """A sink that writes files under the path it was given."""

    def __init__(self, file: NamedRecordFile) -> None:
        super().__init__(file)
        self._named = file

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.path)!r})"

    @property
    def path(self) -> Path:
        """The file asked for."""
        return self._named.path

    @property
    def paths(self) -> tuple[Path, ...]:
        """All files of this recording: one, unless new fields turned up."""
        return tuple(self._named.paths)
