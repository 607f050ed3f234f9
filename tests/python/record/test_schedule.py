"""Slots, rates and clocks of a recording, and the devices of several sources."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

import anyio
import anyio.lowlevel
import pytest

from penstock.record import (
    Alignment,
    InMemorySink,
    pipe,
    record,
)
from tests.python.record.instruments import (
    Bench,
    FakeResult,
    HandClock,
    reply,
)
from tests.python.record.recorded_rows import rows_of

pytestmark = pytest.mark.anyio


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
