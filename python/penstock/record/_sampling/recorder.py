"""The sampling clock: polls every device at its slots and collects the rows.

One task per bus. Rejected: one task for all devices (a dead device's timeouts would delay every
other bus) and one task per device (two devices of one bus would queue on its lock, and the order of
their polls within a slot would change from slot to slot).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

import anyio
import anyio.abc

from penstock._plain_task_group import plain_task_group
from penstock.overflow import OverflowPolicy
from penstock.record._columns.batch import SampleBatch
from penstock.record._columns.columns import ColumnBuffer, describe_error
from penstock.record._sample import from_utc_ns
from penstock.record._sampling.loop_watch import LoopWatch
from penstock.record._sampling.schedule import Alignment, BusSchedule, Lane, first_slot_ns
from penstock.record._sampling.source_set import Bus, SourceSet, new_run_id
from penstock.record._sampling.stream_source import take_all
from penstock.record._sampling.summary import AcquisitionSummary, DeviceSummary
from penstock.record._sampling.waiting_rows import WaitingRows
from penstock.record._source import DeviceResultLike, PollSource, PushSource, SourceEvent
from penstock.record.clock import Clock, ClockSteps, SystemClock
from penstock.record.failure_codes import Failing, FailureCode, failure_code
from penstock.record.schema import RecordSchema, refuse_shared_columns

__all__ = ["Alignment", "OverflowPolicy", "Recording", "record"]

# Seconds for the streams of events and readings to end, once their context has ended.
_LAST_ROWS_S = 5.0


class Recording:
    """A running recording: the queue of its rows, and the live summary.

    :func:`record` returns it. Use it in the event loop's thread only, and with one consumer.
    """

    def __init__(
        self,
        sources: SourceSet,
        *,
        rate_hz: float,
        rates: Mapping[str, float],
        duration: float | None,
        alignment: Alignment,
        overflow: OverflowPolicy,
        buffer_size: int,
        every_failure: bool,
        clock: Clock,
    ) -> None:
        self.rate_hz = rate_hz
        self.rates: dict[str, float] = dict(rates)
        self.names: tuple[str, ...] = sources.names
        self.run_id: str = new_run_id()
        self._sources = sources
        self._clock = clock
        self._steps = ClockSteps(clock)
        self._duration = duration
        buses = sources.buses()
        self._buses: list[tuple[Bus, BusSchedule]] = []
        begin_ns, begin_utc_ns = clock.monotonic_ns(), clock.utc_ns()
        for number, bus in enumerate(buses):
            start_ns = first_slot_ns(
                alignment,
                begin_ns,
                begin_utc_ns,
                bus=number,
                buses=len(buses),
                fastest_hz=max(rates[name] for name in bus.names),
            )
            schedule = BusSchedule.of(bus.names, rates, start_ns=start_ns, duration=duration)
            self._buses.append((bus, schedule))
        self.summary: AcquisitionSummary = AcquisitionSummary(
            started_at=from_utc_ns(clock.utc_ns()),
            devices={name: DeviceSummary() for name in self.names},
            run_id=self.run_id,
        )
        # Its stamps and those of the slots must be of one clock.
        self._watch = LoopWatch() if isinstance(clock, SystemClock) else None
        self._every_failure = every_failure
        self._failing: dict[str, Failing] = {}
        self._revision = sources.revision
        self._fields = sources.known_fields()
        refuse_shared_columns(self._fields)
        self._schema_known = len(self._fields) == len(self.names)
        self._unit_ids = sources.unit_ids()
        self._rows = WaitingRows(self._described_schema(), buffer_size, overflow, self.summary)
        self._finished = anyio.Event()
        self._polling = anyio.CancelScope()
        self._listening: list[anyio.CancelScope] = []
        self._begun = False
        self._still_listening = len(sources.pushing)
        self._all_ended = anyio.Event()
        self._collecting = anyio.CancelScope(shield=True)

    # -- the consumer's side ------------------------------------------------------------------

    @property
    def schema(self) -> RecordSchema:
        """The columns known so far."""
        return self._rows.schema

    @property
    def schema_known(self) -> bool:
        """True when the source has declared the fields of all devices before the first sample."""
        return self._schema_known

    @property
    def stream(self) -> AsyncIterator[SampleBatch]:
        """Yield batches, each with all waiting rows, until the recording has ended."""
        return self._iterate()

    async def next_batch(
        self, min_rows: int = 1, max_wait: float | None = None
    ) -> SampleBatch | None:
        """Take the waiting rows, once there are ``min_rows`` or ``max_wait`` seconds have passed.

        A batch has one schema: if the schema has changed, the rows before the change come first.
        Returns an empty batch if ``max_wait`` passes without a row, and None when the recording has
        ended and all rows have been taken. A cancelled call takes no rows.
        """
        return await self._rows.next_batch(min_rows, max_wait)

    def take(self) -> SampleBatch:
        """Take the waiting rows now, as far as they have one schema; may be empty."""
        return self._rows.take()

    def note(self, message: str, *, device: str = "", kind: str = "note") -> None:
        """Add an event to the rows, with the present time.

        ``device`` is the device that it concerns; empty for the whole recording.

        Raises:
            ValueError: there is no such device.
        """
        if device and device not in self._unit_ids:
            raise ValueError(f"no device named {device!r} is recorded: note it without a device")
        self._add_event(device, kind, message)

    def stop(self) -> None:
        """End all polling; return at once. Rows received so far can still be taken."""
        self._polling.cancel()
        self._end_listening()
        if not self._begun:
            # The streams of events are not open yet: there is nothing to collect, and opening one
            # may hang.
            self._collecting.cancel()

    async def wait_finished(self) -> None:
        """Return when the last poll has ended: nothing is added to the rows any more."""
        await self._finished.wait()

    async def _iterate(self) -> AsyncGenerator[SampleBatch, None]:
        while (batch := await self.next_batch()) is not None:
            yield batch

    # -- the instruments' side ----------------------------------------------------------------

    async def _run(self) -> None:
        try:
            # Shielded: only stop() ends a recording, and record() calls stop() in whatever way its
            # block is left. A cancellation in here would lose the events and readings that are
            # still to be recorded.
            with self._collecting:
                async with anyio.create_task_group() as collectors, AsyncExitStack() as streams:
                    # The streams of events end when they are left, and their last events are
                    # collected after that.
                    for source in self._sources.eventful:
                        events = await streams.enter_async_context(source.events())
                        collectors.start_soon(self._collect_events, events)
                    await self._poll_and_listen()
        finally:
            for name in tuple(self._failing):
                self._answers_again(name)
            self.summary.finished_at = from_utc_ns(self._clock.utc_ns())
            self._finished.set()
            self._rows.end()

    async def _poll_and_listen(self) -> None:
        self._begun = True
        async with anyio.create_task_group() as listening:
            for source in self._sources.pushing:
                self._listening.append(scope := anyio.CancelScope())
                listening.start_soon(self._listen, source, scope)
            with self._polling:
                async with anyio.create_task_group() as watching:
                    if self._watch is not None and self._buses:
                        watching.start_soon(self._watch.run)
                    async with anyio.create_task_group() as polling:
                        for bus, schedule in self._buses:
                            polling.start_soon(self._run_bus, bus, schedule)
                    watching.cancel_scope.cancel()
                if not self._buses:
                    await self._wait_for_streams()
            self._end_listening()
            self._collecting.deadline = anyio.current_time() + _LAST_ROWS_S

    async def _wait_for_streams(self) -> None:
        """Return after the duration; without one, when all streams have ended."""
        if self._duration is None:
            await self._all_ended.wait()
            return
        now = self._clock.monotonic_ns()
        await self._clock.sleep_until_ns(now + round(self._duration * 1e9))

    def _end_listening(self) -> None:
        for scope in self._listening:
            scope.cancel()

    async def _run_bus(self, bus: Bus, schedule: BusSchedule) -> None:
        clock, rows, summary = self._clock, self._rows, self.summary
        while (lane := schedule.next_lane()) is not None:
            target = lane.target_ns
            await clock.sleep_until_ns(target)
            waited = rows.is_full and await rows.wait_for_room()
            now = clock.monotonic_ns()
            if now >= lane.next_ns:
                # A slot whose whole period has passed is skipped and not repeated: two polls in a
                # row would sample the same moment twice.
                self._miss(lane, now, waited_for_room=waited)
                continue
            drift_ms = (now - target) / 1e6
            if drift_ms > summary.max_drift_ms:
                summary.max_drift_ms = drift_ms
            if bus.one_by_one:
                # One call for each device, though the source could poll the whole bus in one call:
                # each reply is in the buffer before the next device is polled, so a cancellation
                # during a later poll does not lose it.
                for name in lane.names:
                    await self._poll(bus.source, (name,), target)
            else:
                await self._poll(bus.source, lane.names, target)
            lane.advance()

    def _miss(self, lane: Lane, now_ns: int, *, waited_for_room: bool) -> None:
        due_ns = lane.target_ns
        cause = "the bus was not free for a whole period"
        if waited_for_room:
            cause = "the sinks had not taken the rows before"
        elif self._watch is not None and (gap := self._watch.cause(due_ns, now_ns)) is not None:
            cause = str(gap)
        missed = lane.skip_passed(now_ns)
        for name in lane.names:
            self.summary.devices[name].samples_late += missed
            failing = self._failing.get(name)
            if failing is not None and not self._every_failure:
                failing.missed += missed
                continue
            self._add_event(
                name,
                "missed_slots",
                f"{missed} missed: {cause}",
                late_s=(now_ns - due_ns) / 1e9,
            )

    async def _poll(self, source: PollSource, names: tuple[str, ...], target_ns: int) -> None:
        clock = self._clock
        asked_utc, asked_mono = clock.utc_ns(), clock.monotonic_ns()
        if step := self._steps.seen(asked_mono, asked_utc):
            self.summary.clock_steps += 1
            self._add_event("", "clock_step", self._steps.explain(step))
        results: Mapping[str, DeviceResultLike]
        failure, code = "the source returned no result for this device", FailureCode.OTHER
        try:
            results = await source.poll(names)
        except Exception as error:
            # A recording of many instruments must survive the failure of any one, so an exception
            # of a poll is recorded as its outcome. Cancellation is not an Exception.
            results = {}
            failure, code = describe_error(error), failure_code(error)
        if self._sources.revision != self._revision:
            self._take_new_facts()
        for name in names:
            result = results.get(name)
            if result is not None:
                self._add(name, result, target_ns)
            else:
                self._add_failure(name, failure, code, asked_utc, asked_mono, target_ns)

    async def _listen(self, source: PushSource, until: anyio.CancelScope) -> None:
        wanted = frozenset(self.names).intersection(source.pushed_names)

        def take(item: tuple[str, DeviceResultLike]) -> None:
            name, result = item
            if name in wanted:
                self._add(name, result, None)

        reason = "the source sends no more"
        try:
            stopped = await take_all(
                source.pushed(), take, until=until, room=self._rows.wait_for_room
            )
        except Exception as error:
            stopped, reason = False, describe_error(error)
        if not stopped:
            for name in wanted:
                self._add_event(name, "push_ended", reason)
        self._still_listening -= 1
        if not self._still_listening:
            self._all_ended.set()

    async def _collect_events(self, events: AsyncIterator[SourceEvent]) -> None:
        try:
            async for event in events:
                if event.device in self._unit_ids or not event.device:
                    self._add_event(
                        event.device,
                        str(event.kind),
                        event.message,
                        stamps=(event.unix_ns, event.monotonic_ns),
                    )
        except Exception as error:
            self._add_event("", "events_ended", describe_error(error))

    # -- rows ---------------------------------------------------------------------------------

    def _add(self, name: str, result: DeviceResultLike, target_ns: int | None) -> None:
        code = None
        if result.value is None:
            code = failure_code(result.error)
            if self._is_repeated(name, code):
                return
        elif name in self._failing and self._can_be_recorded(name, result):
            self._answers_again(name)
        rows = self._rows
        if not rows.admit(name):
            return
        counts = self.summary.devices[name]
        buffer = rows.buffer
        begun_ns = result.requested_monotonic_ns
        try:
            buffer.append_result(name, self._unit_ids[name], result)
        except Exception as error:
            failure = f"reply could not be recorded: {describe_error(error)}"
            code = FailureCode.UNRECORDED
            self._add_failure(name, failure, code, self._clock.utc_ns(), begun_ns, target_ns)
            return
        if code is not None:
            counts.errors += 1
            buffer.amend("error_code", code)
        if target_ns is not None:
            buffer.amend("late_s", round((begun_ns - target_ns) / 1000) / 1e6)
        first_ns: int | None = getattr(result, "first_byte_monotonic_ns", None)
        if first_ns is not None:
            buffer.amend("first_byte_s", round((first_ns - begun_ns) / 1000) / 1e6)
        counts.samples_emitted += 1
        rows.added()

    def _can_be_recorded(self, name: str, result: DeviceResultLike) -> bool:
        """Whether a row can hold this reply: only then has the device answered again."""
        try:
            ColumnBuffer(self._rows.schema).append_result(name, self._unit_ids[name], result)
        except Exception:
            return False
        return True

    def _is_repeated(self, name: str, code: FailureCode) -> bool:
        """Note that ``name`` has failed; return whether the failure gets no row."""
        failing = self._failing.get(name)
        if failing is None:
            failing = self._failing[name] = Failing()
        if not failing.is_repeated(code) or self._every_failure:
            return False
        counts = self.summary.devices[name]
        counts.errors += 1
        counts.repeated += 1
        return True

    def _answers_again(self, name: str) -> None:
        """Add events with the counts of the failures of ``name``, if it had failed."""
        failing = self._failing.pop(name, None)
        if failing is None or self._every_failure:
            return
        if failing.missed:
            self._add_event(name, "missed_slots", f"{failing.missed} missed while it failed")
        if failing.repeated:
            self._add_event(name, "failed_polls", str(failing))

    def _add_failure(
        self,
        name: str,
        text: str,
        code: FailureCode,
        asked_utc: int,
        asked_mono: int,
        target_ns: int | None,
    ) -> None:
        if self._is_repeated(name, code):
            return
        rows, clock = self._rows, self._clock
        if not rows.admit(name):
            return
        rows.buffer.append_row(
            name,
            self._unit_ids[name],
            asked_utc,
            clock.utc_ns(),
            asked_mono,
            clock.monotonic_ns(),
            {},
            None,
            text,
        )
        if target_ns is not None:
            rows.buffer.amend("late_s", round((asked_mono - target_ns) / 1000) / 1e6)
        rows.buffer.amend("error_code", code)
        counts = self.summary.devices[name]
        counts.errors += 1
        counts.samples_emitted += 1
        rows.added()

    def _add_event(
        self,
        name: str,
        kind: str,
        message: str,
        *,
        stamps: tuple[int, int] | None = None,
        late_s: float | None = None,
    ) -> None:
        rows = self._rows
        if not rows.admit(name):
            return
        utc, mono = stamps or (self._clock.utc_ns(), self._clock.monotonic_ns())
        unit_id = self._unit_ids.get(name)
        buffer = rows.buffer
        buffer.append_row(name, unit_id, utc, utc, mono, mono, {}, None, None)
        buffer.amend("event", kind)
        buffer.amend("message", message)
        if late_s is not None:
            buffer.amend("late_s", late_s)
        self.summary.events += 1
        rows.added()

    def _take_new_facts(self) -> None:
        """Update the columns and facts to those that the sources report now."""
        sources = self._sources
        self._revision = sources.revision
        self._unit_ids = sources.unit_ids()
        before, self._fields = self._fields, sources.known_fields()
        schema = self._described_schema()
        known = {field.name for field in schema.fields}
        for field in self._rows.schema.fields:
            # No column is removed, whether a reply has added it or no source reports it any more.
            if field.name not in known:
                schema = schema.with_field(field)
        self._rows.change_schema(schema)
        for name in self.names:
            if change := _changes(before.get(name, ()), self._fields.get(name, ())):
                self._add_event(name, "schema_changed", change)

    def _described_schema(self) -> RecordSchema:
        return RecordSchema(
            self._sources.columns(self._fields),
            self._sources.describe(
                self._fields,
                run_id=self.run_id,
                rate_hz=self.rate_hz,
                rates=self.rates,
                started_at=self.summary.started_at,
            ),
        )


def _changes(before: Sequence[object], after: Sequence[object]) -> str:
    """What has changed between two lists of fields, as text; empty if nothing has."""
    old = {getattr(field, "name", ""): getattr(field, "unit", None) for field in before}
    new = {getattr(field, "name", ""): getattr(field, "unit", None) for field in after}
    parts = [
        f"{name} is in {new[name] or 'no unit'}, was in {old[name] or 'no unit'}"
        for name in new
        if name in old and new[name] != old[name]
    ]
    parts += [f"{name} is new" for name in new if name not in old]
    parts += [f"{name} is gone" for name in old if name not in new]
    return "; ".join(parts)


@asynccontextmanager
async def record(
    source: PollSource | Sequence[PollSource],
    *,
    rate_hz: float,
    rates: Mapping[str, float] | None = None,
    duration: float | None = None,
    names: Iterable[str] | None = None,
    alignment: Alignment = Alignment.START,
    overflow: OverflowPolicy = OverflowPolicy.BLOCK,
    buffer_size: int = 65_536,
    every_failure: bool = False,
    clock: Clock | None = None,
) -> AsyncGenerator[Recording, None]:
    """Poll the devices of ``source``, one or several, for ``duration`` seconds.

    A device is polled at ``rates[name]`` Hz; by default at the rate that its source has for it
    (``source.rates()``), or else at ``rate_hz``. Slot n of a device is due at start + n / rate on
    the monotonic clock. A slot that cannot begin before the next one is due is skipped, counted in
    ``samples_late`` of the device's summary, and recorded as an event. A slot that begins late but
    within its period is polled; ``late_s`` of its row is the delay in seconds. Each bus of
    ``source.poll_groups()`` keeps its slots independently; the devices of one bus are polled one
    after another.

    A failed poll is a row with its error and :class:`FailureCode`. Until the device answers again,
    further failures with a code that has a row already are only counted, in
    ``summary.devices[name].repeated``, and skipped slots are counted too; when the device answers
    again, events report both numbers.

    Besides the polls, the rows hold the readings that devices send by themselves
    (:class:`PushSource`) and events: those of the sources (:class:`EventSource`), steps of the wall
    clock, changes of schema, and your own (:meth:`Recording.note`).

    All polling has ended when the block has been left, in whatever way. An exception of the block
    is raised without an exception group. The recording belongs to the thread of the event loop.

    Args:
        source: the source of the devices, or several sources.
        rate_hz: polls per second of a device that has no other rate.
        rates: polls per second of devices by name.
        duration: seconds; None records until the block is left.
        names: the devices to record; None records all.
        alignment: the time at which the slots start.
        overflow: what happens when ``buffer_size`` rows are queued because the sinks do not keep
            up. BLOCK stops polling, and slots that pass meanwhile count as late. Rows that another
            policy drops are counted in the summary.
        buffer_size: the number of rows that may be queued.
        every_failure: whether each failed poll is a row.
        clock: the clock; the system's by default.

    Raises:
        ValueError: a rate, duration, name or buffer size is invalid, two devices have one name, or
            two fields of a device would be one column (``status`` and ``field_status``).
    """
    sources = SourceSet(source if isinstance(source, Sequence) else (source,), names)
    recording = Recording(
        sources,
        rate_hz=rate_hz,
        rates=sources.rates(rate_hz, rates),
        duration=duration,
        alignment=alignment,
        overflow=overflow,
        buffer_size=buffer_size,
        every_failure=every_failure,
        clock=SystemClock() if clock is None else clock,
    )
    async with plain_task_group() as tasks:
        tasks.start_soon(recording._run)
        try:
            yield recording
        finally:
            recording.stop()
