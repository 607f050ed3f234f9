"""``penstock doctor``: what this machine offers Penstock, one line per part.

A check is a function without arguments. It returns a :class:`Finding` and raises for no state of a
machine. What it checks is imported when it runs, so one missing part fails one check.
"""

from __future__ import annotations

import argparse
import json
import platform
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from importlib import import_module

from penstock.cli._errors import ExitCode, one_line
from penstock.cli._interrupts import Interrupts

CHECKS = (
    "penstock.cli._doctor.command:check_loop",
    "penstock.cli._doctor.command:check_files",
    "penstock.cli._doctor.command:check_uring",
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
    name = function.removeprefix("check_")
    try:
        look: Callable[[], Finding | list[Finding]] = getattr(import_module(module), function)
        found = look()
    except Exception as error:
        return [Finding(name, Status.BROKEN, f"the check itself failed: {one_line(error)}")]
    return [found] if isinstance(found, Finding) else found


class Status(Enum):
    """The severity of a finding."""

    FINE = "fine"
    """Nothing is missing."""
    LESS = "less"
    """The part works but could work better; the text says how."""
    BROKEN = "broken"
    """The part does not work; the text names the remedy."""


@dataclass(frozen=True)
class Finding:
    """One line of the output of ``penstock doctor``."""

    name: str
    status: Status
    text: str

    def as_json(self) -> dict[str, str]:
        """Return the findings in the form that ``--json`` prints."""
        return {"name": self.name, "status": self.status.value, "text": self.text}


def check_loop() -> Finding:
    """Load the extension and run a coroutine on its loop."""
    try:
        from penstock import run
    except ImportError as error:
        return _not_loaded("loop", error)

    async def nothing() -> None: ...

    run(nothing())
    where = f"CPython {platform.python_version()}, {platform.system()} {platform.release()}"
    return Finding("loop", Status.FINE, f"native, on {where}")


def check_files() -> Finding:
    """Query the file engine of a running Penstock loop, as a program does."""
    try:
        from penstock import run
        from penstock.files._backend import current_backend
    except ImportError as error:
        return _not_loaded("files", error)

    async def ask() -> tuple[str, str]:
        backend = current_backend()
        return backend.name, backend.reason

    try:
        name, reason = run(ask())
    except (OSError, ValueError, RuntimeError) as error:
        return Finding("files", Status.BROKEN, one_line(error))
    return Finding("files", Status.FINE if name == "uring" else Status.LESS, reason)


def check_uring() -> Finding:
    """Probe the kernel. If it refuses, only ``penstock.uring`` does not work."""
    from penstock.uring import probe

    found = probe()
    return Finding("uring", Status.FINE if found.available else Status.LESS, found.reason)


def _not_loaded(name: str, error: ImportError) -> Finding:
    return Finding(
        name,
        Status.BROKEN,
        f"penstock._core cannot be loaded ({one_line(error)}); run `make build` in the source"
        " folder, or install Penstock with pip",
    )
