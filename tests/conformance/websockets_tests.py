"""Runs websockets' own tests of its asyncio half on ``penstock.websocket``.

usage: python -m tests.conformance.websockets_tests

prints every test that does not pass, in the form of ``expected/websockets.txt``; reasons in that
file are kept.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from tests.conformance.cpython_tests import Outcome
from tests.conformance.reported_run import expected_failures, run_reported

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
EXPECTATIONS = HERE / "expected" / "websockets.txt"
# The source distribution has no tests; the one of Debian 13's package has.
SOURCE = ROOT / "build" / "conformance" / "websockets-15.0.1"
SECONDS = 100.0
FILES = ("client", "connection", "server")
# What the tests call a millisecond. A longer one makes them slow, a shorter one depends on luck.
MILLISECONDS = 10


def expected() -> dict[str, str]:
    """The expected failures, each with its reason."""
    return expected_failures(EXPECTATIONS)


def run(only: list[str] | None = None, factor: int = 1) -> tuple[dict[str, Outcome], str]:
    """Run the tests on Penstock's loop; return each outcome, and pytest's output.

    With a `factor`, their times are longer, for tests whose luck a busy machine has taken.
    """
    source = SOURCE
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report")
        command = [sys.executable, "-m", "pytest", "-q", "-p", "websockets_plugin"]
        command += ["-p", "no:cacheprovider", "-p", "no:asyncio", "-c", os.devnull]
        command += ["--timeout", str(4 * factor), "--rootdir", str(source)]
        names = [f"test_{name}.py" for name in FILES] if only is None else only
        command += [str(source / "tests" / "asyncio" / name) for name in names]
        return run_reported(
            command,
            report=report,
            below="asyncio/",
            cwd=source,
            environment={
                **{k: v for k, v in os.environ.items() if not k.lower().endswith("_proxy")},
                "PYTHONPATH": os.pathsep.join(map(str, (source, HERE, ROOT / "python"))),
                "WEBSOCKETS_TESTS_TIMEOUT_FACTOR": str(factor * MILLISECONDS),
            },
            seconds=SECONDS,
        )


def failed_by_chance(outcomes: dict[str, Outcome], rows: dict[str, str]) -> list[str]:
    """The tests that have failed without being expected to: their times are short."""
    return [t for t, outcome in outcomes.items() if outcome.result == "failed" and t not in rows]


def main() -> None:
    if not SOURCE.is_dir():
        sys.exit(f"{SOURCE} is not there; run 'scripts/setup test'")
    reasons = expected() if EXPECTATIONS.exists() else {}
    outcomes, output = run()
    outcomes |= run(failed_by_chance(outcomes, reasons), 10)[0]
    for test, outcome in outcomes.items():
        if outcome.result == "failed":
            print(f"{test}  {reasons.get(test, outcome.reason)}")
    print(output.splitlines()[-1], file=sys.stderr)


if __name__ == "__main__":
    main()
