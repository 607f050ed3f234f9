"""The interface of sinks, and the sink that writes a file format.

A file format is a plain synchronous class (:class:`RecordFile`). :class:`ThreadedSink` runs it
outside the event loop: rows are accepted at once, gathered, and written by a worker thread, so that
neither a slow disk nor compression delays the next poll. A second thread keeps the loss window.
"""

from __future__ import annotations

import math
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, TypeVar, runtime_checkable

import anyio
import anyio.lowlevel
import anyio.to_thread

from penstock._torn_end import Cut
from penstock.record._columns.batch import SampleBatch
from penstock.record._sample import Sample
from penstock.record.errors import SinkWriteError
from penstock.record.schema import RecordSchema

__all__ = [
    "LossWindow",
    "PathSink",
    "RecordFile",
    "Sink",
    "SinkBase",
    "SupportsMetadata",
    "ThreadedSink",
    "describe_sink",
]

T = TypeVar("T")
SinkT = TypeVar("SinkT", bound="SinkBase")

# Rows that may wait for the worker thread. A hop to a thread costs as much as writing 500 rows.
_GATHERED_ROWS = 8192
# How long a task may pass rows before other tasks run.
_TIME_SLICE_S = 0.001


class Sink(Protocol):
    """The destination of rows: a file, a folder or a table of a database.

    All methods are called from one event loop, one at a time. Calling ``open`` or ``close`` again
    has no effect, except that ``open`` of an open sink accepts a schema that was not known before.
    """

    async def open(
        self, schema: RecordSchema | None = None, metadata: Mapping[str, Any] | None = None
    ) -> None:
        """Create or open the destination, and write its head if the columns are known.

        Args:
            schema: the columns of the first batch. The head is durable on return.
            metadata: facts for every part (JSON types), besides those of ``schema.metadata``.

        Raises:
            SinkExistsError: the destination exists and the sink neither overwrites nor appends.
            SinkDependencyError: a package is missing.
            SinkWriteError: the destination cannot be created.
        """

    async def write_batch(self, batch: Any) -> None:
        """Accept rows: a SampleBatch, or a ``pyarrow.RecordBatch`` with its columns.

        The rows are durable within the sink's loss window. A batch whose fields, units or metadata
        differ from those of the batch before begins a new part.

        Raises:
            SinkWriteError: these rows, or rows accepted earlier, could not be written. The sink
                then accepts no more rows, but must still be closed.
            SinkSchemaError: an Arrow batch lacks the fixed columns.
        """

    async def write_many(self, samples: Iterable[Sample]) -> None:
        """Accept sample objects, like :meth:`write_batch`."""

    async def flush(self) -> None:
        """Return when all accepted rows are durable."""

    async def close(self) -> None:
        """Write all accepted rows, finish the destination and release it."""


@runtime_checkable
class SupportsMetadata(Protocol):
    """A sink that can store more facts about the recording when it is closed."""

    def add_metadata(self, facts: Mapping[str, Any]) -> None:
        """Store ``facts``, of JSON types, with the recording's metadata when the sink is closed."""


class SinkBase(ABC):
    """Sample objects to batches, and ``async with``, for every sink."""

    def __init__(self) -> None:
        self._samples_schema = RecordSchema()

    @abstractmethod
    async def open(
        self, schema: RecordSchema | None = None, metadata: Mapping[str, Any] | None = None
    ) -> None:
        """Create or open the destination; see :meth:`Sink.open`."""

    @abstractmethod
    async def write_batch(self, batch: Any) -> None:
        """Accept a batch; see :meth:`Sink.write_batch`."""

    @abstractmethod
    async def close(self) -> None:
        """Finish writing."""

    async def write_many(self, samples: Iterable[Sample]) -> None:
        """Accept sample objects as one batch."""
        batch = SampleBatch.from_samples(samples, self._samples_schema)
        self._samples_schema = batch.schema
        await self.write_batch(batch)

    async def flush(self) -> None:
        """Do nothing: for a sink whose ``write_batch`` is final."""
        await anyio.lowlevel.checkpoint()

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
        """Create the file, exclusively unless it overwrites or appends."""

    def write(self, batch: SampleBatch) -> None:
        """Append rows, for ``sync`` to make durable. The first batch, even empty, begins the file.

        A batch with other fields, units or metadata begins a new part.
        """

    def sync(self) -> None:
        """Make all that was written durable."""

    def close(self, facts: Mapping[str, Any]) -> None:
        """Finish the file, storing ``facts`` beside the recording's metadata."""


