"""A short run over pseudo-terminals under every fault and an unplugging; `make soak` runs long."""

from __future__ import annotations

import anyio

from .poll_run import Outcome
from .pty_run import run, total, unplugging
from .test_poll_run import accounted_for


def test_no_reading_over_pseudo_terminals_is_wrong() -> None:
    merged = total(anyio.run(run, 3.0, 2, 5))
    assert merged.wrong == []
    assert accounted_for(merged) == merged.asked
    assert merged.delivered > 0
    assert merged.faults["unplug"] == 2


def test_every_run_has_an_unplugging_that_ends() -> None:
    for seconds in (1.0, 30.0, 3600.0):
        plan = unplugging(seconds, 1)
        assert len(plan) == max(1, round(seconds / 20))
        assert all(0 < begin < seconds and length <= 1.0 for begin, length in plan)


def test_counts_of_buses_are_added() -> None:
    one = Outcome(1, asked=3, delivered=2, failed={"A": 1}, wrong=["x"], virtual_seconds=2.0)
    other = Outcome(2, asked=1, failed={"A": 1}, virtual_seconds=1.0)
    merged = total([one, other])
    assert (merged.asked, merged.delivered, merged.failed) == (4, 2, {"A": 2})
    assert (merged.wrong, merged.virtual_seconds, merged.seed) == (["x"], 2.0, 1)
