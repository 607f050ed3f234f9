"""``penstock doctor``: what this machine offers Penstock, one line per part.

A check is a function without arguments in a sibling module. It returns a :class:`Finding` and
raises for no state of a machine. It is imported when the command runs.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from importlib import import_module

from penstock.cli._doctor.findings import Finding, Status
from penstock.cli._errors import ExitCode, one_line
from penstock.cli._interrupts import Interrupts

__all__ = ["CHECKS", "run_doctor"]

CHECKS = (
    "penstock.cli._doctor.loop:check_loop",
    "penstock.cli._doctor.files:check_files",
    "penstock.cli._doctor.uring:check_uring",
    "penstock.cli._doctor.serial:check_serial",
)
"""``module:function`` of each check, in the order of the output lines."""


def run_doctor(options: argparse.Namespace, interrupts: Interrupts) -> int:
    """Print the findings. Return 0, or an error code if a finding says that a part is broken."""
    findings = [finding for check in CHECKS for finding in _carry_out(check)]
    if options.json:
        print(json.dumps({"checks": [finding.as_json() for finding in findings]}))
    else:
        width = max(len(finding.name) for finding in findings)
        for finding in findings:
            mark = "" if finding.status is Status.FINE else f"{finding.status.value}: "
            print(f"{finding.name.ljust(width)}  {mark}{finding.text}")
    broken = any(finding.status is Status.BROKEN for finding in findings)
    return ExitCode.MISSING_PART if broken else ExitCode.OK


def _carry_out(check: str) -> list[Finding]:
    module, _, function = check.partition(":")
    name = module.rpartition(".")[2]
    try:
        look: Callable[[], Finding | list[Finding]] = getattr(import_module(module), function)
        found = look()
    except Exception as error:
        return [Finding(name, Status.BROKEN, f"the check itself failed: {one_line(error)}")]
    return [found] if isinstance(found, Finding) else found
