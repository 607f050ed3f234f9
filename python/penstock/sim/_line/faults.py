"""The faults of a simulated line, planned before it starts, and a log of those that happened."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Final

_RATES: Final = ("drop", "late", "corrupt", "noise", "duplicate_id", "reboot", "panel_unit")


@dataclass(frozen=True, slots=True)
class LoggedFault:
    """One fault that happened."""

    at: float
    """Seconds on the bus's clock."""
    kind: str
    unit_id: str
    reply: int = 0
    """The number of the reply; 0 for a fault of the line."""
    before: bytes = b""
    after: bytes = b""
    """The reply, and the bytes that were sent in its place; both empty unless it was changed."""
    detail: str = ""


class FaultLog:
    """The faults of one bus, in the order in which they happened.

    The newest ``limit`` of them are kept; ``counts`` counts all, by kind.
    """

    def __init__(self, limit: int = 10_000) -> None:
        self.entries: deque[LoggedFault] = deque(maxlen=limit)
        self.counts: dict[str, int] = {}
        self._callback: Callable[[LoggedFault], None] | None = None

    def subscribe(self, callback: Callable[[LoggedFault], None]) -> None:
        """Call ``callback`` with every fault, beginning with those in the log."""
        self._callback = callback
        for fault in self.entries:
            callback(fault)

    def add(
        self,
        at: float,
        kind: str,
        unit_id: str,
        *,
        reply: int = 0,
        before: bytes = b"",
        after: bytes = b"",
        detail: str = "",
    ) -> None:
        """Log a fault."""
        fault = LoggedFault(at, kind, unit_id, reply, before, after, detail)
        self.counts[kind] = self.counts.get(kind, 0) + 1
        self.entries.append(fault)
        if self._callback is not None:
            self._callback(fault)


@dataclass(frozen=True, slots=True)
class ReplyFate:
    """The faults of one reply, and of its unit after it."""

    dropped: bool
    delay: float
    corrupted: bool
    noisy: bool
    doubled: bool
    reboot: bool
    panel_unit: bool
    chance: random.Random


