"""Times of single operations and their summary for a page."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable


def summary(nanoseconds: list[int], cpu_seconds: float) -> dict[str, float]:
    """Percentiles, mean and maximum of the times, and CPU time per operation, in µs."""
    ordered = sorted(nanoseconds)
    count = len(ordered)
    return {
        "p50": ordered[count // 2] / 1000,
        "p90": ordered[min(count - 1, count * 9 // 10)] / 1000,
        "p99": ordered[min(count - 1, count * 99 // 100)] / 1000,
        "max": ordered[-1] / 1000,
        "mean": sum(ordered) / count / 1000,
        "cpu": cpu_seconds / count * 1e6,
    }


async def timed(operation: Callable[[], Awaitable[object]], count: int) -> dict[str, float]:
    """Time *count* single operations after a warm-up of a tenth as many."""
    clock = time.perf_counter_ns
    for _ in range(count // 10 + 1):
        await operation()
    times = []
    cpu = time.process_time()
    for _ in range(count):
        begin = clock()
        await operation()
        times.append(clock() - begin)
    return summary(times, time.process_time() - cpu)


def timed_blocking(operation: Callable[[], object], count: int) -> dict[str, float]:
    """The same for a blocking operation."""
    clock = time.perf_counter_ns
    for _ in range(count // 10 + 1):
        operation()
    times = []
    cpu = time.process_time()
    for _ in range(count):
        begin = clock()
        operation()
        times.append(clock() - begin)
    return summary(times, time.process_time() - cpu)
