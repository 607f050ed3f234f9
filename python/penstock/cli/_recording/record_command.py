"""``penstock record``: record the instruments that a configuration file names."""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path

from penstock.alicat import AlicatManager
from penstock.cli._dashboard.plan import dash_plan, with_layout
from penstock.cli._errors import CommandError, ExitCode
from penstock.cli._interrupts import Interrupts
from penstock.cli._keys import signing_key
from penstock.cli._recording.alarms import destinations_of
from penstock.cli._recording.config import load_config, sink_of_option
from penstock.cli._recording.instruments import Joining
from penstock.cli._recording.network_sinks import NetworkSinks
from penstock.cli._recording.plan import DevicePlan, RunPlan
from penstock.cli._recording.plan_run import check_parts, run_plan
from penstock.cli._recording.progress import DeviceProgress, Progress
from penstock.cli._recording.run_folder import check_output, default_folder


def run_record(options: argparse.Namespace, interrupts: Interrupts) -> int:
    """Record what the file ``options.config`` names.

    Command-line options override the file's entries. Returns the exit code.
    """
    if options.resume and options.overwrite:
        raise CommandError(
            "--resume continues the files and --overwrite replaces them; give one of them",
            ExitCode.USAGE,
        )
    if options.force and not options.resume:
        raise CommandError(
            "--force lets --resume cut off more than a kill can damage; leave it out, or add "
            "--resume",
            ExitCode.USAGE,
        )
    sign = signing_key(options.sign)
    config = load_config(options.config or options.config_option)
    duration = config.duration if options.duration is None else options.duration
    out = config.out if options.out is None else Path(options.out)
    plan = RunPlan(
        devices=tuple(_within(device, duration) for device in config.devices),
        out=out if out is not None else default_folder("run"),
        rate_hz=config.rate_hz,
        duration=duration,
        formats=config.formats,
        overwrite=options.overwrite,
        plot=not options.no_plot,
        resume=options.resume,
        force=options.force,
        fallback=config.fallback,
        sign=sign,
        postgres_dsn=options.postgres_dsn,
        dash=with_layout(dash_plan(options), config),
        alarm=config.alarm,
        metrics=options.metrics,
        sinks=(*config.sinks, *map(sink_of_option, options.to or ())),
    )
    if options.check:
        check_parts(plan)
        return run_check(plan, interrupts)
    return run_plan(plan, interrupts, json_summary=options.json)


def _within(device: DevicePlan, duration: float | None) -> DevicePlan:
    """Return ``device`` without the setpoint steps due after the end of a shorter run."""
    if duration is None:
        return device
    steps = tuple(step for step in device.steps if step.at < duration)
    return dataclasses.replace(device, steps=steps)


# ``penstock record --check``: everything that a run checks before it records, and nothing else.


def run_check(plan: RunPlan, interrupts: Interrupts) -> int:
    """Check the files, the instruments, their limits, setpoints and safe states.

    No file is created, and no instrument is changed.

    Raises:
        CommandError: as a run would; with exit code DEVICE also for an instrument that does not
            answer and is not required.
    """
    check_output(plan)
    if plan.alarm is not None:
        destinations_of(plan.alarm)
    from penstock import run

    with interrupts.deferred():
        absent, lines = run(_ask(plan))
    interrupts.raise_if_received()
    for line in lines:
        print(line)
    if absent:
        raise CommandError(
            f"{', '.join(absent)} did not answer; a run would begin all the same, and ask again",
            ExitCode.DEVICE,
        )
    print(f"ready to record into {plan.out}", flush=True)
    return ExitCode.OK


async def _ask(plan: RunPlan) -> tuple[list[str], list[str]]:
    progress = Progress(
        {device.name: DeviceProgress(device) for device in plan.devices},
        plan.rate_hz,
        plan.duration,
    )

    async def tell(text: str) -> None:
        print(text, flush=True)

    await NetworkSinks(plan, tell).check()
    async with AlicatManager() as manager:
        joining = Joining(manager, progress, tell)
        await joining.open_all(plan.devices)
        lines = []
        for name, facts in ((name, manager.device_facts(name)) for name in manager.names):
            about = ", ".join(
                f"{key} {facts[key]}" for key in ("model", "serial", "firmware") if key in facts
            )
            quantity = progress.devices[name].quantity
            shown = f"; {quantity.name} in {quantity.unit}" if quantity is not None else ""
            lines.append(f"{name}: {about}{shown}")
        busy = {
            label: share for label, share in manager.utilisation(plan.rate_hz).items() if share > 1
        }
        lines += [
            f"warning: the polls on {label} take {share:.1f} times the time that there is; "
            "poll more slowly, or at a higher baud rate"
            for label, share in busy.items()
        ]
        return list(joining.absent), lines
