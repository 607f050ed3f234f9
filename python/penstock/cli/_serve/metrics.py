"""The metrics of penstock serve: counters of all workers in shared memory, and their page."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator

BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds of the histogram of durations, in seconds."""

_STATUSES = 600
_GAUGES = ("alive", "connections", "in_progress", "loop_lag", "memory", "started", "pid")
_LENGTH = _STATUSES + len(BOUNDS) + 1 + 1 + len(_GAUGES)
_PLACES = 256
"""By which the memory grows when all places are taken."""


class Counters:
    """The counters of one worker. Written by its process alone, and read by another one.

    An aligned number of 8 bytes is written at once, so no lock is needed.
    """

    def __init__(self, numbers: memoryview[float]) -> None:
        self._numbers = numbers

    def begin(self, pid: int, started: float) -> None:
        """Reset what is not counted over the whole time: a new process takes the place over."""
        for name in _GAUGES:
            self.set(name, 0.0)
        self.set("pid", pid)
        self.set("started", started)
        self.set("alive", 1.0)

    def count(self, status: int, seconds: float) -> None:
        """Count a response."""
        numbers = self._numbers
        numbers[status if 0 <= status < _STATUSES else 0] += 1.0
        place = _STATUSES
        for bound in BOUNDS:
            if seconds <= bound:
                break
            place += 1
        numbers[place] += 1.0
        numbers[_STATUSES + len(BOUNDS) + 1] += seconds

    def set(self, gauge: str, value: float) -> None:
        """Set one of the gauges."""
        self._numbers[_LENGTH - len(_GAUGES) + _GAUGES.index(gauge)] = value

    def gauge(self, gauge: str) -> float:
        """Return a gauge."""
        return float(self._numbers[_LENGTH - len(_GAUGES) + _GAUGES.index(gauge)])

    def statuses(self) -> Iterator[tuple[int, float]]:
        """Return how often each status was sent."""
        return ((status, count) for status, count in enumerate(self._numbers[:_STATUSES]) if count)

    def durations(self) -> list[float]:
        """Return how many responses lie in each part of the histogram; the last has no bound."""
        return list(self._numbers[_STATUSES : _STATUSES + len(BOUNDS) + 1])

    def seconds(self) -> float:
        """Return the sum of the durations."""
        return float(self._numbers[_STATUSES + len(BOUNDS) + 1])


class SharedCounters:
    """The places of all workers.

    A worker's counts stay when it ends, and its successor adds to them.

    Args:
        descriptor: The memory, if another process has made it.
    """

    def __init__(self, descriptor: int | None = None) -> None:
        if descriptor is None:
            descriptor = os.memfd_create("penstock-metrics")
            os.ftruncate(descriptor, _PLACES * _LENGTH * 8)
        self.descriptor = descriptor
        self._numbers = _mapped(descriptor)
        self._free = list(range(self._places))

    @property
    def _places(self) -> int:
        return len(self._numbers) // _LENGTH

    def place(self, number: int) -> Counters:
        """Return the counters of a place."""
        return Counters(self._numbers[number * _LENGTH : (number + 1) * _LENGTH])

    def take(self) -> int:
        """Return a free place."""
        if not self._free:
            places = self._places
            os.ftruncate(self.descriptor, (places + _PLACES) * _LENGTH * 8)
            # What is mapped already stays mapped for its readers: it is the same memory.
            self._numbers = _mapped(self.descriptor)
            self._free = list(range(places, places + _PLACES))
        return self._free.pop(0)

    def give_back(self, number: int) -> None:
        """Let a place be taken by another worker. The lowest ones are taken first."""
        self.place(number).set("alive", 0.0)
        self._free.append(number)
        self._free.sort()

    def used(self) -> Iterator[tuple[int, Counters]]:
        """Return the counters of the places that were ever taken."""
        for number in range(self._places):
            counters = self.place(number)
            if counters.gauge("started"):
                yield number, counters


def _mapped(descriptor: int) -> memoryview[float]:
    return memoryview(mmap.mmap(descriptor, os.fstat(descriptor).st_size)).cast("d")


# The metrics as Prometheus reads them: its text format, version 0.0.4.


def metrics_page(shared: SharedCounters) -> str:
    """Return the page: sums over all workers, and the gauges of each worker that is alive."""
    statuses: dict[int, float] = {}
    durations = [0.0] * (len(BOUNDS) + 1)
    seconds = 0.0
    alive = []
    for number, counters in shared.used():
        for status, count in counters.statuses():
            statuses[status] = statuses.get(status, 0.0) + count
        durations = [a + b for a, b in zip(durations, counters.durations(), strict=True)]
        seconds += counters.seconds()
        if counters.gauge("alive"):
            alive.append((number, counters))
    lines = _head("requests_total", "counter", "Responses by their status.")
    lines += [
        f'penstock_requests_total{{status="{status}"}} {count:.0f}'
        for status, count in sorted(statuses.items())
    ]
    lines += _head(
        "request_duration_seconds", "histogram", "Time from a request's head to its response's end."
    )
    total = 0.0
    for bound, count in zip((*map(str, BOUNDS), "+Inf"), durations, strict=True):
        total += count
        lines.append(f'penstock_request_duration_seconds_bucket{{le="{bound}"}} {total:.0f}')
    lines.append(f"penstock_request_duration_seconds_sum {seconds!r}")
    lines.append(f"penstock_request_duration_seconds_count {total:.0f}")
    lines += _head("workers", "gauge", "Processes that serve.")
    lines.append(f"penstock_workers {len(alive)}")
    for name, gauge, text in (
        ("requests_in_progress", "in_progress", "Requests whose response is not complete."),
        ("connections", "connections", "Open connections."),
        ("loop_lag_seconds", "loop_lag", "How late the loop has run a timer of a half second."),
        ("resident_memory_bytes", "memory", "Memory of the process."),
        ("start_time_seconds", "started", "When the process began, since 1970."),
    ):
        lines += _head(name, "gauge", text)
        for number, counters in alive:
            labels = f'worker="{number}",pid="{counters.gauge("pid"):.0f}"'
            lines.append(f"penstock_{name}{{{labels}}} {counters.gauge(gauge)!r}")
    return "\n".join(lines) + "\n"


def _head(name: str, kind: str, text: str) -> list[str]:
    return [f"# HELP penstock_{name} {text}", f"# TYPE penstock_{name} {kind}"]
