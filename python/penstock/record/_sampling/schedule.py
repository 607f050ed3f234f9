"""Which devices of a bus are polled when: one cadence for each rate on it.

A bus carries one question at a time, so its lanes (the devices of one rate) take turns: the slot
that is due first goes first. A slow lane is therefore never starved by a fast one, and a fast one
waits for at most one round of a slow one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum

from penstock.record.clock import Cadence

_SECOND = 1_000_000_000


class Alignment(Enum):
    """The positions of a recording's slots on the time line."""

    START = "start"
    """Slot 0 of every device is the start. Devices whose rates divide each other share slots."""
    UTC = "utc"
    """Slot 0 of every device is the next whole second of the wall clock."""
    SPREAD = "spread"
    """Each bus begins a part of its period later, so that buses are not polled at the same time."""


class Lane:
    """The devices of one bus that are polled at one rate, and their next slot."""

    __slots__ = ("cadence", "end", "names", "next_ns", "slot", "target_ns")

    def __init__(self, names: Sequence[str], cadence: Cadence, end: int | None) -> None:
        self.names = tuple(names)
        self.cadence = cadence
        self.end = end
        """The first slot that is not polled any more; None without an end."""
        self.go_to(0)

    def go_to(self, slot: int) -> None:
        """Make ``slot`` the next one."""
        self.slot = slot
        self.target_ns = self.cadence.target_ns(slot)
        self.next_ns = self.cadence.target_ns(slot + 1)

    def advance(self) -> None:
        """Make the slot after this one the next one."""
        self.slot += 1
        self.target_ns = self.next_ns
        self.next_ns = self.cadence.target_ns(self.slot + 1)

    def skip_passed(self, now_ns: int) -> int:
        """Give up the slots whose whole period has passed at ``now_ns``; return how many."""
        if now_ns < self.next_ns:
            return 0
        due = self.cadence.slot_at(now_ns)
        if self.end is not None:
            due = min(due, self.end)
        missed = due - self.slot
        self.go_to(due)
        return missed

    @property
    def ended(self) -> bool:
        """Whether all slots are over."""
        return self.end is not None and self.slot >= self.end


class BusSchedule:
    """The lanes of one bus."""

    def __init__(self, lanes: Sequence[Lane]) -> None:
        self._lanes = list(lanes)

    @classmethod
    def of(
        cls,
        names: Sequence[str],
        rates: Mapping[str, float],
        *,
        start_ns: int,
        duration: float | None,
    ) -> BusSchedule:
        """The schedule of the devices ``names``, each at its rate, from ``start_ns`` on."""
        by_rate: dict[float, list[str]] = {}
        for name in names:
            by_rate.setdefault(rates[name], []).append(name)
        lanes = []
        for rate, members in by_rate.items():
            cadence = Cadence(start_ns, rate)
            end = None if duration is None else cadence.slots_within(duration)
            lanes.append(Lane(members, cadence, end))
        return cls(lanes)

    def next_lane(self) -> Lane | None:
        """The lane whose slot is due first; None when all are over."""
        lanes = self._lanes
        if len(lanes) == 1:
            return None if lanes[0].ended else lanes[0]
        return min(
            (lane for lane in lanes if not lane.ended),
            key=lambda lane: lane.target_ns,
            default=None,
        )


def first_slot_ns(
    alignment: Alignment,
    start_ns: int,
    start_utc_ns: int,
    *,
    bus: int,
    buses: int,
    fastest_hz: float,
) -> int:
    """When slot 0 of a bus is due, on the monotonic clock.

    ``start_ns`` and ``start_utc_ns`` are the start of the recording on both clocks, the same for
    all of its buses: those of one rate then share each slot, and one wake-up.
    ``bus`` of ``buses`` is its number, ``fastest_hz`` the highest rate on it.
    """
    if alignment is Alignment.UTC:
        return start_ns + -start_utc_ns % _SECOND
    if alignment is Alignment.SPREAD:
        return start_ns + int(bus * _SECOND / (buses * fastest_hz))
    return start_ns
