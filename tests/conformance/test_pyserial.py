"""pyserial's own tests pass on ``penstock.serial.compat``, except those named in `expected/`.

`expected/pyserial.txt` has a line for each test and each kind of port: the result here, pyserial's
own, and a reason where it does not pass here. A result that differs from its line fails here.
"""

from __future__ import annotations

import os

import pytest

from .cpython_tests import SECONDS_A_FILE, Outcome
from .pyserial_tests import KINDS, expected, run_kinds, source_distribution


@pytest.fixture(scope="module")
def outcomes() -> dict[str, dict[str, Outcome]]:
    folder = source_distribution()
    if folder is None:
        missing = "pyserial's source distribution is not there; run 'scripts/setup test'"
        if os.environ.get("PENSTOCK_REQUIRE_LOOPS") == "1":
            pytest.fail(missing)
        pytest.skip(missing)
    hopeless = {
        (kind, test)
        for kind in KINDS
        for test, row in expected(kind).items()
        if row.result == "failed"
    }
    return run_kinds("penstock", KINDS, folder, hopeless)


@pytest.mark.timeout(4 * SECONDS_A_FILE)
@pytest.mark.parametrize("kind", KINDS)
def test_pyserials_tests_pass_as_expected(
    kind: str, outcomes: dict[str, dict[str, Outcome]]
) -> None:
    rows, found = expected(kind), outcomes[kind]
    complaints = [
        f"{outcome.result}, but expected/pyserial.txt says "
        f"{rows[test].result if test in rows else 'nothing'}: {test}\n{outcome.detail}"
        for test, outcome in found.items()
        if test not in rows or rows[test].result != outcome.result
    ]
    complaints += [f"stands there but was not run: {test}" for test in rows.keys() - found]
    assert not complaints, "\n\n".join(complaints)


@pytest.mark.parametrize("kind", KINDS)
def test_what_pyserial_passes_is_expected_to_pass_or_has_a_reason(kind: str) -> None:
    rows = expected(kind)
    assert rows
    for test, row in rows.items():
        assert {row.result, row.pyserials} <= {"passed", "failed", "skipped"}, test
        assert row.result == "passed" or row.reason, test
        assert row.result == "passed" or row.pyserials != "passed", test
