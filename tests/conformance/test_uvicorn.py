"""uvicorn's own tests pass on the protocols of ``penstock.asgi``, except those that are expected.

`expected/uvicorn.txt` has a line for each test that does not pass: its id, two spaces, and the
reason. A failure without a line fails here, and so does a line whose test passes.
"""

from __future__ import annotations

import os

import pytest

from .uvicorn_tests import SECONDS, expected, run, source


@pytest.mark.slow
@pytest.mark.timeout(SECONDS + 20)
def test_uvicorns_tests_pass_as_expected() -> None:
    if not source().is_dir():
        missing = f"{source().name} is not there; run 'scripts/setup test'"
        if os.environ.get("PENSTOCK_REQUIRE_LOOPS") == "1":
            pytest.fail(missing)
        pytest.skip(missing)
    rows = expected()
    outcomes, output = run()
    complaints = [
        f"does not pass: {test}\n{outcome.detail}"
        for test, outcome in outcomes.items()
        if outcome.result == "failed" and test not in rows
    ]
    complaints += [
        f"passes now, take its line out of expected/uvicorn.txt: {test}"
        for test in rows
        if test in outcomes and outcomes[test].result == "passed"
    ]
    complaints += [
        f"is listed in expected/uvicorn.txt but was not run: {test}"
        for test in rows
        if test not in outcomes
    ]
    assert sum(o.result == "passed" for o in outcomes.values()) > 90, output
    assert not complaints, "\n\n".join(complaints)
