"""Instruments that answer from memory, and a clock that is moved by hand."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import anyio
import anyio.lowlevel

from penstock.record import FieldKind, FieldValue
from penstock.record._source import FieldSchemaLike

START = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


@dataclass(frozen=True)
class FakeField:
    name: str
    kind: FieldKind
    unit: str | None = None


@dataclass(frozen=True)
class FakeReading:
    values: Mapping[str, FieldValue]
    status: frozenset[str] = frozenset()


@dataclass(frozen=True)
class FakeResult:
    value: FakeReading | None
    error: Exception | None
    requested_at: datetime
    received_at: datetime
    requested_monotonic_ns: int
    received_monotonic_ns: int


def reply(
    values: Mapping[str, FieldValue] | None = None,
    *,
    status: frozenset[str] = frozenset(),
    asked_ns: int = 0,
    latency_ns: int = 5_000_000,
) -> FakeResult:
    """A reply asked for ``asked_ns`` after START on both clocks."""
    asked = START + timedelta(microseconds=asked_ns // 1000)
    return FakeResult(
        FakeReading({"Mass_Flow": 10.25} if values is None else values, status),
        None,
        asked,
        asked + timedelta(microseconds=latency_ns // 1000),
        asked_ns,
        asked_ns + latency_ns,
    )


def failure(error: Exception, *, asked_ns: int = 0, latency_ns: int = 500_000_000) -> FakeResult:
    """A poll that was given up ``latency_ns`` after it was asked."""
    asked = START + timedelta(microseconds=asked_ns // 1000)
    return FakeResult(
        None,
        error,
        asked,
        asked + timedelta(microseconds=latency_ns // 1000),
        asked_ns,
        asked_ns + latency_ns,
    )


Answer = Callable[[str, int], Awaitable[FakeResult]]


async def prompt(name: str, count: int) -> FakeResult:
    """Answers at once; the flow is the number of the poll."""
    return reply({"Mass_Flow": float(count), "Gas": "N2"}, asked_ns=count)


@dataclass
class Bench:
    """A poll source: ``answer(name, n)`` gives the n-th reply of a device."""

    groups: Sequence[Sequence[str]]
    answer: Answer = prompt
    asked: list[tuple[str, ...]] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    source_id: str = "bench"

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for group in self.groups for name in group)

    def poll_groups(self) -> Sequence[Sequence[str]]:
        return self.groups

    async def poll(self, names: Sequence[str] | None = None) -> Mapping[str, FakeResult]:
        asked = self.names if names is None else tuple(names)
        self.asked.append(asked)
        results = {}
        for name in asked:
            count = self.counts.get(name, 0)
            self.counts[name] = count + 1
            results[name] = await self.answer(name, count)
        return results


@dataclass
class DescribedBench(Bench):
    """A source that knows its fields before the first sample."""

    schemas: Mapping[str, Sequence[FieldSchemaLike]] = field(default_factory=dict)
    facts: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    revision: int = 0

    def field_schemas(self) -> Mapping[str, Sequence[FieldSchemaLike]]:
        return self.schemas

    def device_facts(self, name: str) -> Mapping[str, str]:
        return self.facts.get(name, {})


class HandClock:
    """Time that stands still until a task sleeps; then it is what that task waits for.

    With several tasks asleep the earliest one wakes first, like on a real clock.
    """

    def __init__(self, start_ns: int = 1_000_000_000) -> None:
        self.now = start_ns
        self.sleepers: list[int] = []

    def monotonic_ns(self) -> int:
        return self.now

    def utc_ns(self) -> int:
        return 1_795_262_400_000_000_000 + self.now

    async def sleep_until_ns(self, target: int) -> None:
        self.sleepers.append(target)
        # All other tasks that can run reach their own sleep before time moves.
        for _ in range(20):
            await anyio.lowlevel.checkpoint()
        while min(self.sleepers) < target:
            await anyio.lowlevel.checkpoint()
        self.sleepers.remove(target)
        self.now = max(self.now, target)
