"""A run of another project's pytest suite whose plugin reports each outcome to a file.

The plugin appends a JSON line ``[test, result, detail]`` for each report to the file that
``PENSTOCK_CONFORMANCE_REPORT`` names.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.conformance.cpython_tests import Outcome

REPORT = "PENSTOCK_CONFORMANCE_REPORT"


def expected_failures(expectations: Path) -> dict[str, str]:
    """The expected failures of a file of ``expected``, each with its reason."""
    rows = {}
    for line in expectations.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            test, separator, reason = line.partition("  ")
            assert separator and reason.strip(), f"a line without a reason: {line!r}"
            rows[test] = reason.strip()
    return rows


def run_reported(
    command: Sequence[str],
    *,
    report: Path,
    below: str,
    cwd: str | Path,
    environment: Mapping[str, str],
    seconds: float,
) -> tuple[dict[str, Outcome], str]:
    """Run pytest; return each outcome, and the end of its output.

    A test's name is what stands behind ``below``. A test that failed in any phase has failed.
    """
    report.touch()
    try:
        done = subprocess.run(
            command,
            cwd=cwd,
            env={**environment, REPORT: str(report)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
        output = done.stdout + done.stderr
    except subprocess.TimeoutExpired as error:
        output = f"{error}\n{error.output!r}"
    outcomes: dict[str, Outcome] = {}
    for line in report.read_text(encoding="utf-8").splitlines():
        test, result, detail = json.loads(line)
        test = test.rpartition(below)[2]
        if outcomes.get(test, Outcome("passed", "")).result != "failed":
            outcomes[test] = Outcome(result, detail)
    return outcomes, output[-4000:]
