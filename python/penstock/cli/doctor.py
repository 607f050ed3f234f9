"""``penstock doctor``: what this machine gives Penstock, a line each.

A check is a function without arguments in a module of :mod:`penstock.cli.checks`, which returns a
:class:`Finding` and does not raise for anything that a machine can be. It is imported when the
command runs.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from importlib import import_module

from penstock.cli.checks import Finding, Status
from penstock.cli.errors import ExitCode, one_line
from penstock.cli.interrupts import Interrupts

__all__ = ["CHECKS", "run_doctor"]

CHECKS = (
    "penstock.cli.checks.loop:check_loop",
    "penstock.cli.checks.files:check_files",
    "penstock.cli.checks.uring:check_uring",
    "penstock.cli.checks.serial:check_serial",
)
"""``module:function`` of each check, in the order of their lines."""


def run_doctor(options: argparse.Namespace, interrupts: Interrupts) -> int:
    """Print what each check found; 0 unless one found something that does not work."""
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
