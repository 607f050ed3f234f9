from __future__ import annotations

import json
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from penstock.record import (
    Alignment,
    InMemorySink,
    Sample,
    SourceEvent,
    StreamSource,
    pipe,
    record,
)
from tests.python.record.instruments import (
    START,
    Bench,
    DescribedBench,
    FakeField,
    FakeReading,
    FakeResult,
    HandClock,
    prompt,
    reply,
)

pytestmark = pytest.mark.anyio


async def rows_of(source: Any, **options: Any) -> tuple[list[Sample], Any]:
    sink = InMemorySink()
    options.setdefault("clock", HandClock())
    async with record(source, **options) as recording:
        summary = await pipe(recording, sink)
    return sink.samples, summary


def events(rows: Sequence[Sample]) -> list[tuple[str, str | None]]:
    return [(row.device, row.event) for row in rows if row.event is not None]


@dataclass
class RatedBench(Bench):
    own_rates: Mapping[str, float] = field(default_factory=dict)

    def rates(self) -> Mapping[str, float]:
        return self.own_rates


async def test_each_device_of_a_bus_keeps_its_own_rate() -> None:
    clock = HandClock()
    begun: dict[str, list[int]] = {"fast": [], "slow": [], "other": []}

    async def answer(name: str, count: int) -> FakeResult:
        begun[name].append(clock.now - 1_000_000_000)
        return reply(asked_ns=clock.now)

    bench = RatedBench([["fast", "slow"], ["other"]], answer, own_rates={"fast": 50.0})
    rows, summary = await rows_of(bench, rate_hz=10, rates={"slow": 2}, duration=2, clock=clock)
    assert begun["fast"] == [n * 20_000_000 for n in range(100)]
    assert begun["slow"] == [n * 500_000_000 for n in range(4)]
    assert begun["other"] == [n * 100_000_000 for n in range(20)]
    assert len(rows) == 124
    assert summary.samples_late == 0


async def test_a_slow_device_of_a_busy_bus_is_polled_all_the_same() -> None:
    clock = HandClock()

    async def answer(name: str, count: int) -> FakeResult:
        clock.now += 30_000_000  # longer than a period of the fast one
        return reply(asked_ns=clock.now)

    bench = RatedBench([["fast", "slow"]], answer, own_rates={"fast": 50.0, "slow": 1.0})
    _, summary = await rows_of(bench, rate_hz=10, duration=10, clock=clock)
    assert summary.devices["slow"].samples_emitted == 10
    assert summary.devices["slow"].samples_late == 0
    fast = summary.devices["fast"]
    assert fast.samples_late > 0
    assert fast.samples_emitted + fast.samples_late == 500


async def test_a_rate_for_a_device_that_is_not_recorded_is_refused() -> None:
    with pytest.raises(ValueError, match="rates has 'z', which is not recorded"):
        async with record(Bench([["a"]]), rate_hz=1, rates={"z": 2}):
            raise AssertionError("must not get here")


async def test_slots_can_begin_at_a_whole_second_of_the_wall_clock() -> None:
    class Later(HandClock):
        def utc_ns(self) -> int:
            return super().utc_ns() + 300_000_000

    clock = Later()
    begun: list[int] = []

    async def answer(name: str, count: int) -> FakeResult:
        begun.append(clock.utc_ns() % 1_000_000_000)
        return reply(asked_ns=clock.now)

    await rows_of(
        Bench([["a"], ["b"]], answer),
        rate_hz=4,
        duration=1,
        clock=clock,
        alignment=Alignment.UTC,
    )
    assert sorted(begun) == [n * 250_000_000 for n in (0, 0, 1, 1, 2, 2, 3, 3)]


async def test_buses_can_be_spread_over_a_period() -> None:
    clock = HandClock()
    begun: dict[str, list[int]] = {"a": [], "b": []}

    async def answer(name: str, count: int) -> FakeResult:
        begun[name].append(clock.now - 1_000_000_000)
        return reply(asked_ns=clock.now)

    await rows_of(
        Bench([["a"], ["b"]], answer),
        rate_hz=10,
        duration=0.3,
        clock=clock,
        alignment=Alignment.SPREAD,
    )
    assert begun == {
        "a": [0, 100_000_000, 200_000_000],
        "b": [50_000_000, 150_000_000, 250_000_000],
    }


