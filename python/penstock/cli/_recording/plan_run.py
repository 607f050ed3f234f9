"""The run of a plan, for ``demo`` and ``record``: checks, run, summary, plot, exit code."""

from __future__ import annotations

import contextlib
import json
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from penstock.cli._dashboard.page import check_dash_parts
from penstock.cli._errors import CommandError, ExitCode, Interrupted, one_line
from penstock.cli._interrupts import Interrupts
from penstock.cli._recording.display import open_display
from penstock.cli._recording.plan import RunPlan
from penstock.cli._recording.progress import DeviceProgress, Progress
from penstock.cli._recording.run_folder import check_output


def run_plan(
    plan: RunPlan,
    interrupts: Interrupts,
    *,
    json_summary: bool,
    ports: Callable[[RunPlan], AbstractContextManager[RunPlan]] = contextlib.nullcontext,
) -> int:
    """Check the plan, run it, print the summary and draw the plot; return the exit code.

    ``ports`` is a context manager around the run that may set the plan's ports: the demo starts its
    simulator there, after the checks.

    Raises:
        CommandError: if the run could not begin or complete.
    """
    check_parts(plan)
    if plan.dash is not None:
        check_dash_parts()
    check_output(plan)
    display = open_display(sys.stderr if json_summary else sys.stdout)
    try:
        with ports(plan) as plan:
            progress = Progress(
                {device.name: DeviceProgress(device) for device in plan.devices},
                plan.rate_hz,
                plan.duration,
            )
            from penstock import run
            from penstock.cli._recording.acquisition import acquire

            # From here a signal only stops the acquisition, which then closes its files.
            with interrupts.deferred():
                outcome = run(acquire(plan, progress, display, interrupts))
            if outcome.files:
                with contextlib.suppress(OSError, ValueError):
                    display.update(progress)
    finally:
        with contextlib.suppress(OSError, ValueError):
            display.close()
    failure = outcome.failure
    if not outcome.files:
        interrupts.raise_if_received()
    files = list(outcome.files)
    if plan.plot and failure is None and interrupts.signum is None:
        try:
            with contextlib.suppress(OSError, ValueError):
                display.note(f"drawing {' and '.join(map(str, plan.plot_files))}")
            # Drawing imports modules, some of them late. A signal's exception during an import
            # would leave the file open that the import was reading.
            with interrupts.deferred():
                from penstock.cli._recording.plot import draw_pictures, write_pictures

                pictures = draw_pictures(progress, plan.plot_files)
            interrupts.raise_if_received()
            write_pictures(pictures, overwrite=plan.overwrite or plan.resume)
            files += plan.plot_files
        except CommandError as error:
            failure = error
        except Interrupted:
            files += [path for path in plan.plot_files if path.exists()]
    ended_by = signal.Signals(interrupts.signum).name if interrupts.signum is not None else None
    result = RunResult(progress, files, ended_by)
    try:
        print(json.dumps(as_json(result)) if json_summary else as_text(result), flush=True)
    except OSError as error:
        failure = failure or CommandError(
            f"the summary cannot be written to standard output: {error.strerror}; the run's files "
            f"are complete in {plan.out}",
            ExitCode.OUTPUT,
        )
    if failure is not None:
        raise failure
    if not progress.unsafe:
        interrupts.raise_if_received()
    if progress.errors or progress.failed_steps or progress.unsafe:
        raise CommandError(_incomplete(progress), ExitCode.INCOMPLETE)
    return ExitCode.OK


def _incomplete(progress: Progress) -> str:
    parts = []
    if progress.errors:
        failing = [name for name, device in progress.devices.items() if device.errors]
        polls = progress.samples + progress.repeated
        parts.append(f"{progress.errors} of {polls} polls failed ({', '.join(failing)})")
    if progress.failed_steps:
        count = len(progress.failed_steps)
        parts.append(f"{count} setpoint {'step was' if count == 1 else 'steps were'} not accepted")
    if progress.unsafe:
        parts.append(f"{', '.join(progress.unsafe)} did not reach the safe state")
    return f"the run is complete, but {' and '.join(parts)}; the summary names the causes"


def check_parts(plan: RunPlan) -> None:
    """Refuse the run before it starts if a package is missing."""
    check_native_loop()
    if {"parquet", "arrow", "parts"}.intersection(plan.formats) and find_spec("pyarrow") is None:
        raise CommandError(
            "recording to Parquet or Arrow needs pyarrow; run pip install 'penstock[parquet]', "
            'or write formats = ["csv"]',
            ExitCode.MISSING_PART,
        )
    if plan.plot and find_spec("matplotlib") is None:
        raise CommandError(
            "the plot needs matplotlib; run pip install 'penstock[cli]', or add --no-plot",
            ExitCode.MISSING_PART,
        )


def check_native_loop() -> None:
    """Refuse a command before it starts if the extension is missing.

    Raises:
        CommandError: (exit code MISSING_PART).
    """
    try:
        missing = None if find_spec("penstock._core") is not None else "is not built"
        if missing is None:
            import_module("penstock._core")
    except ImportError as error:
        missing = f"cannot be loaded: {one_line(error)}"
    if missing is not None:
        raise CommandError(
            f"the native event loop (penstock._core) {missing}; run `make build` in the source "
            "folder, or install Penstock with pip",
            ExitCode.MISSING_PART,
        )


# The summary of a run, as text and as JSON.


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
