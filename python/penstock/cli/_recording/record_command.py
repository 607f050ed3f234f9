"""``penstock record``: record the instruments that a configuration file names."""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path

from penstock.cli._dashboard.plan import dash_plan, with_layout
from penstock.cli._errors import CommandError, ExitCode
from penstock.cli._interrupts import Interrupts
from penstock.cli._keys import signing_key
from penstock.cli._recording.config import load_config, sink_of_option
from penstock.cli._recording.output import default_folder
from penstock.cli._recording.plan import DevicePlan, RunPlan
from penstock.cli._recording.plan_run import check_parts, run_plan

__all__ = ["run_record"]


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
            "--force is for --resume: it lets it cut off an end that is more than a kill can "
            "tear; leave it out, or add --resume",
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
        from penstock.cli._recording.check_command import run_check

        return run_check(plan, interrupts)
    return run_plan(plan, interrupts, json_summary=options.json)


def _within(device: DevicePlan, duration: float | None) -> DevicePlan:
    """Return ``device`` without the setpoint steps due after the end of a shorter run."""
    if duration is None:
        return device
    steps = tuple(step for step in device.steps if step.at < duration)
    return dataclasses.replace(device, steps=steps)
