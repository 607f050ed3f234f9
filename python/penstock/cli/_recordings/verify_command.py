"""``penstock verify``: is a recording complete and in order?"""

from __future__ import annotations

import argparse
import dataclasses
import json

from penstock.cli._errors import ExitCode
from penstock.cli._recordings.checks import Findings, check
from penstock.cli._recordings.reading import name_of, read_parts

__all__ = ["run_verify"]


def run_verify(options: argparse.Namespace) -> int:
    """Check each file of ``options.files``; return FOUND if something is wrong with one."""
    results = {
        name_of(file, options.table): check(read_parts(file, options.table))
        for file in options.files
    }
    if options.json:
        print(
            json.dumps(
                {
                    file: {**dataclasses.asdict(findings), "problems": findings.problems}
                    for file, findings in results.items()
                }
            )
        )
    else:
        for file, findings in results.items():
            print(_as_text(file, findings))
    found = any(findings.problems for findings in results.values())
    return ExitCode.FOUND if found else ExitCode.OK


def _as_text(file: str, findings: Findings) -> str:
    verdict = f"{findings.problems} problems" if findings.problems else "no problem"
    lines = [
        f"{file}: {verdict}; parts {findings.parts}, runs {findings.runs}, "
        f"events {findings.events}",
        *(f"  schema: {problem}" for problem in findings.schema),
    ]
    for name, device in findings.devices.items():
        lines.append(
            f"  {name}: samples {device.samples}, failed {device.failed}, "
            f"missed slots {device.missed_slots}, gaps {device.gaps}"
            + (f" (longest {device.longest_gap_s:.3f} s)" if device.gaps else "")
            + f", out of order {device.out_of_order}, duplicates {device.duplicates}"
        )
    return "\n".join(lines)
