"""aiofiles' own tests pass on ``penstock.files``, except those in `expected/aiofiles.txt`.

That file has a line for each test that does not pass: its id, two spaces, and the reason. A failure
without a line fails here, and so does a line whose test passes, so the file is always exact.
"""

from __future__ import annotations

import os

import pytest

from .aiofiles_tests import SECONDS, expected, run, source_distribution


@pytest.mark.timeout(SECONDS + 20)
def test_aiofiles_tests_pass_as_expected() -> None:
    source = source_distribution()
    if source is None:
        missing = "aiofiles' source distribution is not there; run 'scripts/setup test'"
        if os.environ.get("PENSTOCK_REQUIRE_LOOPS") == "1":
            pytest.fail(missing)
        pytest.skip(missing)
    pytest.importorskip("pytest_asyncio")
    rows = expected()
    outcomes, output = run(source)
    failed = {test: o for test, o in outcomes.items() if o.result == "failed"}
    complaints = [
        f"does not pass: {test}\n{outcome.detail}"
        for test, outcome in failed.items()
        if test not in rows
    ]
    complaints += [
        f"passes now, take its line out of expected/aiofiles.txt: {test}"
        for test in rows
        if test in outcomes and outcomes[test].result == "passed"
    ]
    complaints += [
        f"is listed in expected/aiofiles.txt but was not run: {test}"
        for test in rows
        if test not in outcomes
    ]
    assert any(o.result == "passed" for o in outcomes.values()), output
    assert not complaints, "\n\n".join(complaints)
