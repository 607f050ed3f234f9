"""The run itself, on the event loop: open the instruments, record, step the setpoints, close.

The order is chosen so that a run which cannot begin leaves nothing behind: the instruments
answer first, the files are made after that. Once the files exist, every way out goes through
their closing.
"""

from __future__ import annotations

import time
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from penstock.alicat import AlicatError, AlicatManager, ErrorPolicy
from penstock.cli.display import Display, show
from penstock.cli.errors import CommandError, one_line
from penstock.cli.instruments import open_instruments
from penstock.cli.interrupts import Interrupts
from penstock.cli.output import make_folder
from penstock.cli.plan import DevicePlan, RunPlan
from penstock.cli.progress import Progress, choose_quantity
from penstock.cli.watch import WatchedSource
from penstock.record import AcquisitionSummary, CsvSink, ParquetSink, SinkError, pipe, record

if TYPE_CHECKING:
    from penstock.record import Sink

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
    then. Raises :class:`CommandError` when the run cannot begin, and nothing was made then. A
    failure after that (a full disk) is ``outcome.failure``, because there is a run to tell about.
    """
    outcome = Outcome()
    with anyio.CancelScope() as scope, interrupts.stopping(scope.cancel):
        async with AlicatManager(error_policy=ErrorPolicy.RETURN) as manager:
            await open_instruments(manager, plan.devices)
            for name, fields in manager.field_schemas().items():
                numbers = {item.name: item.unit for item in fields if item.kind == "float"}
                progress.devices[name].quantity = choose_quantity(numbers)
            try:
                await _record(plan, manager, progress, display, outcome)
            except (SinkError, OSError) as error:
                outcome.failure = _explain_sink_error(error, plan.out)
                if not outcome.files:
                    raise outcome.failure from error
    return outcome


async def _record(
    plan: RunPlan,
    manager: AlicatManager,
    progress: Progress,
    display: Display,
    outcome: Outcome,
) -> None:
    make_folder(plan)
    async with AsyncExitStack() as stack:
        sinks: list[Sink] = []
        for path in plan.data_files:
            sink: Sink
            if path.suffix == ".parquet":
                sink = ParquetSink(path, overwrite=plan.overwrite)
            else:
                sink = CsvSink(path, overwrite=plan.overwrite)
            sinks.append(await stack.enter_async_context(sink))
            outcome.files.append(path)
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
                        tasks.start_soon(_step, manager, device, progress, started)
                    await pipe(recording, *sinks)
                    tasks.cancel_scope.cancel()
            finally:
                refresh()


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
    for step in device.steps:
        await anyio.sleep(started + step.at - time.monotonic())
        try:
            await controller.setpoint(step.value)
        except AlicatError as error:
            progress.failed_steps.append(
                f"{device.name}, {step.value:g} at {step.at:g} s: {one_line(error)}"
            )