class NamedRecordFile(RecordFile, Protocol):
    """A file format with a path of the user, and further files beside it when fields are added."""

    @property
    def path(self) -> Path:
        """The path that the user has given."""

    @property
    def paths(self) -> Sequence[Path]:
        """Every file of the recording so far, in the order of their rows."""

    @property
    def cuts(self) -> Sequence[Cut]:
        """The torn ends that opening has cut off."""


@runtime_checkable
class FollowedFile(Protocol):
    """A file format that can tell what an earlier writer of the same file has left in it."""

    def position(self) -> Any:
        """Where the rows end that are durable now."""

    def rows_behind(self, position: Any) -> int | None:
        """How many rows the file has after a position of its earlier writer; None: unknown.

        For a file that was opened with ``append`` and not written yet. OSError.
        """


class _Waiting:
    """Rows that were accepted and not yet written, with the age of the oldest row at risk.

    Filled by the event loop's thread, emptied by the threads that write.
    """

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.items: deque[SampleBatch | list[Sample]] = deque()
        self.rows = 0  # waiting in ``items``
        self.unsynced_rows = 0  # written, not durable
        self._oldest_item: float | None = None
        self._oldest_unsynced: float | None = None
        self.closed = False

    def put(self, item: SampleBatch | list[Sample], rows: int) -> None:
        with self.changed:
            self.items.append(item)
            self.rows += rows
            if self._oldest_item is None:
                self._oldest_item = time.monotonic()
                self.changed.notify()

    def take(self) -> list[SampleBatch | list[Sample]]:
        with self.changed:
            items = list(self.items)
            self.items.clear()
            self.unsynced_rows += self.rows
            self.rows = 0
            if self._oldest_unsynced is None:
                self._oldest_unsynced = self._oldest_item
            self._oldest_item = None
        return items

    def synced(self) -> None:
        with self.changed:
            self.unsynced_rows = 0
            self._oldest_unsynced = None

    def oldest(self) -> float | None:
        """When the oldest row that is not durable was accepted; call with ``changed`` held."""
        return self._oldest_item if self._oldest_unsynced is None else self._oldest_unsynced


