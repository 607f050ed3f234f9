"""The run itself, on the event loop: reserve the files, open the instruments, record, close.

The files come first, so that a folder that cannot be written to is told before an instrument is
spoken to. Until every instrument has answered they are empty names: a run that cannot begin takes
them away again, and a file that it was to replace is still whole.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

import anyio

from penstock.alicat import AlicatError, AlicatManager, ErrorPolicy
from penstock.cli.display import Display, show, tell
from penstock.cli.errors import (
    CommandError,
    ExitCode,
    already_exists,
    one_line,
)
from penstock.cli.instruments import Controller, open_instrument
from penstock.cli.interrupts import Interrupts
from penstock.cli.output import make_folder, remove_if_empty, written_files
from penstock.cli.plan import DevicePlan, RunPlan
from penstock.cli.progress import Progress, choose_quantity
from penstock.cli.watch import WatchedSource
from penstock.record import (
    AcquisitionSummary,
    CsvSink,
    ParquetSink,
    SinkError,
    SinkExistsError,
    pipe,
    record,
)

__all__ = ["Outcome", "run_session"]


@dataclass(slots=True)
class Outcome:
    """What became of a run: the files that it made, and why it ended early, if it failed."""

    files: list[Path] = field(default_factory=list)
    failure: CommandError | None = None


async def run_session(
    plan: RunPlan, progress: Progress, display: Display, interrupts: Interrupts
) -> Outcome:
    """Carry out *plan*, keeping *progress* up to date.

    A signal ends the run early and in order; the outcome then has the files that were made until
    then. Raises :class:`CommandError` when the run cannot begin, and leaves nothing behind then. A
    failure after that (a full disk) is ``outcome.failure``, because there is a run to tell about.
    """
    outcome = Outcome()
    sinks: list[CsvSink | ParquetSink] = []
    with anyio.CancelScope() as scope, interrupts.stopping(scope.cancel):
        async with AsyncExitStack() as stack:
            stack.callback(remove_if_empty, make_folder(plan.out))
            for path in plan.data_files:
                sink = _sink_for(path, overwrite=plan.overwrite)
                try:
                    sinks.append(await stack.enter_async_context(sink))
                except SinkError as error:
                    raise _explain(error, path) from error
            manager = AlicatManager(error_policy=ErrorPolicy.RETURN)
            await stack.enter_async_context(manager)
            for device in plan.devices:
                await tell(display, f"opening {device}")
                await open_instrument(manager, device)
            for name, fields in manager.field_schemas().items():
                numbers = {item.name: item.unit for item in fields if item.kind == "float"}
                progress.devices[name].quantity = choose_quantity(numbers)
            try:
                await _record(plan, manager, sinks, progress, display)
            except SinkError as error:
                outcome.failure = _explain(error, plan.out)
    # A sink that got no row has taken its file away again, and knows of none then.
    outcome.files += [path for sink in sinks for path in written_files(sink.paths)]
    return outcome


def _sink_for(path: Path, *, overwrite: bool) -> CsvSink | ParquetSink:
    kind = ParquetSink if path.suffix == ".parquet" else CsvSink
    return kind(path, overwrite=overwrite)


async def _record(
    plan: RunPlan,
    manager: AlicatManager,
    sinks: Sequence[CsvSink | ParquetSink],
    progress: Progress,
    display: Display,
) -> None:
    failure: Exception | None = None
    source = WatchedSource(manager, progress)
    async with record(source, rate_hz=plan.rate_hz, duration=plan.duration) as recording:
        started = time.monotonic()

        def refresh() -> None:
            progress.elapsed = time.monotonic() - started
            _take_counts(recording.summary, progress)

        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(show, display, progress, refresh)
                for device in plan.devices:
                    if device.steps:
                        tasks.start_soon(_step, manager, device, progress, started)
                try:
                    await pipe(recording, *sinks)
                except Exception as error:
                    # Carried past the task group, which would wrap it.
                    failure = error
                tasks.cancel_scope.cancel()
        finally:
            refresh()
    if failure is not None:
        raise failure


def _take_counts(summary: AcquisitionSummary, progress: Progress) -> None:
    progress.max_drift_ms = summary.max_drift_ms
    for name, counts in summary.devices.items():
        device = progress.devices[name]
        device.samples = counts.samples_emitted
        device.errors = counts.errors
        device.late = counts.samples_late


async def _step(
    manager: AlicatManager, device: DevicePlan, progress: Progress, started: float
) -> None:
    """Send the setpoints of *device* when they are due; a refused one is noted and passed over."""
    controller = manager.get(device.name)
    assert isinstance(controller, Controller), "open_instrument refuses steps of a meter"
    for step in device.steps:
        # Overdue where it is due at the start, or the step before it took its time.
        await anyio.sleep(max(0.0, started + step.at - time.monotonic()))
        try:
            await controller.setpoint(step.value)
        except (AlicatError, OSError) as error:
            progress.failed_steps.append(
                f"{device.name}, {step.value:g} at {step.at:g} s: {one_line(error)}"
            )


def _explain(error: SinkError, path: Path) -> CommandError:
    if isinstance(error, SinkExistsError) and path.is_file():
        # Made by another program since the check; the sink's remedy is a program's, not a user's.
        return already_exists(path)
    # The sinks' own sentences name the file and the remedy; a second sink's failure is a note.
    failure = CommandError(one_line(error), ExitCode.OUTPUT)
    for note in getattr(error, "__notes__", ()):
        failure.add_note(note)
    return failure
