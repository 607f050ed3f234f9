"""The acquisition, on the event loop: reserve the files, open the instruments, record, close.

The files are reserved first, so that an unwritable folder is reported before an instrument is
addressed. They stay empty until every instrument has answered. A run that cannot begin removes
them, and a file that it would have replaced is unchanged.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from penstock._plain_task_group import plain_task_group
from penstock.alicat import AlicatError, AlicatManager, ErrorPolicy
from penstock.cli._dashboard.page import beside_recording, opened_listener
from penstock.cli._errors import CommandError, ExitCode, already_exists, one_line
from penstock.cli._interrupts import Interrupts
from penstock.cli._metrics_endpoint import MetricsEndpoint
from penstock.cli._recording.alarms import Alarms, AlarmStates
from penstock.cli._recording.display import Display, show, tell
from penstock.cli._recording.instruments import Joining, controller_of
from penstock.cli._recording.network_sinks import NetworkSinks
from penstock.cli._recording.notes import take_notes
from penstock.cli._recording.plan import DevicePlan, RunPlan
from penstock.cli._recording.progress import Progress
from penstock.cli._recording.run_folder import make_folder, remove_if_empty, written_files
from penstock.cli._recording.safe_states import SafeStates
from penstock.cli._recording.watched_source import WatchedSource
from penstock.cli._service_manager import ServiceManager
from penstock.record import (
    AcquisitionSummary,
    ArrowSink,
    CsvSink,
    JsonlSink,
    NetworkSink,
    ParquetSink,
    RecordError,
    SigningKey,
    Sink,
    SinkExistsError,
    SinkWriteError,
    SqliteSink,
    pipe,
    record,
)
from penstock.record.metrics_text import LastValues, recording_metrics
from penstock.record.sink import PathSink, describe_sink

if TYPE_CHECKING:
    from penstock.dash import BoardSink

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
    reopening: dict[Sink, Reopening] = {}
    service = ServiceManager(os.environ)

    def stop() -> None:
        service.tell("STOPPING=1")
        scope.cancel()

    with anyio.CancelScope() as scope, interrupts.stopping(stop):
        async with service.kept_informed(lambda: progress.counts), AsyncExitStack() as stack:
            listener = None
            if plan.dash is not None:
                _check_limits(plan)
                listener = stack.enter_context(opened_listener(plan.dash))
            if plan.formats:
                stack.callback(remove_if_empty, make_folder(plan.out))
            for path in plan.data_files:
                sink = _sink_for(
                    path,
                    overwrite=plan.overwrite,
                    append=plan.resume,
                    force=plan.force,
                    sign=plan.sign,
                )
                try:
                    sinks.append(await stack.enter_async_context(sink))
                except RecordError as error:
                    raise _explain(error, path) from error
                for cut in sink.cuts:
                    await tell(display, f"penstock: {cut}")
            others: list[Sink] = []
            live = LiveMetrics()
            if plan.metrics is not None:
                endpoint = MetricsEndpoint(plan.metrics, live.page)
                stack.callback(endpoint.close)
                others.append(live.last)
                await tell(display, f"penstock: metrics on {endpoint.place}")
            network = NetworkSinks(plan, partial(tell, display))
            others += await network.open_all(stack)
            states = None
            if plan.alarm is not None and plan.alarm.has_book:
                states = AlarmStates(plan.alarm, plan.out)
                stack.push_async_callback(_close_alarms, states, display)
            manager = AlicatManager(error_policy=ErrorPolicy.RETURN)
            await stack.enter_async_context(manager)
            joining = Joining(manager, progress, partial(tell, display))
            await joining.open_all(plan.devices)
            safe_states = SafeStates(manager, plan.devices)
            page: BoardSink | None = None
            if plan.dash is not None and listener is not None:
                serving = beside_recording(
                    plan.dash,
                    plan.out.name or "instruments",
                    listener,
                    manager,
                    {name: device.quantity for name, device in progress.devices.items()},
                    partial(tell, display),
                )
                page = await stack.enter_async_context(serving)
                others.append(page)
            fallbacks = _fallbacks(plan, sinks)
            spare += fallbacks.values()
            reopening = {sink: Reopening(sink, partial(_continued, plan)) for sink in sinks}
            reopening |= {
                sink: Reopening(sink, partial(_continued, plan)) for sink in fallbacks.values()
            }
            try:
                summary = await _record(
                    plan,
                    manager,
                    joining,
                    safe_states,
                    states,
                    page,
                    [*sinks, *others],
                    network,
                    live,
                    fallbacks,
                    reopening,
                    progress,
                    display,
                    outcome,
                    service,
                )
            except RecordError as error:
                outcome.failure = _explain(error, plan.out)
            else:
                for counts in summary.sinks.values():
                    if counts.replaced_by is not None:
                        reason = counts.error or "a file could not be written for some time"
                        outcome.failure = CommandError(
                            f"{reason}; what followed is in {counts.replaced_by}",
                            ExitCode.OUTPUT,
                        )
            finally:
                # However the run has ended: at its time, by a signal, or by a failure.
                with anyio.CancelScope(shield=True):
                    await _leave_safe(safe_states, progress, display)
    # A sink that got no row has removed its file and lists none.
    later = [again for each in sinks if each in reopening for again in reopening[each].made]
    paths = dict.fromkeys(path for sink in (*sinks, *later) for path in sink.paths)
    outcome.files += written_files(paths)
    outcome.files += written_files(sink.path for sink in spare if sink.path.exists())
    return outcome


async def _close_alarms(states: AlarmStates, display: Display) -> None:
    """Finish the alarm book. Shielded: a signal that ends the run must not lose an alarm."""
    with anyio.CancelScope(shield=True):
        for text in await anyio.to_thread.run_sync(states.close):
            await tell(display, f"penstock: {text}")


async def _leave_safe(safe_states: SafeStates, progress: Progress, display: Display) -> None:
    if wanted := safe_states.wanted_at_the_end():
        await tell(
            display, f"penstock: safe state: asking {', '.join(each.name for each in wanted)}"
        )
    for reached in await safe_states.at_the_end():
        text = reached.message
        if not reached.safe:
            progress.unsafe.append(reached.device)
            text = f"NOT reached: {text}"
        progress.safe_states.append(f"{reached.device}: {text}")
        await tell(display, f"penstock: safe state of {reached.device}: {text}")


def _check_limits(plan: RunPlan) -> None:
    """Refuse limits of the dashboard for devices that are not there."""
    names = [device.name for device in plan.devices]
    for limit in plan.dash.limits if plan.dash is not None else ():
        if not any(device in names for device, _ in limit.readings()):
            raise CommandError(
                f"--limit names {limit.name}, which is not a device; the devices are "
                f"{', '.join(names)}",
                ExitCode.USAGE,
            )


def _sink_for(
    path: Path,
    *,
    overwrite: bool = False,
    append: bool = False,
    force: bool = False,
    sign: SigningKey | None = None,
) -> PathSink:
    kinds: dict[str, Callable[..., PathSink]] = {
        ".csv": CsvSink,
        ".jsonl": JsonlSink,
        ".sqlite": SqliteSink,
        ".arrow": ArrowSink,
    }
    return kinds.get(path.suffix, ParquetSink)(
        path, overwrite=overwrite, append=append, force=force, sign=sign
    )


def _fallbacks(plan: RunPlan, sinks: Sequence[PathSink]) -> dict[Sink, PathSink]:
    """For each file the same one in the run's second folder, if it has one."""
    if plan.fallback is None:
        return {}
    make_folder(plan.fallback)
    return {
        sink: _sink_for(plan.fallback / sink.path.name, append=True, sign=plan.sign)
        for sink in sinks
    }