async def test_devices_of_several_sources_are_recorded_together() -> None:
    flow = Bench([["flow"]], source_id="flows")
    volts = Bench([["volts"]], source_id="meters")
    sink = InMemorySink()
    async with record([flow, volts], rate_hz=2, duration=2, clock=HandClock()) as recording:
        about = json.loads(recording.schema.metadata)
        await pipe(recording, sink)
    assert {name: entry["source"] for name, entry in about["devices"].items()} == {
        "flow": "flows",
        "volts": "meters",
    }
    assert sorted(row.device for row in sink.samples) == ["flow"] * 4 + ["volts"] * 4


async def test_two_devices_of_one_name_are_refused() -> None:
    sources = [Bench([["a"]], source_id="one"), Bench([["a"]], source_id="two")]
    with pytest.raises(ValueError, match=r"two devices are named 'a' \(of 'one' and 'two'\)"):
        async with record(sources, rate_hz=1):
            raise AssertionError("must not get here")


async def test_late_and_missed_slots_are_in_the_rows() -> None:
    clock = HandClock()

    async def answer(name: str, count: int) -> FakeResult:
        asked = clock.now
        if count == 2:
            clock.now += 350_000_000
        return reply(asked_ns=asked)

    rows, summary = await rows_of(Bench([["a"]], answer), rate_hz=10, duration=1, clock=clock)
    assert [row.late_s for row in rows if row.event is None] == [0, 0, 0, 0.05, 0, 0, 0, 0]
    (missed,) = [row for row in rows if row.event is not None]
    assert missed.event == "missed_slots"
    assert missed.message is not None
    assert missed.message.startswith("2 missed")
    assert missed.late_s == 0.25
    assert not missed.ok
    assert missed.error is None
    assert summary.events == 1
    assert summary.samples_late == 2


async def test_a_step_of_the_wall_clock_is_an_event_and_a_drift_is_not() -> None:
    class Set(HandClock):
        ahead = 0

        def utc_ns(self) -> int:
            drift = (self.now - 1_000_000_000) // 2000  # 500 ppm
            return super().utc_ns() + self.ahead + drift

    clock = Set()

    async def answer(name: str, count: int) -> FakeResult:
        if count == 400:
            clock.ahead = -3_600_000_000_000
        return reply(asked_ns=clock.now)

    rows, summary = await rows_of(Bench([["a"]], answer), rate_hz=1, duration=800, clock=clock)
    assert summary.clock_steps == 1
    ((position, step),) = [(n, row) for n, row in enumerate(rows) if row.event is not None]
    assert position == 401
    assert (step.device, step.event) == ("", "clock_step")
    assert step.message is not None
    assert step.message.startswith("the wall clock went -3599.99")


@dataclass(frozen=True)
class Event:
    device: str
    kind: str
    message: str
    monotonic_ns: int = 5
    unix_ns: int = 1_795_262_400_000_000_000
    data: Mapping[str, object] = field(default_factory=dict)


class TellingBench(Bench):
    """Tells of a setpoint before the third poll, and of another when it is left."""

    def __init__(self) -> None:
        super().__init__([["a"]], self.answered)
        self.send, self.receive = anyio.create_memory_object_stream[SourceEvent](10)
        self.open = False

    async def answered(self, name: str, count: int) -> FakeResult:
        assert self.open
        if count == 2:
            await self.send.send(Event("a", "setpoint", "to 50 SCCM"))
            await self.send.send(Event("not recorded", "gas", "to N2"))
        return await prompt(name, count)

    @asynccontextmanager
    async def events(self) -> AsyncIterator[AsyncIterator[SourceEvent]]:
        self.open = True
        yield self.receive
        await self.send.send(Event("a", "connection_lost", "it was unplugged"))
        self.send.close()
        self.open = False


