"""Runs uvicorn's own tests of its protocols on those of ``penstock.asgi``.

usage: python -m tests.conformance.uvicorn_tests

prints every test that does not pass, in the form of ``expected/uvicorn.txt``; reasons in that file
are kept.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from pathlib import Path

from tests.conformance.cpython_tests import Outcome
from tests.conformance.reported_run import expected_failures, run_reported

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
EXPECTATIONS = HERE / "expected" / "uvicorn.txt"
SECONDS = 100.0
FILES = ("test_http.py", "test_websocket.py")


def source() -> Path:
    """The folder of the pinned source distribution."""
    pins = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    found = re.search(r"^uvicorn==(\S+)", pins, re.M)
    assert found is not None
    return ROOT / "build" / "conformance" / f"uvicorn-{found[1]}"


def expected() -> dict[str, str]:
    """The expected failures, each with its reason."""
    return expected_failures(EXPECTATIONS)


def run() -> tuple[dict[str, Outcome], str]:
    """Run the tests on asyncio's loop; return each outcome, and pytest's output."""
    folder = source()
    with tempfile.TemporaryDirectory() as temporary:
        command = [sys.executable, "-m", "pytest", "-q", "-p", "uvicorn_plugin"]
        command += ["-p", "no:cacheprovider", "-p", "no:asyncio", "-p", "no:xdist"]
        command += ["-c", os.devnull, "--timeout", "10", "--rootdir", str(folder)]
        command += [str(folder / "tests" / "protocols" / name) for name in FILES]
        return run_reported(
            command,
            report=Path(temporary, "report"),
            below="protocols/",
            cwd=folder,
            environment={
                **{k: v for k, v in os.environ.items() if not k.lower().endswith("_proxy")},
                "PYTHONPATH": os.pathsep.join(map(str, (folder, HERE, ROOT / "python"))),
            },
            seconds=SECONDS,
        )


def main() -> None:
    if not source().is_dir():
        sys.exit(f"{source()} is not there; run 'scripts/setup test'")
    reasons = expected() if EXPECTATIONS.exists() else {}
    outcomes, output = run()
    for test, outcome in outcomes.items():
        if outcome.result == "failed":
            last = outcome.reason or "?"
            print(f"{test}  {reasons.get(test, last)}")
    print(output.splitlines()[-1], file=sys.stderr)


if __name__ == "__main__":
    main()
