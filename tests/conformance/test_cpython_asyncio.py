"""CPython's tests of asyncio pass on Penstock's loop, except those named in `expected/`.

An expectation file (one for each Python version) has a line for each test that does not pass: its
id, two spaces, and the reason. A failure without a line fails here, and so does a line whose test
passes, so the file is always exact.

If the extension, CPython's tests or the expectations are missing, the test is skipped; under
``PENSTOCK_REQUIRE_LOOPS=1`` (``make test``) it fails.
"""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from typing import NoReturn

import pytest

from .cpython_tests import FILES, SECONDS_A_FILE, available, run_file

VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
EXPECTATIONS = Path(__file__).parent / "expected" / f"{VERSION}.txt"


def lacks(what: str) -> NoReturn:
    if os.environ.get("PENSTOCK_REQUIRE_LOOPS") == "1":
        pytest.fail(what, pytrace=False)
    pytest.skip(what)


def expected_failures() -> dict[str, str]:
    if not EXPECTATIONS.exists():
        lacks(f"expected/{VERSION}.txt is not written: nothing is expected of this Python")
    lines = EXPECTATIONS.read_text(encoding="utf-8").splitlines()
    expected = {}
    for line in lines:
        if line and not line.startswith("#"):
            test, separator, reason = line.partition("  ")
            assert separator and reason.strip(), f"a line without a reason: {line!r}"
            expected[test] = reason.strip()
    return expected


@pytest.mark.timeout(SECONDS_A_FILE + 20)
@pytest.mark.parametrize("file", FILES)
def test_cpythons_tests_pass_as_expected(file: str) -> None:
    try:
        importlib.import_module("penstock._core")
    except ModuleNotFoundError as exc:
        if exc.name in {"penstock", "penstock._core"}:
            lacks("the native extension penstock._core is not built (run 'make build')")
        raise
    if not available("test_events"):
        lacks(
            f"{sys.executable} has no test.test_asyncio; run 'scripts/setup test' "
            f"(Debian: apt-get install libpython{VERSION}-testsuite)"
        )
    if not available(file):
        pytest.skip(f"Python {VERSION} has no {file}")

    expected = {
        test: reason
        for test, reason in expected_failures().items()
        if test.partition(".")[0] == file
    }
    outcomes = run_file(file, "penstock:new_event_loop")
    failed = {test: o for test, o in outcomes.items() if o.result == "failed"}
    passed = {test for test, o in outcomes.items() if o.result == "passed"}

    complaints = [
        f"does not pass: {test}\n{outcome.detail}"
        for test, outcome in failed.items()
        if test not in expected
    ]
    complaints += [
        f"passes now, take its line out of expected/{VERSION}.txt: {test}"
        for test in expected
        if test in passed
    ]
    complaints += [
        f"is listed in expected/{VERSION}.txt but was not run: {test}"
        for test in expected
        if test not in outcomes
    ]
    assert passed, f"no test of {file} passed"
    assert not complaints, "\n\n".join(complaints)