async def test_events_of_the_source_are_rows_with_their_own_stamps() -> None:
    bench = TellingBench()
    rows, summary = await rows_of(bench, rate_hz=10, duration=0.5)
    bench.receive.close()
    assert events(rows) == [("a", "setpoint"), ("a", "connection_lost")]
    told = next(row for row in rows if row.event == "setpoint")
    assert told.message == "to 50 SCCM"
    assert (told.t_mono_ns, told.latency_s, told.status, told.error) == (5, 0, None, None)
    assert summary.events == 2
    assert summary.samples_emitted == 5
    assert not bench.open


async def test_a_cancelled_recording_keeps_the_events_that_wait() -> None:
    bench, sink = TellingBench(), InMemorySink()
    told_of = bench.answered

    async def answer(name: str, count: int) -> FakeResult:
        result = await told_of(name, count)
        if count == 2:
            scope.cancel()
        return result

    bench.answer = answer
    with anyio.CancelScope() as scope:
        async with record(bench, rate_hz=10, clock=HandClock()) as recording:
            await pipe(recording, sink)
    bench.receive.close()
    assert scope.cancelled_caught
    assert events(sink.samples) == [("a", "setpoint"), ("a", "connection_lost")]
    assert not bench.open


async def test_a_source_whose_events_never_begin_can_be_left() -> None:
    class Mute(Bench):
        @asynccontextmanager
        async def events(self) -> AsyncIterator[AsyncIterator[SourceEvent]]:
            begun.set()
            await anyio.sleep_forever()
            yield anyio.create_memory_object_stream[SourceEvent]()[1]

    begun = anyio.Event()
    with anyio.fail_after(60):
        async with record(Mute([["a"]]), rate_hz=10) as recording:
            await begun.wait()
    assert recording.summary.finished_at is not None


async def test_a_note_is_a_row() -> None:
    sink = InMemorySink()
    async with record(Bench([["a"]]), rate_hz=10, duration=0.2, clock=HandClock()) as recording:
        recording.note("the operator opened the valve", device="a")
        recording.note("night shift")
        with pytest.raises(ValueError, match="no device named 'z'"):
            recording.note("?", device="z")
        await pipe(recording, sink)
    assert events(sink.samples) == [("a", "note"), ("", "note")]


async def test_a_change_of_unit_is_an_event_that_begins_a_batch_with_the_new_schema() -> None:
    async def answer(name: str, count: int) -> FakeResult:
        if count == 3:
            source.schemas = {"a": [FakeField("Flow", "float", "SLPM"), FakeField("New", "float")]}
            source.revision += 1
        return reply({"Flow": float(count)})

    fields = [FakeField("Flow", "float", "SCCM"), FakeField("Old", "text")]
    source = DescribedBench([["a"]], answer, schemas={"a": fields})
    sink = InMemorySink()
    async with record(source, rate_hz=10, duration=0.6, clock=HandClock()) as recording:
        await pipe(recording, sink)
    before, after = [batch for batch in sink.batches if len(batch)]
    assert [row.values.get("Flow") for row in before] == [0, 1, 2]
    assert [row.values.get("Flow") for row in after] == [None, 3, 4, 5]
    units = [{f.name: f.unit for f in batch.schema.fields} for batch in (before, after)]
    assert (units[0]["Flow"], units[1]["Flow"]) == ("SCCM", "SLPM")
    assert {"Flow", "New", "Old"} <= units[1].keys()
    first = next(iter(after))
    assert (first.device, first.event) == ("a", "schema_changed")
    assert first.message == "Flow is in SLPM, was in SCCM; New is new; Old is gone"
    assert json.loads(after.schema.metadata)["devices"]["a"]["units"] == {"Flow": "SLPM"}
    assert json.loads(before.schema.metadata)["run_id"] == recording.run_id


