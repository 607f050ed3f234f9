"""The acquisition, on the event loop: reserve the files, open the instruments, record, close.

The files are reserved first, so that an unwritable folder is reported before an instrument is
addressed. They stay empty until every instrument has answered. A run that cannot begin removes
them, and a file that it would have replaced is unchanged.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import anyio

from penstock._plain_task_group import plain_task_group
from penstock.alicat import AlicatError, AlicatManager, ErrorPolicy
from penstock.cli._dash.page import beside_recording, opened_listener
from penstock.cli._errors import (
    CommandError,
    ExitCode,
    already_exists,
    one_line,
)
from penstock.cli._interrupts import Interrupts
from penstock.cli._recording.display import Display, show, tell
from penstock.cli._recording.instruments import controller_of, open_instrument
from penstock.cli._recording.output import make_folder, remove_if_empty, written_files
from penstock.cli._recording.plan import DevicePlan, RunPlan
from penstock.cli._recording.progress import Progress
from penstock.cli._recording.watched_source import WatchedSource
from penstock.record import (
    AcquisitionSummary,
    ArrowSink,
    CsvSink,
    JsonlSink,
    ParquetSink,
    PostgresSink,
    Sink,
    SinkError,
    SinkExistsError,
    SqliteSink,
    pipe,
    record,
)
from penstock.record.shown_quantity import choose_quantity
from penstock.record.sink import PathSink

__all__ = ["Outcome", "acquire"]

_SHOWN_EVERY_S = 0.2
"""How long rows wait for the dashboard. Files gather them further, in their own loss window."""


@dataclass(slots=True)
class Outcome:
    """The result of a run: the files that it made, and the failure that ended it early, if any."""

    files: list[Path] = field(default_factory=list)
    failure: CommandError | None = None


async def acquire(
    plan: RunPlan, progress: Progress, display: Display, interrupts: Interrupts
) -> Outcome:
    """Carry out ``plan``, keeping ``progress`` up to date.

    A signal ends the run early and in order; the outcome lists the files made so far. A failure
    during the run (a full disk) becomes ``outcome.failure``, so that the run is still summarised.

    Raises:
        CommandError: if the run cannot begin. It leaves no files.
    """
    outcome = Outcome()
    sinks: list[PathSink] = []
    spare: list[PathSink] = []
    with anyio.CancelScope() as scope, interrupts.stopping(scope.cancel):
        async with AsyncExitStack() as stack:
            listener = None
            if plan.dash is not None:
                _check_limits(plan)
                listener = stack.enter_context(opened_listener(plan.dash))
            if plan.formats:
                stack.callback(remove_if_empty, make_folder(plan.out))
            for path in plan.data_files:
                sink = _sink_for(path, overwrite=plan.overwrite, append=plan.resume)
                try:
                    sinks.append(await stack.enter_async_context(sink))
                except SinkError as error:
                    raise _explain(error, path) from error
            others: list[Sink] = []
            if plan.postgres_dsn is not None:
                others.append(await _open_postgres(plan, stack))
            manager = AlicatManager(error_policy=ErrorPolicy.RETURN)
            await stack.enter_async_context(manager)
            for device in plan.devices:
                await tell(display, f"opening {device}")
                await open_instrument(manager, device)
            for name, fields in manager.field_schemas().items():
                numbers = {item.name: item.unit for item in fields if item.kind == "float"}
                progress.devices[name].quantity = choose_quantity(numbers)
            if plan.dash is not None and listener is not None:
                page = beside_recording(
                    plan.dash,
                    plan.out.name or "instruments",
                    listener,
                    manager,
                    {name: device.quantity for name, device in progress.devices.items()},
                    partial(tell, display),
                )
                others.append(await stack.enter_async_context(page))
            fallbacks = _fallbacks(plan, sinks)
            spare += fallbacks.values()
            try:
                summary = await _record(
                    plan, manager, [*sinks, *others], fallbacks, progress, display, outcome
                )
            except SinkError as error:
                outcome.failure = _explain(error, plan.out)
            else:
                for counts in summary.sinks.values():
                    if counts.replaced_by is not None:
                        outcome.failure = CommandError(
                            f"{counts.error}; what followed is in {counts.replaced_by}",
                            ExitCode.OUTPUT,
                        )
    # A sink that got no row has removed its file and lists none.
    outcome.files += [path for sink in sinks for path in written_files(sink.paths)]
    outcome.files += written_files(sink.path for sink in spare if sink.path.exists())
    return outcome


def _check_limits(plan: RunPlan) -> None:
    """Refuse limits of the dashboard for devices that are not there."""
    names = [device.name for device in plan.devices]
    for name in plan.dash.limits if plan.dash is not None else ():
        if name not in names:
            raise CommandError(
                f"--limit names {name}, which is no device; there are {', '.join(names)}",
                ExitCode.USAGE,
            )


def _sink_for(path: Path, *, overwrite: bool = False, append: bool = False) -> PathSink:
    kinds: dict[str, Callable[..., PathSink]] = {
        ".csv": CsvSink,
        ".jsonl": JsonlSink,
        ".sqlite": SqliteSink,
        ".arrow": ArrowSink,
    }
    return kinds.get(path.suffix, ParquetSink)(path, overwrite=overwrite, append=append)


async def _open_postgres(plan: RunPlan, stack: AsyncExitStack) -> Sink:
    """The sink of ``plan.postgres_dsn``, open; what the server cannot take is spooled beside it."""
    sink = PostgresSink(
        plan.postgres_dsn or "",
        overwrite=plan.overwrite,
        append=plan.resume,
        spool=plan.out / "samples.postgres-spool",
    )
    try:
        return await stack.enter_async_context(sink)
    except SinkExistsError as error:
        raise CommandError(
            f"the table samples exists already in {sink.server}; add --resume to continue it or "
            "--overwrite to replace it",
            ExitCode.OUTPUT,
        ) from error
    except SinkError as error:
        raise CommandError(one_line(error), ExitCode.OUTPUT) from error


def _fallbacks(plan: RunPlan, sinks: Sequence[PathSink]) -> dict[Sink, PathSink]:
    """For each file the same one in the run's second folder, if it has one."""
    if plan.fallback is None:
        return {}
    make_folder(plan.fallback)
    return {sink: _sink_for(plan.fallback / sink.path.name, append=True) for sink in sinks}


