"""No reported fault of another loop is one of Penstock's.

Each test runs a share of the cases in one child process. `python -m tests.conformance.reports.run`
runs them on other loops too and writes the table of docs/bug_reports.md.
"""

from __future__ import annotations

import os
from importlib.util import find_spec

import pytest

from tests.conformance.reports.case import Room
from tests.conformance.reports.rooms import CASES, ROOMS
from tests.conformance.reports.running import run_cases

# Longer than any case takes on a busy machine: here it only ends a hang.
SECONDS = 40.0


def test_names_of_cases_are_unique() -> None:
    names = [case.name for case in CASES]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("room", ROOMS, ids=[room.name for room in ROOMS])
def test_no_reported_fault_is_one_of_penstock(room: Room) -> None:
    if find_spec("penstock._core") is None:
        if os.environ.get("PENSTOCK_REQUIRE_LOOPS") == "1":
            pytest.fail("penstock._core is not built (run 'make build')", pytrace=False)
        pytest.skip("penstock._core is not built (run 'make build')")
    outcomes = run_cases([case.name for case in room.cases], "penstock:new_event_loop", SECONDS)
    assert len(outcomes) == len(room.cases)
    reports = {case.name: case.report for case in room.cases}
    faults = [
        f"{name} ({reports[name]}): {outcome.result}: {outcome.detail}"
        for name, outcome in outcomes.items()
        if outcome.result != "right"
        and not (outcome.result == "not applicable" and outcome.detail.startswith("CPython"))
    ]
    assert faults == []