@dataclass
class PushingBench(Bench):
    """A bus that is polled, and a device that sends three readings by itself."""

    pushed_names: Collection[str] = ("streaming",)
    stopped: bool = False

    @asynccontextmanager
    async def pushed(self) -> AsyncIterator[AsyncIterator[tuple[str, FakeResult]]]:
        async def readings() -> AsyncIterator[tuple[str, FakeResult]]:
            for number in range(3):
                yield "streaming", reply({"Mass_Flow": 100.0 + number})
            await anyio.sleep_forever()

        try:
            yield readings()
        finally:
            self.stopped = True


async def test_readings_that_a_device_sends_by_itself_stand_beside_the_polled_ones() -> None:
    bench = PushingBench([["polled"], ["streaming"]])
    rows, summary = await rows_of(bench, rate_hz=10, duration=1)
    flows = [row.values["Mass_Flow"] for row in rows if row.device == "streaming"]
    assert flows == [100, 101, 102]
    assert all(row.late_s is None for row in rows if row.device == "streaming")
    assert summary.devices["polled"].samples_emitted == 10
    assert bench.counts == {"polled": 10}
    assert bench.stopped


async def test_a_source_that_only_sends_is_recorded_for_the_duration() -> None:
    bench = PushingBench([["streaming"]])
    rows, summary = await rows_of(bench, rate_hz=10, duration=5)
    assert len(rows) == 3
    assert bench.counts == {}
    assert bench.stopped
    assert summary.finished_at is not None


class LateSender(Bench):
    """A bus that is polled, and a device whose last reading comes while it is told to stop."""

    pushed_names = ("streaming",)

    @asynccontextmanager
    async def pushed(self) -> AsyncIterator[AsyncIterator[tuple[str, FakeResult]]]:
        send, receive = anyio.create_memory_object_stream[tuple[str, FakeResult]](10)
        send.send_nowait(("streaming", reply({"Mass_Flow": 1.0})))
        self.receive = receive
        try:
            yield receive
        finally:
            send.send_nowait(("streaming", reply({"Mass_Flow": 2.0})))
            send.close()


@pytest.mark.parametrize("how", ["duration", "stop", "cancel"])
async def test_readings_that_wait_when_a_recording_ends_are_recorded(how: str) -> None:
    async def answer(name: str, count: int) -> FakeResult:
        if count == 3 and how == "stop":
            recording.stop()
        if count == 3 and how == "cancel":
            scope.cancel()
        return await prompt(name, count)

    bench, sink = LateSender([["polled"], ["streaming"]], answer), InMemorySink()
    duration = 0.5 if how == "duration" else None
    with anyio.CancelScope() as scope:
        async with record(bench, rate_hz=10, duration=duration, clock=HandClock()) as recording:
            await pipe(recording, sink)
    bench.receive.close()
    flows = [row.values["Mass_Flow"] for row in sink.samples if row.device == "streaming"]
    assert flows == [1.0, 2.0]
    assert not any(row.event for row in sink.samples)


@dataclass(frozen=True)
class StampedReading(FakeReading):
    requested_at: datetime = START
    received_at: datetime = START
    requested_monotonic_ns: int = 0
    received_monotonic_ns: int = 0
    requested_unix_ns: int = 0
    received_unix_ns: int = 0


class Numbers:
    """A stream of readings that ends, or fails, after what waits in it."""

    def __init__(self, error: Exception | None) -> None:
        self.waiting: list[float] = []
        self.changed = anyio.Event()
        self.left = False
        self.error = error

    def __aiter__(self) -> Numbers:
        return self

    async def __anext__(self) -> StampedReading:
        while not self.waiting:
            if self.error is not None:
                raise self.error
            if self.left:
                raise StopAsyncIteration
            await self.changed.wait()
        return StampedReading({"Mass_Flow": self.waiting.pop(0)})


@asynccontextmanager
async def stream_of(
    first: int, last: int, *, error: Exception | None = None
) -> AsyncIterator[AsyncIterator[StampedReading]]:
    """Sends the numbers below ``first``, and those below ``last`` when it is left."""
    numbers = Numbers(error)
    numbers.waiting += map(float, range(first))
    try:
        yield numbers
    finally:
        numbers.waiting += map(float, range(first, last))
        numbers.left = True


