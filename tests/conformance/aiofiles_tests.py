"""Runs aiofiles' own tests on ``penstock.files``, through a thin package named ``aiofiles``.

usage: python -m tests.conformance.aiofiles_tests

prints every test that does not pass, in the form of ``expected/aiofiles.txt``; reasons in that file
are kept.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

from tests.conformance.cpython_tests import Outcome
from tests.conformance.reported_run import expected_failures, run_reported

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
EXPECTATIONS = HERE / "expected" / "aiofiles.txt"
SECONDS = 150.0


def source_distribution() -> Path | None:
    """The folder of aiofiles' unpacked source distribution; None if set-up could not fetch it."""
    for line in Path(ROOT, "constraints.txt").read_text(encoding="utf-8").splitlines():
        name, _, version = line.partition("==")
        folder = ROOT / "build" / "conformance" / f"aiofiles-{version}"
        if name == "aiofiles" and (folder / "tests").is_dir():
            return folder
    return None


def expected() -> dict[str, str]:
    """The expected failures, each with its reason."""
    return expected_failures(EXPECTATIONS)


def run(source: Path) -> tuple[dict[str, Outcome], str]:
    """Run all tests on Penstock's loop; return each outcome, and pytest's output.

    They write to their own folder, so they run in a copy. Tests that expect a permission error are
    left out for root.
    """
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        tests, report = Path(folder, "tests"), Path(folder, "report")
        shutil.copytree(source / "tests", tests)
        path = [HERE / "aiofiles_on_penstock", ROOT / "python", ROOT]
        command = [sys.executable, "-m", "pytest", "-q", "-p", "pytest_asyncio"]
        command += ["-p", "tests.conformance.aiofiles_plugin", "-p", "no:cacheprovider"]
        command += ["-o", "asyncio_mode=auto", "--rootdir", folder, "-c", os.devnull, str(tests)]
        if os.geteuid() == 0:  # who has every permission
            command += ["--deselect", "tests/test_os.py::test_access"]
        return run_reported(
            command,
            report=report,
            below="tests/",
            cwd=folder,
            environment={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path))},
            seconds=SECONDS,
        )


def main() -> None:
    source = source_distribution()
    if source is None:
        sys.exit("aiofiles' source distribution is not there; run 'scripts/setup test'")
    reasons = expected() if EXPECTATIONS.exists() else {}
    outcomes, output = run(source)
    for test, outcome in outcomes.items():
        if outcome.result == "failed":
            print(f"{test}  {reasons.get(test, outcome.reason)}")
    print(output.splitlines()[-1], file=sys.stderr)


if __name__ == "__main__":
    main()
