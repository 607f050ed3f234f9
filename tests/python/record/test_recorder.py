from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from penstock.record import (
    InMemorySink,
    OverflowPolicy,
    SampleBatch,
    SystemClock,
    pipe,
    record,
)
from tests.python.record.instruments import (
    START,
    Bench,
    DescribedBench,
    FakeField,
    FakeResult,
    HandClock,
    failure,
    prompt,
    reply,
)

pytestmark = pytest.mark.anyio


def numbers(count: int) -> list[float]:
    return [float(n) for n in range(count)]


async def everything(source: Any, **options: Any) -> tuple[InMemorySink, Any]:
    sink = InMemorySink()
    async with record(source, **options) as recording:
        summary = await pipe(recording, sink)
    return sink, summary


async def test_every_device_gets_every_slot() -> None:
    bench = Bench([["fuel", "air"], ["purge"]])
    sink, summary = await everything(bench, rate_hz=20, duration=10, clock=HandClock())
    assert bench.counts == {"fuel": 200, "air": 200, "purge": 200}
    assert summary.samples_emitted == len(sink) == 600
    assert summary.samples_late == 0
    assert summary.errors == 0
    assert summary.max_drift_ms == 0
    assert summary.finished_at is not None
    flows = [s.values["Mass_Flow"] for s in sink.samples if s.device == "air"]
    assert flows == [float(n) for n in range(200)]


