"""What each fault does to a line, and that the log tells all of it."""

from __future__ import annotations

import pytest

from penstock.sim import Bus, BusFaults, MassFlowController

FRAME = b"A +014.62 +021.89 +000.00 +000.00 +000.00     N2\r"


class Clock:
    def __init__(self) -> None:
        self.now = 50.0

    def __call__(self) -> float:
        return self.now


def bus_with(faults: BusFaults, clock: Clock | None = None) -> Bus:
    return Bus(
        [MassFlowController("A")],
        baudrate=None,
        turnaround=0.0,
        faults=faults,
        clock=clock or Clock(),
    )


def ask(bus: Bus, request: bytes) -> bytes:
    bus.feed(request)
    return bus.take_due()


def test_noise_stands_before_the_reply_and_is_logged() -> None:
    bus = bus_with(BusFaults(noise=[1]))
    noisy = ask(bus, b"A\r")
    assert noisy.endswith(FRAME)
    assert 1 <= len(noisy) - len(FRAME) <= 8
    (fault,) = bus.fault_log.entries
    assert (fault.kind, fault.unit_id, fault.reply) == ("noise", "A", 1)
    assert (fault.before, fault.after) == (FRAME, noisy)


def test_namesake_mixes_its_digits_with_the_reply() -> None:
    bus = bus_with(BusFaults(duplicate_id=[1]))
    mixed = ask(bus, b"A\r")
    assert len(mixed) == len(FRAME)
    assert mixed[:1] == b"A"
    assert all(a & b == a for a, b in zip(mixed, FRAME, strict=True))
    assert bus.fault_log.counts == {"duplicate-id": 1}


def test_unit_that_lost_its_power_is_silent_and_comes_back_without_a_setpoint() -> None:
    clock = Clock()
    bus = bus_with(BusFaults(reboot=[2], reboot_time=1.5), clock)
    ask(bus, b"ALS 100\r")
    assert ask(bus, b"ALS\r") == b"A +100.00 +100.00 12 SCCM\r"
    assert ask(bus, b"A\r") == b""
    clock.now += 1.6
    assert ask(bus, b"ALS\r") == b"A +000.00 +000.00 12 SCCM\r"
    assert [(f.kind, f.reply) for f in bus.fault_log.entries] == [("reboot", 2)]


def test_reboot_ends_streaming() -> None:
    clock = Clock()
    unit = MassFlowController("A")
    bus = Bus([unit], baudrate=None, turnaround=0.0, clock=clock)
    ask(bus, b"A@ @\r")
    assert unit.streaming
    unit.reboot(clock.now, 0.0)
    assert (unit.unit_id, unit.streaming) == ("A", False)


def test_unit_changed_at_the_panel_changes_the_next_frame_and_back() -> None:
    bus = bus_with(BusFaults(panel_unit=[1, 3]))
    ask(bus, b"A\r")
    assert ask(bus, b"ADCU 5\r") == b"A 7 SLPM\r"
    ask(bus, b"A\r")
    assert ask(bus, b"ADCU 5\r") == b"A 12 SCCM\r"
    assert [fault.detail for fault in bus.fault_log.entries] == ["SLPM", "SCCM"]


def test_every_fault_is_logged_with_its_reply() -> None:
    faults = BusFaults(drop=[1], late={2: 0.5}, corrupt=[3], foreign_id={4: "B"}, streaming=["A"])
    bus = bus_with(faults)
    bus.take_due()
    ask(bus, b"@@ A\r")
    for _ in range(4):
        ask(bus, b"A\r")
    assert [(fault.kind, fault.reply) for fault in bus.fault_log.entries] == [
        ("streaming", 0),
        ("drop", 1),
        ("late", 2),
        ("corrupt", 3),
        ("foreign-id", 4),
    ]


@pytest.mark.parametrize("rate", ["noise", "duplicate_id", "reboot", "panel_unit"])
def test_rates_hit_the_same_replies_for_the_same_seed(rate: str) -> None:
    def hits(seed: int) -> list[int]:
        clock = Clock()
        arguments = {f"{rate}_rate": 0.2, "reboot_time": 0.0, "seed": seed}
        bus = bus_with(BusFaults(**arguments), clock)  # type: ignore[arg-type]
        for _ in range(200):
            ask(bus, b"A\r")
            clock.now += 0.1
        return [fault.reply for fault in bus.fault_log.entries]

    first = hits(7)
    assert hits(7) == first
    assert hits(8) != first
    assert 15 < len(first) < 70
