"""Each row of a series has a stamp of its own, and nearly always the one that it was given."""

from __future__ import annotations

import random
from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock._record import rising_stamps
from penstock.record._network import rows as network_rows
from penstock.record._network.rows import RowStamps
from tests.python.record.batches import bounded

NAMES = ["fuel", "air", "argon"]


def test_stamps_that_rise_are_left_alone() -> None:
    stamps = array("q", [5, 5, 6, 7])
    assert RowStamps().unique(stamps, array("i", [0, 1, 0, 0]), NAMES) is stamps


def test_a_stamp_that_is_taken_moves_to_the_next_free_one() -> None:
    unique = RowStamps()
    codes = array("i", [0, 0, 0, 0])
    assert unique.unique(array("q", [5, 5, 6, 5]), codes, NAMES).tolist() == [5, 6, 7, 8]


def test_a_clock_that_was_set_back_keeps_its_stamps() -> None:
    unique = RowStamps()
    one = array("i", [0] * 4)
    assert unique.unique(array("q", [100, 200, 300, 400]), one, NAMES).tolist()[-1] == 400
    assert unique.unique(array("q", [150, 200, 250, 300]), one, NAMES).tolist() == [
        150,
        201,
        250,
        301,
    ]
    # The codes of a name may differ from batch to batch.
    again = unique.unique(array("q", [201, 250]), array("i", [1, 0]), ["air", "fuel"])
    assert again.tolist() == [202, 250]


@bounded
@given(st.integers(0, 2**32))
def test_no_two_rows_of_a_series_have_one_stamp(seed: int) -> None:
    chance = random.Random(seed)
    unique = RowStamps()
    seen: set[tuple[str, int]] = set()
    rows = 0
    for _ in range(chance.randrange(1, 8)):
        begin, many = chance.choice([0, 10, 50]), chance.randrange(1, 30)
        names = chance.sample(NAMES, 3)
        stamps = array("q", (begin + chance.randrange(40) for _ in range(many)))
        codes = array("i", (chance.randrange(3) for _ in range(many)))
        given_stamps = stamps.tolist()
        made = unique.unique(stamps, codes, names)
        assert stamps.tolist() == given_stamps
        seen.update((names[code], stamp) for code, stamp in zip(codes, made, strict=True))
        rows += many
        assert len(seen) == rows


def test_a_clock_that_stays_behind_costs_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network_rows, "_REMEMBERED_ROWS", 100)
    monkeypatch.setattr(network_rows, "_FEW_ROWS", 10)
    unique = RowStamps()
    unique.unique(array("q", [10**9]), array("i", [0]), NAMES)
    codes = array("i", [0] * 10)
    for begin in range(0, 10_000, 10):
        stamps = array("q", range(begin, begin + 10))
        assert unique.unique(stamps, codes, NAMES) == stamps
    assert len(unique._taken["fuel"].stamps) <= 2 * 110 + 10 + 10


def test_arguments_are_checked() -> None:
    last = array("q", [0])
    with pytest.raises(ValueError, match="no series 1"):
        rising_stamps(array("q", [5]), array("i", [1]), last, 0)
    with pytest.raises(ValueError, match="fewer stamps than codes"):
        rising_stamps(array("q"), array("i", [0]), last, 0)
    with pytest.raises(ValueError, match="fewer stamps"):
        rising_stamps(array("q", [5]), array("i", [0]), last, -1)
    with pytest.raises(BufferError):
        rising_stamps(array("q", [5]), array("i", [0]), b"12345678", 0)
