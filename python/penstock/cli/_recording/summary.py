"""The summary of a run, as text and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from penstock.cli._recording.progress import Progress

__all__ = ["RunResult", "as_json", "as_text"]


@dataclass(frozen=True, slots=True)
class RunResult:
    """A finished run. ``ended_by`` is the name of the signal that ended it, or None."""

    progress: Progress
    files: Sequence[Path]
    ended_by: str | None = None


def as_text(result: RunResult) -> str:
    """Return the summary as text: totals, one line per device, the files."""
    progress = result.progress
    cut = f" (ended by {result.ended_by})" if result.ended_by else ""
    lines = [
        f"recorded {progress.device_count} at {progress.rate_hz:g} Hz for "
        f"{progress.elapsed:.1f} s{cut}: {progress.counts}, "
        f"worst latency {progress.worst_latency_s * 1e3:.1f} ms, "
        f"worst drift {progress.max_drift_ms:.1f} ms",
    ]
    rows = [("device", "samples", "late", "errors", "worst latency")]
    rows += [
        (
            name,
            str(device.samples),
            str(device.late),
            str(device.errors),
            f"{device.worst_latency_s * 1e3:.1f} ms",
        )
        for name, device in progress.devices.items()
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for name, *cells in rows:
        numbers = (cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True))
        lines.append("  ".join(["", name.ljust(widths[0]), *numbers]))
    lines += [
        f"  {device.plan.name}, last failed poll: {device.last_error}"
        for device in progress.devices.values()
        if device.last_error is not None
    ]
    lines += [f"  setpoint not accepted: {step}" for step in progress.failed_steps]
    lines += [f"  safe state: {text}" for text in progress.safe_states]
    if progress.alarms:
        lines.append(f"  alarms: {progress.alarms}")
    lines += [f"wrote {path}" for path in result.files]
    return "\n".join(lines)


def as_json(result: RunResult) -> dict[str, object]:
    """Return the summary for a program. Each key names the unit of its time."""
    progress = result.progress
    return {
        "samples": progress.samples,
        "late": progress.late,
        "errors": progress.errors,
        "elapsed_s": round(progress.elapsed, 6),
        "rate_hz": progress.rate_hz,
        "worst_latency_ms": round(progress.worst_latency_s * 1e3, 3),
        "max_drift_ms": round(progress.max_drift_ms, 3),
        "ended_by": result.ended_by,
        "devices": {
            name: {
                "port": device.plan.port,
                "unit_id": device.plan.unit_id,
                "samples": device.samples,
                "late": device.late,
                "errors": device.errors,
                "last_error": device.last_error,
                "worst_latency_ms": round(device.worst_latency_s * 1e3, 3),
                "repeated_errors": device.repeated,
            }
            for name, device in progress.devices.items()
        },
        "failed_setpoints": list(progress.failed_steps),
        "alarms": progress.alarms,
        "safe_states": list(progress.safe_states),
        "files": [str(path) for path in result.files],
    }