class ThreadedSink(SinkBase):
    """Runs a :class:`RecordFile` outside the event loop.

    ``write_*`` accepts rows and returns. It waits for the disk only if 8192 rows are queued, or if
    the loss window has no more room. At the latest half of the window's seconds after a row was
    accepted, a thread of the sink begins to write and sync it, whether or not the event loop runs.
    The next call raises the errors of this thread.

    Cancelling a wait ends the wait, not the write: the rows of a call are accepted all or none.
    """

    def __init__(self, file: RecordFile, window: LossWindow | None = None) -> None:
        super().__init__()
        self.window: LossWindow = LossWindow() if window is None else window
        self._file = file
        self._lock = threading.Lock()
        self._waiting = _Waiting()
        self._limiter: anyio.CapacityLimiter | None = None
        self._head: dict[str, Any] = {}
        self._headed: tuple[RecordSchema, RecordSchema] | None = None
        self._facts: dict[str, Any] = {}
        self._failure: Exception | None = None
        self._failure_raised = False
        self._closed = False
        self._turn_ends = 0.0
        self._position: Any = None
        self._at_risk_at_end: int | None = None
        self.rows_accepted: int = 0
        """Rows of all calls so far, written or not."""

    async def open(
        self, schema: RecordSchema | None = None, metadata: Mapping[str, Any] | None = None
    ) -> None:
        """Create or open the file; with a schema, write its head. A second call only adds facts.

        A cancelled call creates the file before it raises, so that the file is closed in any case.

        Raises:
            SinkExistsError: the file holds another recording.
            SinkWriteError: the file cannot be written.
        """
        if self._limiter is None:
            self._limiter = anyio.CapacityLimiter(1)
            try:
                # Shielded, because a file that a cancelled wait has created has no owner.
                with anyio.CancelScope(shield=True):
                    await self._hop(self._open_file)
            except BaseException:
                self._limiter = None
                raise
            if self.window.seconds is not None:
                threading.Thread(
                    target=self._keep_window, name=f"{type(self).__name__} window", daemon=True
                ).start()
        if metadata:
            self._head.update(metadata)
        if schema is not None:
            self._samples_schema = schema
            await self.write_batch(SampleBatch.empty(schema))

    async def write_batch(self, batch: Any) -> None:
        """Accept a batch, or an Arrow record batch; an empty one writes the head with its columns.

        Waits only for room: see the class.

        Raises:
            SinkWriteError: the sink is not open, or an earlier row could not be written.
        """
        self._check()
        await self._pass_turn()
        if not isinstance(batch, SampleBatch):
            batch = SampleBatch.from_arrow(batch)
        self._waiting.put(batch, len(batch))
        self.rows_accepted += len(batch)
        # An empty batch tells the columns: the head is on disk before the first row.
        await self._make_room(durable=not len(batch))

    async def write_many(self, samples: Iterable[Sample]) -> None:
        """Accept sample objects, like :meth:`write_batch`."""
        self._check()
        await self._pass_turn()
        rows = list(samples)
        self._waiting.put(rows, len(rows))
        self.rows_accepted += len(rows)
        await self._make_room()

    async def flush(self) -> None:
        """Return when all that was accepted is durable.

        Raises:
            SinkWriteError: the sink is not open, or rows could not be written.
        """
        self._check()
        await self._hop(self._write_and_sync)

    def add_metadata(self, facts: Mapping[str, Any]) -> None:
        """Facts to be stored in the file when it is closed (JSON types)."""
        self._facts.update(facts)

    async def close(self) -> None:
        """Write what was accepted, finish the file and close it. Repeated calls do nothing.

        Raises:
            SinkWriteError: rows could not be written, and no earlier call has said so.
        """
        if self._limiter is None or self._closed:
            return
        await self._hop(self._finish)

    @property
    def failure(self) -> Exception | None:
        """The error after which the sink accepts no more rows, or None. Any thread may read it."""
        return self._failure

    @property
    def rows_at_risk(self) -> int:
        """Rows that were accepted and are not durable. Any thread may read it."""
        if self._at_risk_at_end is not None:
            return self._at_risk_at_end
        return self._waiting.rows + self._waiting.unsynced_rows

    async def rows_missing_in(self, successor: ThreadedSink) -> int:
        """The number of accepted rows that this closed sink has not written.

        ``successor`` has opened the same destination with ``append``, and has not written yet. If
        the format cannot find the number, all rows count that may be missing.
        """
        at_risk = self.rows_at_risk
        file, position = successor._file, self._position
        if not at_risk or position is None or not isinstance(file, FollowedFile):
            return at_risk
        behind = await successor._hop(lambda: file.rows_behind(position))
        return at_risk if behind is None else max(0, min(at_risk, at_risk - behind))

    def _check(self) -> None:
        if self._limiter is None or self._closed:
            state = "closed" if self._closed else "not open"
            raise SinkWriteError(f"{self!r} is {state}: open it before the first batch")
        if self._failure is not None:
            self._failure_raised = True
            raise self._failure

    async def _pass_turn(self) -> None:
        """Check for a cancellation, and let other tasks run from time to time.

        A turn for each call would take longer than the rows of a small one.
        """
        if time.monotonic() < self._turn_ends:
            await anyio.lowlevel.checkpoint_if_cancelled()
        else:
            await anyio.lowlevel.checkpoint()
            self._turn_ends = time.monotonic() + _TIME_SLICE_S

    async def _make_room(self, *, durable: bool = False) -> None:
        if durable or self.window.is_full(self.rows_at_risk):
            await self._hop(self._write_and_sync)
        elif self._waiting.rows >= _GATHERED_ROWS:
            await self._hop(self._write)

    # -- in a worker thread, with the lock ----------------------------------------------------

    def _open_file(self) -> None:
        self._file.open()
        self._note_position()

    def _note_position(self) -> None:
        if isinstance(self._file, FollowedFile):
            self._position = self._file.position()

    def _write(self) -> None:
        if self._failure is not None:
            raise self._failure
        try:
            self._write_items(self._waiting.take())
        except Exception as error:
            self._failure = error
            raise

    def _write_and_sync(self) -> None:
        self._write()
        try:
            self._file.sync()
        except Exception as error:
            self._failure = error
            raise
        self._waiting.synced()
        self._note_position()

    def _write_items(self, items: Sequence[SampleBatch | list[Sample]]) -> None:
        samples: list[Sample] = []
        for item in items:
            if isinstance(item, list):
                samples.extend(item)
                continue
            self._write_samples(samples)
            samples = []
            self._file.write(self._with_head(item))
        self._write_samples(samples)

    def _write_samples(self, samples: Sequence[Sample]) -> None:
        if samples:
            batch = SampleBatch.from_samples(samples, self._samples_schema)
            self._samples_schema = batch.schema
            self._file.write(self._with_head(batch))

    def _with_head(self, batch: SampleBatch) -> SampleBatch:
        if not self._head:
            return batch
        if self._headed is None or self._headed[0] != batch.schema:
            self._headed = (batch.schema, batch.schema.with_facts(self._head))
        return batch.described_by(self._headed[1])

    def _finish(self) -> None:
        # Marked here and not before the hop: a cancellation that comes before the worker thread
        # has begun leaves a sink that can still be closed.
        if self._closed:
            return
        self._closed = True
        with self._waiting.changed:
            self._waiting.closed = True
            self._waiting.changed.notify()
        try:
            if self._failure is None:
                self._write()
        finally:
            at_risk = self.rows_at_risk if self._failure is not None else 0
            self._at_risk_at_end = self.rows_at_risk  # unless it closes well
            self._file.close(self._facts)
            self._at_risk_at_end = at_risk
            self._waiting.synced()
        if self._failure is not None and not self._failure_raised:
            raise self._failure

    async def _hop(self, work: Callable[[], T]) -> T:
        def locked() -> T:
            # A cancelled wait leaves its thread running and gives the limiter back: the lock is
            # what keeps the next operation behind it.
            with self._lock:
                return work()

        try:
            return await anyio.to_thread.run_sync(
                locked, abandon_on_cancel=True, limiter=self._limiter
            )
        except Exception as error:
            # Not where it happened: a cancelled wait would have hidden it.
            self._failure_raised |= error is self._failure
            raise

    def _keep_window(self) -> None:
        """Sync what has waited for half of the window; the other half is for the disk."""
        waiting = self._waiting
        assert self.window.seconds is not None
        patience = self.window.seconds / 2
        while True:
            with waiting.changed:
                while not waiting.closed:
                    oldest = waiting.oldest()
                    if oldest is not None and self._failure is None:
                        left = oldest + patience - time.monotonic()
                        if left <= 0:
                            break
                        waiting.changed.wait(left)
                    else:
                        waiting.changed.wait()
                if waiting.closed:
                    return
            with self._lock:
                if self._closed or self._failure is not None:
                    continue
                try:
                    self._write_items(waiting.take())
                    self._file.sync()
                except Exception as error:
                    self._failure = error
                else:
                    waiting.synced()
                    self._note_position()


