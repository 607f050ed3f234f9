"""No value is stale, damaged or of another unit under any fault plan; every loss is counted."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from penstock.sim import BusFaults

from .poll_run import EVERY_FAULT, Outcome, run_virtually


def accounted_for(outcome: Outcome) -> int:
    return (
        outcome.delivered
        + outcome.corrupted
        + outcome.mislabelled
        + outcome.mistabled
        + len(outcome.wrong)
        + sum(outcome.failed.values())
    )


def test_sound_line_loses_nothing() -> None:
    outcome = run_virtually(2000, seed=1, faults=None)
    assert outcome.delivered == outcome.asked == 2000
    assert outcome.failed == {}
    assert outcome.faults == {}


@pytest.mark.parametrize("seed", [1, 2])
def test_no_reading_is_wrong_under_every_fault(seed: int) -> None:
    outcome = run_virtually(10_000, seed)
    assert outcome.wrong == []
    assert accounted_for(outcome) == outcome.asked == 10_000
    assert set(outcome.faults) == {
        "streaming", "drop", "late", "corrupt", "noise", "duplicate-id", "reboot", "panel-unit",
        "unplug", "panel-baud", "baud-command", "garbled",
    }  # fmt: skip
    # A frame carries no checksum: what a fault changed into another valid frame passes.
    changing = ("corrupt", "duplicate-id", "noise", "garbled")
    assert outcome.corrupted <= sum(outcome.faults[kind] for kind in changing)
    assert (outcome.mislabelled, outcome.mistabled) == (0, 0)


def test_no_label_is_wrong_while_nobody_is_at_a_panel() -> None:
    faults = BusFaults(**{**asdict(EVERY_FAULT), "panel_unit_rate": 0.0})
    outcome = run_virtually(3000, seed=3, faults=faults)
    assert (outcome.wrong, outcome.mislabelled) == ([], 0)
    assert accounted_for(outcome) == 3000


def test_same_seed_repeats_a_run() -> None:
    assert run_virtually(1500, seed=4) == run_virtually(1500, seed=4)


def test_stale_values_are_noticed() -> None:
    outcome = run_virtually(200, seed=5, faults=None, lag=1)
    assert len(outcome.wrong) == 200
