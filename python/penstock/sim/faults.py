"""What goes wrong on a simulated line, decided before it starts."""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

__all__ = ["FaultPlan"]


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """A repeatable list of faults for one bus.

    Replies are numbered from 1 in the order in which the bus answers; streamed frames have no
    number. The rates pick replies at random, always the same ones for the same `seed`.
    """

    #: Replies that are never sent.
    drop: Collection[int] = ()
    #: Replies that come this many seconds later than they should.
    late: Mapping[int, float] = field(default_factory=dict)
    #: Replies in which one byte is changed on the way.
    corrupt: Collection[int] = ()
    #: Replies that carry another unit id: number to id.
    foreign_id: Mapping[int, str] = field(default_factory=dict)
    #: Probability of each fault for a reply that no list names.
    drop_rate: float = 0.0
    late_rate: float = 0.0
    corrupt_rate: float = 0.0
    #: How late a reply is that `late_rate` picks, in seconds.
    late_by: float = 1.0
    #: Unit ids that were left streaming by somebody before.
    streaming: Collection[str] = ()
    #: (begin, length) in seconds from the opening of the line: the adapter is unplugged.
    unplug: Collection[tuple[float, float]] = ()
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("drop_rate", "late_rate", "corrupt_rate"):
            rate = getattr(self, name)
            if not 0.0 <= rate <= 1.0:
                raise ValueError(f"{name} {rate} is not between 0 and 1")
        delays = (self.late_by, *self.late.values(), *(t for edge in self.unplug for t in edge))
        if not all(delay >= 0.0 for delay in delays):
            raise ValueError("a fault cannot begin or last a negative number of seconds")

    def apply(self, index: int, reply: bytes) -> tuple[bytes, float]:
        """What becomes of reply number `index`: the bytes (empty: lost) and the delay."""
        chance = random.Random(f"{self.seed}/{index}")
        if index in self.drop or chance.random() < self.drop_rate:
            return b"", 0.0
        delay = self.late.get(index, 0.0)
        if chance.random() < self.late_rate:
            delay = max(delay, self.late_by)
        foreign = self.foreign_id.get(index)
        if foreign is not None:
            reply = foreign.encode("ascii") + reply[1:]
        if index in self.corrupt or chance.random() < self.corrupt_rate:
            reply = _flip_one_bit(reply, chance)
        return reply, delay


def _flip_one_bit(reply: bytes, chance: random.Random) -> bytes:
    # The carriage returns stay, so that the damage is in the contents and not in the framing;
    # a frame without its end is what a dropped reply already shows.
    candidates = [i for i, byte in enumerate(reply) if byte != 0x0D]
    damaged = bytearray(reply)
    place = chance.choice(candidates)
    # Bit 6 turns digits, signs and letters into other printable or control characters, never CR.
    damaged[place] ^= 0x40 if damaged[place] ^ 0x40 != 0x0D else 0x20
    return bytes(damaged)