async def _record(
    plan: RunPlan,
    manager: AlicatManager,
    sinks: Sequence[Sink],
    fallbacks: Mapping[Sink, Sink],
    progress: Progress,
    display: Display,
    outcome: Outcome,
) -> AcquisitionSummary:
    source = WatchedSource(manager, progress)
    async with record(source, rate_hz=plan.rate_hz, duration=plan.duration) as recording:
        started = time.monotonic()

        def refresh() -> None:
            progress.elapsed = time.monotonic() - started
            _take_counts(recording.summary, progress)
            progress.remember()

        try:
            async with plain_task_group() as tasks:
                tasks.start_soon(show, display, progress, refresh)
                for device in plan.devices:
                    if device.steps:
                        tasks.start_soon(_step, manager, device, progress, started)
                try:
                    remaining = {id(sink) for sink in (*sinks, *fallbacks.values())}

                    def tell_failure(sink: Sink, error: Exception) -> None:
                        remaining.discard(id(sink))
                        end = "the run goes on" if remaining else "nothing is left to record to"
                        tasks.start_soon(tell, display, f"penstock: {one_line(error)}; {end}")

                    await pipe(
                        recording,
                        *sinks,
                        fallbacks=fallbacks,
                        flush_interval=1.0 if plan.dash is None else _SHOWN_EVERY_S,
                        on_sink_failure=tell_failure,
                    )
                finally:
                    tasks.cancel_scope.cancel()
        except anyio.get_cancelled_exc_class():
            # A cancellation leaves pipe in the place of what went wrong with its sinks.
            outcome.failure = _incomplete(recording.summary)
            raise
        finally:
            refresh()
    return recording.summary


def _incomplete(summary: AcquisitionSummary) -> CommandError | None:
    """What sinks of a run that was ended early have not written; None if they have everything."""
    lost = []
    for name, counts in summary.sinks.items():
        if counts.error is not None and counts.replaced_by is None:
            lost.append(counts.error)
        if counts.rows_dropped:
            lost.append(f"{name} did not keep up: {counts.rows_dropped} rows were dropped for it")
    if not lost:
        return None
    first, *others = (" ".join(text.split()) for text in lost)
    failure = CommandError(first, ExitCode.OUTPUT)
    for text in others:
        failure.add_note(f"also: {text}")
    return failure


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
    """Send the setpoints of ``device`` when they are due; record those that are refused."""
    controller = controller_of(manager, device)
    for step in device.steps:
        # A step is overdue if it is due at the start or if the previous step was slow.
        await anyio.sleep(max(0.0, started + step.at - time.monotonic()))
        try:
            await controller.setpoint(step.value)
        except (AlicatError, OSError) as error:
            progress.failed_steps.append(
                f"{device.name}, {step.value:g} at {step.at:g} s: {one_line(error)}"
            )


def _explain(error: SinkError, path: Path) -> CommandError:
    if isinstance(error, SinkExistsError) and path.is_file():
        # Another program has created the file since the check. The sink's message addresses a
        # programmer, not a user of the command line.
        return already_exists(path)
    # A sink's own message names the file and the remedy; a second sink's failure is a note.
    failure = CommandError(one_line(error), ExitCode.OUTPUT)
    for note in getattr(error, "__notes__", ()):
        failure.add_note(note)
    return failure
