"""How many polls of a cadence were late, from the times at which an instrument was asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Verdict:
    """What became of the slots of one instrument."""

    slots: int
    late: int
    """Slots whose poll came more than half a period after them, or not at all."""


def judge(polled_at: Sequence[int], rate_hz: float) -> Verdict:
    """Compare the times of polls, in nanoseconds, with the slots of a cadence.

    Slots are a period apart for the whole time. Where they begin is not known here, so it is taken
    from the polls: most of them come soon after their slot, so it is the start of that quarter of
    the period in which the most polls came.
    """
    period = 1e9 / rate_hz
    polled_at = _without_opening(polled_at, period)
    if len(polled_at) < 2:
        return Verdict(len(polled_at), len(polled_at))
    first = polled_at[0]
    begin = first + _busiest([(at - first) % period for at in polled_at], period) - period
    served = set()
    late = 0
    for at in polled_at:
        # A tenth of a period of leniency for a poll that came before the estimated slot.
        slot, after = divmod(at - begin + period / 10, period)
        if slot in served:
            continue
        served.add(slot)
        late += after - period / 10 > period / 2
    slots = int(max(served) - min(served)) + 1
    return Verdict(slots, late + slots - len(served))


def _without_opening(polled_at: Sequence[int], period: float) -> Sequence[int]:
    """Without the polls by which an instrument is opened, long before its cadence begins."""
    begin = 0
    for index in range(1, min(5, len(polled_at))):
        if polled_at[index] - polled_at[index - 1] > 3 * period:
            begin = index
    return polled_at[begin:]


def _busiest(places: Sequence[float], period: float) -> float:
    """The place within a period from which on the most others come within a quarter of it."""
    once = sorted(places)
    twice = [*once, *(place + period for place in once)]
    most, best, end = 0, 0.0, 0
    for index, place in enumerate(once):
        while end < len(twice) and twice[end] < place + period / 4:
            end += 1
        if end - index > most:
            # Without the first of a hundred, which a single stray poll may be.
            most, best = end - index, twice[index + (end - index) // 100]
    return best