class PathSink(ThreadedSink):
    """A sink that writes files under the path it was given."""

    def __init__(self, file: NamedRecordFile, window: LossWindow | None = None) -> None:
        super().__init__(file, window)
        self._named = file

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.path)!r})"

    @property
    def path(self) -> Path:
        """The path that was given to the sink."""
        return self._named.path

    @property
    def paths(self) -> tuple[Path, ...]:
        """All files of this recording: one, unless fields were added later."""
        return tuple(self._named.paths)

    @property
    def cuts(self) -> tuple[Cut, ...]:
        """The torn ends that ``open`` has cut off continued files, and where each is kept."""
        return tuple(self._named.cuts)


def describe_sink(sink: Sink) -> str:
    """The path of a sink that has one, else the name of its class."""
    path = getattr(sink, "path", None)
    return str(path) if path is not None else type(sink).__name__


# How much of a recording a crash or a power cut may lose.


@dataclass(frozen=True, slots=True)
class LossWindow:
    """The newest rows that a crash may lose, limited in age and number.

    The limits hold for SIGKILL, and for a power cut if the disk keeps the promise of fsync(2). A
    sink syncs half a window after it accepted a row; if the disk takes longer than the other half,
    the limit is exceeded.

    Attributes:
        seconds: the largest age; None sets no limit, 0 makes each call of ``write_*`` durable.
        rows: the largest number of rows; None sets no limit, 0 makes each call of ``write_*``
            durable. A call that exceeds the number returns when all rows so far are durable.

    Raises:
        ValueError: a limit is negative or not finite.
    """

    seconds: float | None = 1.0
    rows: int | None = None

    def __post_init__(self) -> None:
        if self.seconds is not None and not (math.isfinite(self.seconds) and self.seconds >= 0):
            raise ValueError(
                "a loss window must be at least 0 seconds, or None for no limit, not "
                f"{self.seconds!r}"
            )
        if self.rows is not None and self.rows < 0:
            raise ValueError(
                f"a loss window must be at least 0 rows, or None for no limit, not {self.rows!r}"
            )

    def is_full(self, rows_at_risk: int) -> bool:
        """True when ``rows_at_risk`` rows that are not durable are more than allowed."""
        if self.seconds == 0:
            return rows_at_risk > 0
        return self.rows is not None and rows_at_risk > self.rows
