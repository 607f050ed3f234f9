"""The metrics as Prometheus reads them: its text format, version 0.0.4."""

from __future__ import annotations

from penstock.cli._serve.metrics.memory import BOUNDS, SharedCounters

__all__ = ["metrics_page"]


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