async def test_polls_begin_on_absolute_targets_though_each_wakes_late() -> None:
    clock = HandClock()
    begun: list[int] = []

    class LateClock(HandClock):
        async def sleep_until_ns(self, target: int) -> None:
            await super().sleep_until_ns(target)
            self.now += 700_000

    clock = LateClock()
    start = clock.now

    async def answer(name: str, count: int) -> FakeResult:
        begun.append(clock.now - start)
        return reply(asked_ns=clock.now)

    _, summary = await everything(Bench([["a"]], answer), rate_hz=3, duration=20, clock=clock)
    assert begun == [slot * 10**9 // 3 + 700_000 for slot in range(60)]
    assert summary.samples_late == 0
    assert summary.max_drift_ms == pytest.approx(0.7)


async def test_slots_that_pass_during_a_slow_poll_are_skipped_and_counted() -> None:
    clock = HandClock()
    begun: list[float] = []

    async def answer(name: str, count: int) -> FakeResult:
        begun.append((clock.now - 1_000_000_000) / 1e8)
        if count == 2:
            clock.now += 350_000_000
        return reply(asked_ns=clock.now)

    _, summary = await everything(Bench([["a"]], answer), rate_hz=10, duration=1, clock=clock)
    # Slot 2 took 3.5 periods: 3 and 4 are gone, 5 begins half a period late, 6 is on time.
    assert begun == [0, 1, 2, 5.5, 6, 7, 8, 9]
    assert summary.samples_late == 2
    assert summary.devices["a"].samples_late == 2
    assert summary.samples_emitted == 8
    assert summary.max_drift_ms == pytest.approx(50)


async def test_slots_after_the_end_are_not_counted_late() -> None:
    clock = HandClock()

    async def answer(name: str, count: int) -> FakeResult:
        clock.now += 5_000_000_000
        return reply(asked_ns=clock.now)

    _, summary = await everything(Bench([["a"]], answer), rate_hz=10, duration=1, clock=clock)
    assert summary.samples_emitted == 1
    assert summary.samples_late == 9


async def test_a_stalled_device_delays_only_its_own_bus() -> None:
    released = anyio.Event()

    async def answer(name: str, count: int) -> FakeResult:
        if name == "dead" and count == 0:
            await released.wait()
        if name == "alive" and count == 29:
            released.set()
        return reply()

    bench = Bench([["dead", "neighbour"], ["alive"]], answer)
    sink, summary = await everything(bench, rate_hz=10, duration=3, clock=HandClock())
    assert summary.devices["alive"].samples_emitted == 30
    assert summary.devices["alive"].samples_late == 0
    for name in ("dead", "neighbour"):
        device = summary.devices[name]
        assert device.samples_emitted + device.samples_late == 30
        assert device.samples_late >= 28
    order = [sample.device for sample in sink.samples]
    assert order[:29] == ["alive"] * 29


async def test_a_failed_poll_is_a_row_with_its_error_and_null_fields() -> None:
    async def answer(name: str, count: int) -> FakeResult:
        if count == 1:
            return failure(TimeoutError("no reply within 0.5 s"), asked_ns=7_000)
        return reply({"Mass_Flow": 1.5, "Gas": "Ar"}, status=frozenset({"MOV", "HLD"}))

    sink, summary = await everything(
        Bench([["a"]], answer), rate_hz=10, duration=0.3, clock=HandClock()
    )
    good, bad, _ = sink.samples
    assert good.values == {"Mass_Flow": 1.5, "Gas": "Ar"}
    assert good.status == "HLD,MOV"
    assert good.error is None and good.ok
    assert bad.values == {}
    assert bad.status is None
    assert bad.error == "TimeoutError: no reply within 0.5 s"
    assert not bad.ok
    assert bad.t_mono_ns == 500_007_000
    assert bad.latency_s == 0.5
    assert summary.errors == summary.devices["a"].errors == 1
    assert summary.samples_emitted == 3


async def test_each_reply_carries_its_own_stamps() -> None:
    async def answer(name: str, count: int) -> FakeResult:
        offset = 27_000_000 * "abc".index(name)
        return reply(asked_ns=offset, latency_ns=1_234_567)

    sink, _ = await everything(
        Bench([["a", "b", "c"]], answer), rate_hz=10, duration=0.1, clock=HandClock()
    )
    assert [s.t_mono_ns for s in sink.samples] == [1_234_567, 28_234_567, 55_234_567]
    assert [s.latency_s for s in sink.samples] == [0.001235] * 3
    for sample in sink.samples:
        assert sample.t_utc == sample.received_at
        assert (sample.requested_at - START).total_seconds() * 1e9 == pytest.approx(
            sample.t_mono_ns - 1_234_567
        )


async def test_latency_ignores_a_step_of_the_wall_clock() -> None:
    stepped = FakeResult(
        reply().value,
        None,
        datetime(2026, 1, 1, 12, tzinfo=UTC),
        datetime(2026, 1, 1, 11, tzinfo=UTC),
        10**9,
        10**9 + 4_000_000,
    )

    async def answer(name: str, count: int) -> FakeResult:
        return stepped

    sink, _ = await everything(Bench([["a"]], answer), rate_hz=1, duration=1, clock=HandClock())
    assert sink.samples[0].latency_s == 0.004
    assert sink.samples[0].t_utc.hour == 11


async def test_an_exception_of_the_source_becomes_a_row_and_the_recording_goes_on() -> None:
    async def answer(name: str, count: int) -> FakeResult:
        if count == 0:
            raise OSError(5, "Input/output error")
        return reply()

    sink, summary = await everything(
        Bench([["a"], ["b"]], answer), rate_hz=10, duration=0.2, clock=HandClock()
    )
    errors = {(s.device, s.error) for s in sink.samples if not s.ok}
    text = "OSError: [Errno 5] Input/output error"
    assert errors == {("a", text), ("b", text)}
    assert summary.errors == 2
    assert summary.samples_emitted == 4


async def test_a_device_that_the_source_leaves_out_is_a_failed_row() -> None:
    class Forgetful(Bench):
        async def poll(self, names: Sequence[str] | None = None) -> Mapping[str, FakeResult]:
            return {}

    sink, _ = await everything(Forgetful([["a"]]), rate_hz=1, duration=1, clock=HandClock())
    assert sink.samples[0].error == "the source returned no result for this device"


async def test_a_reply_that_cannot_be_stored_is_a_failed_row() -> None:
    async def answer(name: str, count: int) -> FakeResult:
        return reply({"status": 1.0, "field_status": 2.0, "Mass_Flow": 3.0})

    sink, summary = await everything(
        Bench([["a"]], answer), rate_hz=1, duration=2, every_failure=True, clock=HandClock()
    )
    assert len(sink) == 2
    assert all("two values for column 'field_status'" in str(s.error) for s in sink.samples)
    assert summary.errors == 2


async def test_fields_that_would_share_a_column_are_refused_before_the_first_poll() -> None:
    """Each reply of theirs would be a failed poll, for a whole night."""
    both = [FakeField("status", "float"), FakeField("field_status", "float")]
    one = {"a": both[:1], "b": both[1:]}
    bench = DescribedBench([["a"], ["b"]], schemas=one)
    async with record(bench, rate_hz=1, duration=0.1, clock=HandClock()):
        pass
    asked = len(bench.asked)
    bench.schemas = {**one, "b": both}
    with pytest.raises(ValueError, match=r"'status' and 'field_status' of 'b' would both be the"):
        async with record(bench, rate_hz=1, duration=0.1, clock=HandClock()):
            pass
    assert len(bench.asked) == asked


async def test_a_source_without_groups_is_asked_for_all_devices_at_once() -> None:
    class Plain:
        names = ("a", "b")
        source_id = "plain"

        def __init__(self) -> None:
            self.asked: list[Any] = []

        async def poll(self, names: Sequence[str] | None = None) -> Mapping[str, FakeResult]:
            self.asked.append(names)
            return {name: reply() for name in self.names}

    source = Plain()
    sink, _ = await everything(source, rate_hz=1, duration=1, clock=HandClock())
    assert source.asked == [("a", "b")]
    assert [s.device for s in sink.samples] == ["a", "b"]


async def test_names_restrict_the_recording() -> None:
    bench = Bench([["a", "b"], ["c"]])
    sink, _ = await everything(bench, rate_hz=1, duration=1, names=["c", "a"], clock=HandClock())
    assert {s.device for s in sink.samples} == {"a", "c"}
    assert bench.counts == {"a": 1, "c": 1}


async def test_an_unknown_name_is_refused_before_anything_is_polled() -> None:
    bench = Bench([["a"]])
    with pytest.raises(ValueError, match=r"no device named 'z'; the source has 'a'"):
        async with record(bench, rate_hz=1, names=["z"]):
            raise AssertionError("must not get here")
    assert bench.asked == []


async def test_an_empty_source_is_refused() -> None:
    with pytest.raises(ValueError, match="no device to record"):
        async with record(Bench([]), rate_hz=1):
            raise AssertionError("must not get here")


async def test_devices_with_different_fields_share_the_columns() -> None:
    schemas = {
        "flow": [FakeField("Mass_Flow", "float", "SCCM"), FakeField("Gas", "text")],
        "pressure": [FakeField("Abs_Press", "float", "PSIA")],
    }

    async def answer(name: str, count: int) -> FakeResult:
        if name == "flow":
            return reply({"Mass_Flow": 1.0, "Gas": "N2"})
        return reply({"Abs_Press": 14.7})

    source = DescribedBench([["flow"], ["pressure"]], answer, schemas=schemas)
    sink = InMemorySink()
    async with record(source, rate_hz=1, duration=1, clock=HandClock()) as recording:
        assert recording.schema_known
        assert [field.name for field in recording.schema.fields] == [
            *("Mass_Flow", "Gas", "Abs_Press"),
            *("late_s", "event", "message", "error_code"),
        ]
        await pipe(recording, sink)
    rows = {s.device: s.values for s in sink.samples}
    assert rows == {"flow": {"Mass_Flow": 1.0, "Gas": "N2"}, "pressure": {"Abs_Press": 14.7}}
    column = [v for batch in sink.batches for v in batch.column("Abs_Press")]
    assert sorted(column, key=str) == [14.7, None]


async def test_facts_of_the_devices_go_into_the_file_and_the_address_into_the_rows() -> None:
    async def answer(name: str, count: int) -> FakeResult:
        if count == 1:  # it is given another address while it is recorded
            source.facts = {"a": {"unit_id": "C", "model": "MC"}}
            source.revision += 1
        return await prompt(name, count)

    source = DescribedBench([["a"]], answer, facts={"a": {"unit_id": "B", "model": "MC"}})
    sink = InMemorySink()
    async with record(source, rate_hz=1, duration=3, clock=HandClock()) as recording:
        known = json.loads(recording.schema.metadata)
        await pipe(recording, sink)
    assert known["source"] == "bench"
    assert (known["devices"]["a"]["unit_id"], known["devices"]["a"]["model"]) == ("B", "MC")
    assert [sample.unit_id for sample in sink.samples] == ["B", "C", "C"]


async def test_leaving_the_block_stops_all_polling() -> None:
    bench = Bench([["a"], ["b"]])
    async with record(bench, rate_hz=1000) as recording:
        await recording.next_batch(10)
    asked = len(bench.asked)
    assert recording.summary.finished_at is not None
    for _ in range(50):
        await anyio.lowlevel.checkpoint()
    assert len(bench.asked) == asked


async def test_a_recording_can_be_stopped_from_a_callback_of_the_loop(
    anyio_backend_name: str,
) -> None:
    async with record(Bench([["a"]]), rate_hz=1000) as recording:
        if anyio_backend_name == "asyncio":
            # As a signal's handler does: there is no task.
            asyncio.get_running_loop().call_later(0.01, recording.stop)
        else:
            recording.stop()
        with anyio.fail_after(60):
            async for _ in recording.stream:
                pass


async def test_an_exception_of_the_block_leaves_as_itself() -> None:
    with pytest.raises(KeyError, match="mine"):
        async with record(Bench([["a"]]), rate_hz=100) as recording:
            await recording.next_batch()
            raise KeyError("mine")


async def test_the_stream_ends_with_the_recording() -> None:
    async with record(Bench([["a"]]), rate_hz=10, duration=1, clock=HandClock()) as recording:
        rows = [sample async for batch in recording.stream for sample in batch]
        assert await recording.next_batch() is None
    assert len(rows) == 10


async def test_next_batch_gives_up_waiting_with_an_empty_batch() -> None:
    async def answer(name: str, count: int) -> FakeResult:
        await anyio.sleep_forever()
        raise AssertionError

    async with record(Bench([["a"]], answer), rate_hz=10) as recording:
        batch = await recording.next_batch(1, max_wait=0.01)
        assert batch is not None
        assert len(batch) == 0


async def test_a_cancelled_next_batch_takes_nothing() -> None:
    async with record(Bench([["a"]]), rate_hz=10, duration=0.5, clock=HandClock()) as recording:
        await recording.wait_finished()
        with anyio.CancelScope() as scope:
            scope.cancel()
            await recording.next_batch()
        batch = await recording.next_batch()
        assert batch is not None
        assert len(batch) == 5


async def test_block_polls_no_further_than_there_is_room() -> None:
    bench = Bench([["a"]])
    async with record(bench, rate_hz=1000, buffer_size=8) as recording:
        # Asking for more than the buffer holds must not wait forever.
        first = await recording.next_batch(100)
        assert first is not None
        assert len(first) == 8
        second = await recording.next_batch(100)
        assert second is not None
        flows = [*first.column("Mass_Flow"), *second.column("Mass_Flow")]
    samples = [flow for flow in flows if flow is not None]  # slots that passed are events
    assert samples == numbers(len(samples))
    assert len(flows) == 16
    assert recording.summary.samples_dropped == 0


@pytest.mark.parametrize(
    ("overflow", "kept", "emitted"),
    [
        pytest.param(OverflowPolicy.DROP_NEWEST, range(8), 8, id="the first"),
        pytest.param(OverflowPolicy.DROP_OLDEST, range(42, 50), 50, id="the last"),
    ],
)
async def test_a_full_buffer_keeps_the_rows_of_its_policy_and_counts_the_rest(
    overflow: OverflowPolicy, kept: range, emitted: int
) -> None:
    async with record(
        Bench([["a"]]),
        rate_hz=10,
        duration=5,
        overflow=overflow,
        buffer_size=8,
        clock=HandClock(),
    ) as recording:
        await recording.wait_finished()
        batch = recording.take()
    assert batch.column("Mass_Flow") == [float(n) for n in kept]
    assert batch.column("Gas") == ["N2"] * 8
    assert recording.summary.samples_dropped == 42
    assert recording.summary.samples_emitted == emitted


async def test_the_stream_yields_batches_that_iterate_as_samples() -> None:
    async with record(Bench([["a"]]), rate_hz=10, duration=0.1, clock=HandClock()) as recording:
        async for batch in recording.stream:
            assert isinstance(batch, SampleBatch)
            (sample,) = batch
            assert sample.device == "a"


class _WatchedClock(SystemClock):
    """The default clock, and the slot whose turn it last was."""

    target = 0

    async def sleep_until_ns(self, target: int) -> None:
        await super().sleep_until_ns(target)
        self.target = target


async def test_the_default_clock_keeps_every_slot_apart() -> None:
    clock = _WatchedClock()
    begun: list[tuple[int, int]] = []

    async def answer(name: str, count: int) -> FakeResult:
        begun.append((clock.target, clock.monotonic_ns()))
        return await prompt(name, count)

    before = clock.monotonic_ns()
    _, summary = await everything(Bench([["a"]], answer), rate_hz=200, duration=0.1, clock=clock)
    assert summary.samples_emitted + summary.samples_late == 20
    assert summary.samples_emitted == len(begun)
    # No poll may begin before its slot, whatever the loop's timers round to, and no slot has two.
    # How late one begins is the machine's affair, so slots are counted by what the recorder waited
    # for and not by when the test got to look.
    targets = [target for target, _ in begun]
    assert before <= targets[0]
    assert all(moment >= target for target, moment in begun)
    assert targets == sorted(set(targets))
    assert not any((target - targets[0]) % 5_000_000 for target in targets)
