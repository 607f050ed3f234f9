"""The page about instruments, with tiny rounds; and the judge of what is late."""

from __future__ import annotations

import importlib.util
import itertools
from collections.abc import Callable
from typing import Any

import pytest

from benchmarks.instruments.slots import Verdict, judge

PERIOD = 10_000_000


def polls(count: int, *, begin: int = 123_456_789) -> list[int]:
    """Polls at 100 Hz, each a little after its slot."""
    jitter = itertools.cycle([20_000, 90_000, 50_000])
    return [begin + slot * PERIOD + next(jitter) for slot in range(count)]


def test_steady_polls_are_not_late() -> None:
    assert judge(polls(1000), 100.0) == Verdict(1000, 0)


def test_poll_more_than_half_a_period_after_its_slot_is_late() -> None:
    late = polls(1000)
    late[500] += PERIOD * 6 // 10
    late[600] += PERIOD * 4 // 10
    assert judge(late, 100.0) == Verdict(1000, 1)


@pytest.mark.parametrize("tenths", range(1, 9))
def test_first_poll_that_is_late_moves_no_slot(tenths: int) -> None:
    late = polls(1000)
    late[0] += PERIOD * tenths // 10
    verdict = judge(late, 100.0)
    assert (verdict.slots, verdict.late) == (1000, 1 if tenths > 5 else 0)


def test_slot_without_a_poll_is_late() -> None:
    skipped = polls(1000)
    del skipped[300:303]
    assert judge(skipped, 100.0) == Verdict(1000, 3)


def test_polls_of_the_opening_do_not_count() -> None:
    steady = polls(1000)
    assert judge([steady[0] - 40 * PERIOD, *steady], 100.0) == Verdict(1000, 0)


def test_instrument_that_was_never_polled_has_no_slots() -> None:
    assert judge([], 100.0) == Verdict(0, 0)


@pytest.mark.skipif(
    importlib.util.find_spec("penstock._core") is None, reason="the extension is not built"
)
def test_every_part_measures_penstock_beside_the_floor(
    measure_page: Callable[..., tuple[dict[str, Any], str]],
) -> None:
    results, printed = measure_page(
        *("alicat", "--rounds", "1", "--n", "20", "--ports", "2", "--seconds", "2"),
        *("--contenders", "floor,penstock,penstock@asyncio", "--eager", "off", "--cmd", "ve,poll"),
    )
    for cell in results["query"]:
        for name in ("floor", "penstock", "penstock@asyncio"):
            (sample,) = cell["contenders"][name]["rounds"]
            assert 0 < sample["p50"] <= sample["p95"] <= sample["p99"] <= sample["max"]
    assert "| penstock         | pty " in printed
    (opened,) = results["open"]
    assert opened["contenders"]["penstock"]["open_ms"]["median"] > 0
    (fleet,) = results["fleet"]
    (sample,) = fleet["contenders"]["penstock"]["rounds"]
    assert 0 < sample["readings"] <= 400