async def test_streams_give_what_waits_in_them_when_the_recording_ends() -> None:
    source = StreamSource({"a": stream_of(3, 400), "b": stream_of(600, 601)})
    sink = InMemorySink()
    async with record(source, rate_hz=1, duration=1, clock=HandClock()) as recording:
        await pipe(recording, sink)
    for name, count in (("a", 400), ("b", 601)):
        flows = [row.values["Mass_Flow"] for row in sink.samples if row.device == name]
        assert flows == [float(number) for number in range(count)]
    assert not any(row.event for row in sink.samples)


async def test_a_stream_that_fails_ends_the_others_and_is_an_event() -> None:
    broken = stream_of(2, 2, error=OSError(5, "Input/output error"))
    source = StreamSource({"a": broken, "b": stream_of(1, 5)})
    sink = InMemorySink()
    async with record(source, rate_hz=1) as recording:
        await pipe(recording, sink)
    assert [row.device for row in sink.samples if row.event is None].count("b") == 5
    ended = [(row.device, row.event, row.message) for row in sink.samples if row.event]
    text = "OSError: [Errno 5] Input/output error"
    assert sorted(ended) == [("a", "push_ended", text), ("b", "push_ended", text)]


async def test_the_first_byte_of_a_reply_is_recorded_where_the_source_tells_it() -> None:
    @dataclass(frozen=True)
    class Stamped(FakeResult):
        first_byte_monotonic_ns: int | None = None

    async def answer(name: str, count: int) -> FakeResult:
        plain = reply(asked_ns=1_000_000)
        return Stamped(**vars(plain), first_byte_monotonic_ns=3_500_000)

    bench = Bench([["a"]], answer)
    bench.stamps_first_byte = True  # type: ignore[attr-defined]
    rows, _ = await rows_of(bench, rate_hz=1, duration=1)
    assert rows[0].first_byte_s == 0.0025
    assert rows[0].latency_s == 0.005


async def test_a_month_at_ten_hertz_keeps_nothing_but_counts() -> None:
    class Quick(HandClock):
        """Moves at once: one device alone need not wait for other tasks."""

        async def sleep_until_ns(self, target: int) -> None:
            await anyio.lowlevel.checkpoint()
            self.now = max(self.now, target)

    clock = Quick()
    hour = 36_000
    sizes: list[int] = []

    async def answer(name: str, count: int) -> FakeResult:
        # A month has 26 million slots; most of an hour passes in the middle of one poll.
        if count % 20 == 19:
            clock.now += (hour - 21) * 100_000_000
        if count % 3 == 2:
            raise TimeoutError(f"no reply number {count}")
        return reply({"Mass_Flow": float(count)}, asked_ns=clock.now)

    async with record(
        Bench([["a"]], answer), rate_hz=10, duration=30 * 86400, clock=clock
    ) as recording:
        while (batch := await recording.next_batch(64)) is not None:
            sizes.append(len(batch) + len(recording._rows) + len(recording._rows._complete))
    summary = recording.summary
    device = summary.devices["a"]
    assert device.samples_emitted + device.samples_late == 30 * 24 * hour
    assert device.errors > 4_000
    assert max(sizes) < 1000
    assert len(summary.as_dict()) == len(recording.summary.as_dict())
    assert len(recording._rows.buffer._statuses) <= 1


@pytest.mark.parametrize("alignment", [Alignment.START, Alignment.UTC])
async def test_buses_of_one_rate_share_each_slot_of_a_clock_that_goes_on(
    alignment: Alignment,
) -> None:
    targets: list[int] = []

    class Going(HandClock):
        """Never shows one time twice."""

        def monotonic_ns(self) -> int:
            self.now += 1_000
            return self.now

        async def sleep_until_ns(self, target: int) -> None:
            targets.append(target)
            await super().sleep_until_ns(target)

    bench = Bench([["a"], ["b"], ["c"]])
    rows, _ = await rows_of(bench, rate_hz=10, duration=0.4, alignment=alignment, clock=Going())
    assert len(rows) == len(targets) == 12
    assert len(set(targets)) == 4