@dataclass(frozen=True, slots=True)
class BusFaults:
    """A repeatable list of faults for one bus.

    Replies are numbered from 1 in the order in which the bus answers; streamed frames have no
    number. The rates pick replies at random, always the same ones for the same ``seed``.
    """

    #: Replies that are never sent.
    drop: Collection[int] = ()
    #: Replies that are delayed, and by how many seconds.
    late: Mapping[int, float] = field(default_factory=dict)
    #: Replies in which one byte is changed on the way.
    corrupt: Collection[int] = ()
    #: Replies that carry another unit id: number to id.
    foreign_id: Mapping[int, str] = field(default_factory=dict)
    #: Replies with bytes of noise before them.
    noise: Collection[int] = ()
    #: Replies over which another unit with the same id sends its own, so that the bits mix.
    duplicate_id: Collection[int] = ()
    #: Replies after which the unit loses its power for ``reboot_time`` seconds.
    reboot: Collection[int] = ()
    #: Replies after which somebody changes the unit of the process value at the panel.
    panel_unit: Collection[int] = ()
    #: Probability of each fault for a reply that no list names.
    drop_rate: float = 0.0
    late_rate: float = 0.0
    corrupt_rate: float = 0.0
    noise_rate: float = 0.0
    duplicate_id_rate: float = 0.0
    reboot_rate: float = 0.0
    panel_unit_rate: float = 0.0
    #: How late a reply is that ``late_rate`` picks, in seconds.
    late_by: float = 1.0
    reboot_time: float = 1.5
    #: Unit ids that stream from the beginning.
    streaming: Collection[str] = ()
    #: (begin, length) in seconds from the opening of the line: the adapter is unplugged.
    unplug: Collection[tuple[float, float]] = ()
    seed: int = 0

    def __post_init__(self) -> None:
        for name in (f"{fault}_rate" for fault in _RATES):
            rate = getattr(self, name)
            if not 0.0 <= rate <= 1.0:
                raise ValueError(f"{name} {rate} is not between 0 and 1")
        delays = (
            self.late_by,
            self.reboot_time,
            *self.late.values(),
            *(t for edge in self.unplug for t in edge),
        )
        if not all(delay >= 0.0 for delay in delays):
            raise ValueError("a fault cannot begin or last a negative number of seconds")

    def plugged_after(self, seconds: float) -> tuple[bool, float | None]:
        """Whether the adapter is plugged in at that time, and in how many seconds that changes."""
        changes = []
        plugged = True
        for begin, length in self.unplug:
            if begin <= seconds < begin + length:
                plugged = False
            changes += [edge - seconds for edge in (begin, begin + length) if edge > seconds]
        return plugged, min(changes, default=None)

    def fate_of(self, index: int) -> ReplyFate:
        """The faults of reply number ``index``. The same for the same seed."""
        chance = random.Random(f"{self.seed}/{index}")
        drop, late, corrupt, noise, duplicate, reboot, panel = (chance.random() for _ in _RATES)
        delay = self.late.get(index, 0.0)
        if late < self.late_rate:
            delay = max(delay, self.late_by)
        return ReplyFate(
            dropped=index in self.drop or drop < self.drop_rate,
            delay=delay,
            corrupted=index in self.corrupt or corrupt < self.corrupt_rate,
            noisy=index in self.noise or noise < self.noise_rate,
            doubled=index in self.duplicate_id or duplicate < self.duplicate_id_rate,
            reboot=index in self.reboot or reboot < self.reboot_rate,
            panel_unit=index in self.panel_unit or panel < self.panel_unit_rate,
            chance=chance,
        )

    def apply(
        self, fate: ReplyFate, reply: bytes, log: FaultLog, at: float, index: int, unit_id: str
    ) -> tuple[bytes, float]:
        """Return the bytes of a reply (empty: lost) and its delay. Logs every change."""
        if fate.dropped:
            log.add(at, "drop", unit_id, reply=index)
            return b"", 0.0
        if fate.delay:
            log.add(at, "late", unit_id, reply=index, detail=f"{fate.delay:g} s")
        changes = [
            ("foreign-id", index in self.foreign_id, self._with_foreign_id(index)),
            ("duplicate-id", fate.doubled, lambda data: _mixed_with_a_namesake(data, fate.chance)),
            ("corrupt", fate.corrupted, lambda data: _flip_one_bit(data, fate.chance)),
            ("noise", fate.noisy, lambda data: _noise(fate.chance) + data),
        ]
        for kind, hit, change in changes:
            if hit:
                changed = change(reply)
                log.add(at, kind, unit_id, reply=index, before=reply, after=changed)
                reply = changed
        return reply, fate.delay

    def _with_foreign_id(self, index: int) -> Callable[[bytes], bytes]:
        foreign = self.foreign_id.get(index, "?").encode("ascii")
        return lambda reply: foreign + reply[1:]


def overlay(answers: list[bytes]) -> bytes:
    """One answer as it is; several at once as the line carries them, where a zero bit wins."""
    if len(answers) < 2:
        return b"".join(answers)
    mixed = bytearray()
    for together in zip_longest(*answers, fillvalue=0xFF):
        byte = 0xFF
        for one in together:
            byte &= one
        mixed.append(byte)
    return bytes(mixed)


def _mixed_with_a_namesake(reply: bytes, chance: random.Random) -> bytes:
    # Another instrument's answer to the same request: the same form, other digits.
    other = bytes(0x30 + chance.randrange(10) if 0x30 <= byte <= 0x39 else byte for byte in reply)
    return overlay([reply, other])


def _noise(chance: random.Random) -> bytes:
    return bytes(chance.randrange(256) for _ in range(chance.randrange(1, 9)))


def _flip_one_bit(reply: bytes, chance: random.Random) -> bytes:
    # The carriage returns stay, so that the damage is in the contents and not in the framing;
    # a frame without its end is what a dropped reply already shows.
    candidates = [i for i, byte in enumerate(reply) if byte != 0x0D]
    damaged = bytearray(reply)
    place = chance.choice(candidates)
    # Bit 6 turns digits, signs and letters into other printable or control characters, never CR.
    damaged[place] ^= 0x40 if damaged[place] ^ 0x40 != 0x0D else 0x20
    return bytes(damaged)