def _continued(plan: RunPlan, path: Path) -> PathSink:
    return _sink_for(path, append=True, sign=plan.sign)


async def _record(
    plan: RunPlan,
    manager: AlicatManager,
    joining: Joining,
    safe_states: SafeStates,
    states: AlarmStates | None,
    page: BoardSink | None,
    sinks: Sequence[Sink],
    network: NetworkSinks,
    live: LiveMetrics,
    fallbacks: Mapping[Sink, Sink],
    reopening: Mapping[Sink, Reopening],
    progress: Progress,
    display: Display,
    outcome: Outcome,
    service: ServiceManager,
) -> AcquisitionSummary:
    limits = {device.name: device.limits for device in plan.devices}
    alarms = Alarms(manager, progress, limits, plan.alarm, safe_states.demand, states)
    source = WatchedSource(manager, progress, joining.absent, alarms)
    async with record(source, rate_hz=plan.rate_hz, duration=plan.duration) as recording:
        started = time.monotonic()
        service.tell("READY=1")
        alarms.attach(recording)
        live.attach(recording.summary, network)
        safe_states.attach(recording)

        def record_event(kind: str, text: str, device: str) -> None:
            recording.note(f"the page: {text}", device=device, kind=kind)
            if states is not None:
                states.acknowledge_all(device, "the page")

        if page is not None:
            page.record_events(record_event)

        def refresh() -> None:
            progress.elapsed = time.monotonic() - started
            _take_counts(recording.summary, progress)
            progress.remember()

        try:
            async with plain_task_group() as tasks:
                tasks.start_soon(show, display, progress, refresh)
                tasks.start_soon(joining.run, recording, plan.devices)
                tasks.start_soon(alarms.run_commands)
                if states is not None:
                    tasks.start_soon(states.run, recording)
                tasks.start_soon(safe_states.run)
                tasks.start_soon(network.watch, recording)
                if plan.formats:
                    tasks.start_soon(take_notes, recording, plan.out, states)
                for device in plan.devices:
                    if device.steps:
                        tasks.start_soon(
                            _step, manager, device, joining, safe_states, progress, started
                        )
                try:
                    again: dict[Sink, Callable[[], Sink]] = {**reopening, **network.reopening}
                    remaining = {id(sink) for sink in (*sinks, *fallbacks.values())}

                    def tell_failure(sink: Sink, error: Exception) -> None:
                        remaining.discard(id(sink))
                        end = "the run continues" if remaining else "nothing is left to record to"
                        if sink in again or isinstance(sink, PathSink | NetworkSink):
                            end = "it is tried again, and the run continues"
                        recording.note(one_line(error), kind="sink_failed")
                        tasks.start_soon(tell, display, f"penstock: {one_line(error)}; {end}")

                    def tell_return(sink: Sink) -> None:
                        text = f"{describe_sink(sink)} is written again"
                        recording.note(text, kind="sink_returned")
                        tasks.start_soon(tell, display, f"penstock: {text}")

                    await pipe(
                        recording,
                        *sinks,
                        fallbacks=fallbacks,
                        reopen=again,
                        flush_interval=None if plan.dash is None else _SHOWN_EVERY_S,
                        on_sink_failure=tell_failure,
                        on_sink_return=tell_return,
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
        device.repeated = counts.repeated
        device.late = counts.samples_late


async def _step(
    manager: AlicatManager,
    device: DevicePlan,
    joining: Joining,
    safe_states: SafeStates,
    progress: Progress,
    started: float,
) -> None:
    """Send the setpoints of ``device`` when they are due; record those that are refused.

    A step that is due before the instrument has answered is not sent later: hours after the plan
    was made for, a valve is not to open because somebody has plugged in a cable.
    """
    for step in device.steps:
        # A step is overdue if it is due at the start or if the previous step was slow.
        await anyio.sleep(max(0.0, started + step.at - time.monotonic()))
        try:
            if (absent := joining.absent.get(device.name)) is not None:
                raise absent
            if device.name in safe_states.entered:
                raise AlicatError("not sent: an alarm has brought it into its safe state")
            await controller_of(manager, device).setpoint(step.value)
        except (AlicatError, OSError) as error:
            progress.failed_steps.append(
                f"{device.name}, {step.value:g} at {step.at:g} s: {one_line(error)}"
            )


def _explain(error: RecordError, path: Path) -> CommandError:
    if isinstance(error, SinkExistsError) and path.is_file():
        # Another program has created the file since the check. The sink's message addresses a
        # programmer, not a user of the command line.
        return already_exists(path)
    # A sink's own message names the file and the remedy; a second sink's failure is a note.
    failure = CommandError(one_line(error), ExitCode.OUTPUT)
    for note in getattr(error, "__notes__", ()):
        failure.add_note(note)
    return failure


# What ``--metrics`` tells of a run.


class LiveMetrics:
    """The page of a run: empty until it records.

    Attributes:
        last: the sink that gets the rows.
    """

    def __init__(self) -> None:
        self.last = LastValues()
        self._run: tuple[AcquisitionSummary, NetworkSinks] | None = None

    def attach(self, summary: AcquisitionSummary, network: NetworkSinks) -> None:
        """Tell of a recording from now on."""
        self._run = summary, network

    def page(self) -> str:
        """The page, for any thread."""
        if self._run is None:
            return ""
        summary, network = self._run
        return recording_metrics(summary, self.last, network.sinks)


# The file of a run that could not be written, opened again.


class Reopening:
    """Makes the sink that continues the file of a failed one. Calls come from a worker thread.

    A file that is not there is made anew only on the file system that it was on: below a disk that
    is not mounted lies an empty folder, and rows in it would be hidden once the disk is back.
    """

    def __init__(self, sink: PathSink, make: Callable[[Path], PathSink]) -> None:
        self.made: list[PathSink] = []
        """The sinks so far."""
        self._path = sink.path
        self._make = make
        self._device: int | None = None
        with suppress(OSError):
            self._device = os.stat(sink.path.parent).st_dev

    def __call__(self) -> PathSink:
        path = self._path
        there = path.exists() or path.with_name(f"{path.name}.parts").exists()
        if not there and os.stat(path.parent).st_dev != self._device:
            raise SinkWriteError(
                f"{path} is not there, and {path.parent} is on a different file system than "
                "before: mount its disk again"
            )
        made = self._make(path)
        self.made.append(made)
        return made
