"""The sampling clock: polls every device at its slots and collects the rows.

One task per poll group. Rejected: one task for all devices (a dead device's timeouts would delay
every other bus) and one task per device (two devices of one bus would queue on its lock, and the
order of their polls within a slot would change from slot to slot).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager

import anyio
import anyio.abc
import anyio.lowlevel

from penstock.overflow import OverflowPolicy

from .batch import SampleBatch
from .cadence import Cadence
from .clock import Clock, SystemClock
from .columns import ColumnBuffer, describe_error
from .describe import describe_recording, known_unit_id
from .sample import from_utc_ns
from .schema import RecordSchema, unite
from .source import DeviceResultLike, GroupedPollSource, PollSource, SchemaSource
from .summary import AcquisitionSummary, DeviceSummary

__all__ = ["OverflowPolicy", "Recording", "record"]


class Recording:
    """A running recording: rows that wait to be taken, and the live summary.

    Made by :func:`record`. To be used from the event loop's thread only, and by one consumer.
    """

    def __init__(
        self,
        source: PollSource,
        names: Sequence[str],
        groups: Sequence[tuple[str, ...]],
        *,
        one_by_one: bool,
        rate_hz: float,
        duration: float | None,
        overflow: OverflowPolicy,
        buffer_size: int,
        clock: Clock,
    ) -> None:
        if buffer_size < 1:
            raise ValueError(f"buffer_size must be at least 1 sample, not {buffer_size!r}")
        self.rate_hz = rate_hz
        self.names = tuple(names)
        self._source = source
        self._groups = groups
        self._one_by_one = one_by_one
        self._overflow = overflow
        self._capacity = buffer_size
        self._clock = clock
        self._cadence = Cadence(clock.monotonic_ns(), rate_hz)
        self._slots = None if duration is None else self._cadence.slots_within(duration)
        started_at = from_utc_ns(clock.utc_ns())
        schemas = source.field_schemas() if isinstance(source, SchemaSource) else {}
        wanted = {name: schemas[name] for name in names if name in schemas}
        self._schema_known = len(wanted) == len(self.names)
        self._buffer = ColumnBuffer(
            RecordSchema(
                unite(wanted),
                describe_recording(source, names, wanted, rate_hz=rate_hz, started_at=started_at),
            )
        )
        self._skip = 0  # rows at the head of the buffer that DROP_OLDEST has given up
        self._unit_ids = {name: known_unit_id(source, name) for name in names}
        self.summary = AcquisitionSummary(
            started_at=started_at, devices={name: DeviceSummary() for name in names}
        )
        self._running = len(groups)
        self._finished = anyio.Event()
        self._arrived = anyio.Event()
        self._wanted = 1
        self._room = anyio.Event()
        self._scope = anyio.CancelScope()

    # -- the consumer's side ------------------------------------------------------------------

    @property
    def schema(self) -> RecordSchema:
        """The columns known so far."""
        return self._buffer.schema

    @property
    def schema_known(self) -> bool:
        """True when the source told the fields of all devices before the first sample."""
        return self._schema_known

    @property
    def stream(self) -> AsyncIterator[SampleBatch]:
        """Batches as they come, each with all rows that wait; ends with the recording."""
        return self._iterate()

    async def next_batch(
        self, min_rows: int = 1, max_wait: float | None = None
    ) -> SampleBatch | None:
        """Take all waiting rows, once there are ``min_rows`` or ``max_wait`` seconds have passed.

        Returns an empty batch when the time is up without a row, and None once the recording has
        ended and everything has been taken. Cancellation takes nothing.
        """
        await anyio.lowlevel.checkpoint()
        self._wanted = max(1, min(min_rows, self._capacity))
        if self._waiting() < self._wanted and not self._finished.is_set():
            # Woken once, by the row that fills the batch: not at every row.
            self._arrived = anyio.Event()
            with anyio.move_on_after(max_wait):
                await self._arrived.wait()
        if not self._waiting() and self._finished.is_set():
            return None
        return self.take()

    def take(self) -> SampleBatch:
        """Take all waiting rows now; may be empty."""
        batch = SampleBatch.from_buffer(self._buffer)
        self._buffer = ColumnBuffer(batch.schema)
        if self._skip:
            batch = batch.slice(self._skip)
            self._skip = 0
        self._room.set()
        return batch

    def stop(self) -> None:
        """Ask all polling to end. Rows received so far stay to be taken."""
        self._scope.cancel()

    async def wait_finished(self) -> None:
        """Return when the last poll has ended: nothing is added to the rows any more."""
        await self._finished.wait()

    async def _iterate(self) -> AsyncGenerator[SampleBatch, None]:
        while (batch := await self.next_batch()) is not None:
            yield batch

    # -- the instruments' side ----------------------------------------------------------------

    def _start(self, tasks: anyio.abc.TaskGroup) -> None:
        tasks.start_soon(self._run)

    async def _run(self) -> None:
        try:
            with self._scope:
                async with anyio.create_task_group() as tasks:
                    for group in self._groups:
                        tasks.start_soon(self._run_group, group)
        finally:
            self.summary.finished_at = from_utc_ns(self._clock.utc_ns())
            self._finished.set()
            self._arrived.set()

    async def _run_group(self, group: tuple[str, ...]) -> None:
        clock, cadence, last = self._clock, self._cadence, self._slots
        slot = 0
        while last is None or slot < last:
            target = cadence.target_ns(slot)
            await clock.sleep_until_ns(target)
            if self._overflow is OverflowPolicy.BLOCK:
                await self._wait_for_room()
            now = clock.monotonic_ns()
            due = cadence.slot_at(now)
            if due > slot:
                # A slot whose whole period has gone by is given up, not made up for: two polls
                # in a row would tell the same moment twice.
                missed = (due if last is None else min(due, last)) - slot
                for name in group:
                    self.summary.devices[name].samples_late += missed
                slot += missed
                continue
            drift_ms = (now - target) / 1e6
            if drift_ms > self.summary.max_drift_ms:
                self.summary.max_drift_ms = drift_ms
            if self._one_by_one:
                # One call a device, though the source could take the whole bus at once: a reply
                # is then in the buffer before the next device is asked, and a cancellation
                # while a later device is being waited for cannot take it away.
                for name in group:
                    await self._poll((name,))
            else:
                await self._poll(group)
            slot += 1

    async def _poll(self, names: tuple[str, ...]) -> None:
        asked_utc, asked_mono = self._clock.utc_ns(), self._clock.monotonic_ns()
        results: Mapping[str, DeviceResultLike]
        failure: str | None = None
        try:
            results = await self._source.poll(names)
        except Exception as error:
            # A recording of many instruments must outlive any one of them, so whatever a poll
            # raises is written down as its outcome. Cancellation is not an Exception.
            results = {}
            failure = describe_error(error)
        for name in names:
            result = results.get(name)
            if result is not None:
                self._add(name, result, None, (asked_utc, asked_mono))
            else:
                text = failure or "the source returned no result for this device"
                self._add(name, None, text, (asked_utc, asked_mono))

    def _add(
        self,
        name: str,
        result: DeviceResultLike | None,
        failure: str | None,
        asked: tuple[int, int],
    ) -> None:
        counts = self.summary.devices[name]
        if self._waiting() >= self._capacity:
            if self._overflow is OverflowPolicy.DROP_NEWEST:
                counts.samples_dropped += 1
                return
            if self._overflow is OverflowPolicy.DROP_OLDEST:
                self._drop_oldest()
        buffer = self._buffer
        if result is not None:
            try:
                buffer.append_result(name, self._unit_ids[name], result)
            except Exception as error:
                failure = f"reply could not be recorded: {describe_error(error)}"
            else:
                if result.value is not None:
                    self._unit_ids[name] = result.value.unit_id
                else:
                    counts.errors += 1
        if failure is not None:
            counts.errors += 1
            buffer.append_row(
                name,
                self._unit_ids[name],
                asked[0],
                self._clock.utc_ns(),
                asked[1],
                self._clock.monotonic_ns(),
                {},
                None,
                failure,
            )
        counts.samples_emitted += 1
        if self._waiting() >= self._wanted:
            self._arrived.set()

    def _waiting(self) -> int:
        return len(self._buffer) - self._skip

    async def _wait_for_room(self) -> None:
        # Asked before the poll and not after it, so that a reply never has to wait for room in
        # the hands of a task that may be cancelled.
        while self._waiting() >= self._capacity:
            self._room = anyio.Event()
            await self._room.wait()

    def _drop_oldest(self) -> None:
        column = self._buffer.device
        name = column.table[column.codes[self._skip]]
        self.summary.devices[name].samples_dropped += 1
        self._skip += 1
        if self._skip >= self._capacity:
            # Rows given up are cleared away once a buffer's length at a time: shifting all
            # columns for every dropped row would cost more than the row.
            self._buffer.drop_first(self._skip)
            self._skip = 0


def _check_names(source: PollSource, names: Iterable[str] | None) -> tuple[str, ...]:
    known = tuple(source.names)
    if names is None:
        chosen = known
    else:
        chosen = tuple(dict.fromkeys(names))
        unknown = [name for name in chosen if name not in known]
        if unknown:
            raise ValueError(
                f"no device named {', '.join(map(repr, unknown))}; "
                f"the source has {', '.join(map(repr, known)) or 'none'}"
            )
    if not chosen:
        raise ValueError("there is no device to record: add one to the source first")
    return chosen


def _groups_of(source: PollSource, names: tuple[str, ...]) -> list[tuple[str, ...]] | None:
    if not isinstance(source, GroupedPollSource):
        return None
    chosen = set(names)
    groups = [tuple(name for name in group if name in chosen) for group in source.poll_groups()]
    grouped = {name for group in groups for name in group}
    groups.extend((name,) for name in names if name not in grouped)
    return [group for group in groups if group]


@asynccontextmanager
async def record(
    source: PollSource,
    *,
    rate_hz: float,
    duration: float | None = None,
    names: Iterable[str] | None = None,
    overflow: OverflowPolicy = OverflowPolicy.BLOCK,
    buffer_size: int = 65_536,
    clock: Clock | None = None,
) -> AsyncGenerator[Recording, None]:
    """Poll ``source`` at ``rate_hz`` slots a second for ``duration`` seconds.

    ``names`` restricts the recording to some devices; ``duration=None`` records until the block is
    left. Slot n is due at start + n / rate_hz on the monotonic clock. A slot that cannot begin
    before the next one is due is skipped and counted in ``summary.samples_late``; one that begins
    late but within its period is polled, and its lateness shows in ``max_drift_ms``. Each group
    of ``source.poll_groups()`` keeps this cadence for itself; the devices of a group are polled
    one after another. A failed poll is a row with its error.

    ``overflow`` tells what happens when ``buffer_size`` rows wait because the sinks do not keep up.
    BLOCK polls no further, and slots that pass meanwhile count as late; dropped rows are counted in
    the summary.

    Leaving the block, by whatever way, ends all polling before it returns; an exception of the
    block leaves as itself, not wrapped in a group. ValueError for a rate, duration, name or
    buffer size that makes no sense.
    """
    chosen = _check_names(source, names)
    groups = _groups_of(source, chosen)
    recording = Recording(
        source,
        chosen,
        groups if groups is not None else [chosen],
        one_by_one=groups is not None,
        rate_hz=rate_hz,
        duration=duration,
        overflow=overflow,
        buffer_size=buffer_size,
        clock=SystemClock() if clock is None else clock,
    )
    failure: Exception | None = None
    try:
        async with anyio.create_task_group() as tasks:
            recording._start(tasks)
            try:
                yield recording
            except Exception as error:
                failure = error
            finally:
                recording.stop()
    except BaseExceptionGroup as group:
        if len(group.exceptions) == 1:
            raise group.exceptions[0] from None
        raise
    if failure is not None:
        raise failure
