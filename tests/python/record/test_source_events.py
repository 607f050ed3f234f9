"""What a source tells by itself: events, notes, pushed readings, streams."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime

import anyio
import anyio.lowlevel
import pytest

from penstock.record import (
    InMemorySink,
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
from tests.python.record.recorded_rows import events, rows_of

pytestmark = pytest.mark.anyio


@dataclass(frozen=True)
class StampedReading(FakeReading):
    requested_at: datetime = START
    received_at: datetime = START
    requested_monotonic_ns: int = 0
    received_monotonic_ns: int = 0
    requested_unix_ns: int = 0
    received_unix_ns: int = 0


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
