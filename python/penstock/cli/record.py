"""``penstock record``: record the instruments that a configuration file names."""

from __future__ import annotations

import argparse
import dataclasses
import json
from pathlib import Path

from penstock.cli.config import load_config
from penstock.cli.errors import CommandError, ExitCode, one_line
from penstock.cli.interrupts import Interrupts
from penstock.cli.output import default_folder
from penstock.cli.plan import DevicePlan, RunPlan
from penstock.cli.run import carry_out

__all__ = ["run_record"]


def run_record(options: argparse.Namespace, interrupts: Interrupts) -> int:
    """Record what the file ``options.config`` names, or recover a recording; the exit code.

    Options of the command line take the place of the file's entries.
    """
    if options.recover is not None:
        return _recover(options.recover, json_result=options.json)
    config = load_config(options.config)
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
    )
    return carry_out(plan, interrupts, json_summary=options.json)


def _within(device: DevicePlan, duration: float | None) -> DevicePlan:
    """*device* without the setpoint steps that a shorter ``--duration`` does not reach."""
    if duration is None:
        return device
    steps = tuple(step for step in device.steps if step.at < duration)
    return dataclasses.replace(device, steps=steps)


def _recover(file: str, *, json_result: bool) -> int:
    from penstock.record import RecordError, recover

    try:
        result = recover(file)
    except RecordError as error:
        raise CommandError(one_line(error), ExitCode.OUTPUT) from error
    if json_result:
        facts = {"file": str(result.path), "rows": result.rows, "bytes_cut": result.bytes_cut}
        print(json.dumps(facts))
    elif result.changed:
        print(
            f"recovered {result.path}: {result.rows} samples added from its journal, "
            f"{result.bytes_cut} bytes of a torn end cut off"
        )
    else:
        print(f"{result.path} is whole; nothing to recover")
    return ExitCode.OK
