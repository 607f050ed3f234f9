"""websockets' own tests pass on ``penstock.websocket``, except those in `expected/websockets.txt`.

That file has a line for each test that does not pass: its id, two spaces, and the reason. A failure
without a line fails here, and so does a line whose test passes, so the file is always exact.
"""

from __future__ import annotations

import os

import pytest

from .websockets_tests import SECONDS, SOURCE, expected, failed_by_chance, run


@pytest.mark.timeout(2 * SECONDS + 20)
def test_websockets_tests_pass_as_expected() -> None:
    if not SOURCE.is_dir():
        missing = f"{SOURCE.name} is not there; run 'scripts/setup test'"
        if os.environ.get("PENSTOCK_REQUIRE_LOOPS") == "1":
            pytest.fail(missing)
        pytest.skip(missing)
    rows = expected()
    outcomes, output = run()
    if again := failed_by_chance(outcomes, rows):
        outcomes |= run(again, 10)[0]
    complaints = [
        f"does not pass: {test}\n{outcome.detail}"
        for test, outcome in outcomes.items()
        if outcome.result == "failed" and test not in rows
    ]
    complaints += [
        f"passes now, take its line out of expected/websockets.txt: {test}"
        for test in rows
        if test in outcomes and outcomes[test].result == "passed"
    ]
    complaints += [
        f"is listed in expected/websockets.txt but was not run: {test}"
        for test in rows
        if test not in outcomes
    ]
    assert sum(o.result == "passed" for o in outcomes.values()) > 250, output
    assert not complaints, "\n\n".join(complaints)
