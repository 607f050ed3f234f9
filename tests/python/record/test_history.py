"""Histories: older samples are summed up in bounded memory, and no extreme is lost."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from penstock.record.envelopes.bins import Bins, Numbers, Times
from penstock.record.envelopes.history import Extremes, History, power_within

SECOND = 1_000_000_000


def filled(
    values: list[float], chunk: int, numbers: int, step: int = SECOND
) -> tuple[History, Times, Numbers]:
    history = History(numbers)
    t = np.arange(len(values), dtype=np.int64) * step + 7
    found = np.array(values)
    for begin in range(0, len(values), chunk):
        part = slice(begin, begin + chunk)
        history.append(t[part], {"flow": found[part], "aim": found[part] + 1})
    return history, t, found


def range_of(points: Extremes) -> tuple[float, float]:
    return float(np.nanmin(points.low)), float(np.nanmax(points.high))


@given(
    st.integers(1, 9000),
    st.integers(0, 2**32 - 1),
    st.integers(1, 3000),
    st.integers(1, 2000 * SECOND),
    st.sampled_from([3072, 6000, 100_000]),
)
def test_the_bins_are_those_of_all_samples(
    count: int, seed: int, chunk: int, width: int, numbers: int
) -> None:
    random = np.random.default_rng(seed)
    values = np.where(random.random(count) < 0.2, np.nan, random.normal(size=count))
    history, t, found = filled(values.tolist(), chunk, numbers)
    points = history.envelope("flow", 0, int(t[-1]), width)
    # Where samples were summed up already, bins may be wider than was asked for.
    for power in range(power_within(width), 63):
        whole = Bins.of(t, found, power)
        if len(whole) == len(points):
            break
    np.testing.assert_array_equal(points.low, whole.low)
    np.testing.assert_array_equal(points.high, whole.high)
    assert np.all(points.t >> power == whole.number)
    assert points.end == whole.begin[-1]
    aim = history.envelope("aim", 0, int(t[-1]), width)
    np.testing.assert_array_equal(aim.high, whole.high + 1)
    assert (history.first, history.last, history.rows) == (t[0], t[-1], count)


@given(st.integers(1, 6000), st.integers(1, 900), st.data())
def test_a_spike_is_in_the_range_that_has_it(count: int, chunk: int, data: st.DataObject) -> None:
    spike = data.draw(st.integers(0, count - 1))
    values = [0.0] * count
    values[spike] = 5.0
    history, t, _ = filled(values, chunk, 3072)
    at = int(t[spike])
    around = history.envelope("flow", at - SECOND, at + SECOND, 10 * SECOND)
    assert range_of(around)[1] == 5.0


def test_samples_further_apart_than_the_width_are_given_as_they_are() -> None:
    history, t, numbers = filled([float(n % 17) for n in range(1000)], 10, 100_000)
    points = history.envelope("flow", int(t[100]), int(t[200]), SECOND // 2)
    # One more on each side: the line reaches the edges.
    assert points.t.tolist() == t[100:202].tolist() or points.t.tolist() == t[99:202].tolist()
    first = int(np.searchsorted(t, points.t[0]))
    assert points.low.tolist() == numbers[first:202].tolist()
    assert points.low.tolist() == points.high.tolist()


def test_memory_is_bounded_and_the_beginning_stays_visible() -> None:
    history = History(3072)
    count, chunk = 400_000, 4096
    for begin in range(0, count, chunk):
        t = np.arange(begin, min(begin + chunk, count), dtype=np.int64) * SECOND
        history.append(t, {"flow": np.where(t == 3 * SECOND, 9.0, 0.0)})
    assert sum(len(level._t) for level in history._levels) < 6 * 2 * 8192
    points = history.envelope("flow", 0, count * SECOND, count * SECOND // 300)
    assert history.first == 0
    assert 300 <= len(points) <= 602
    assert points.high[0] == 9.0


def test_a_burst_behind_a_slow_beginning_loses_nothing() -> None:
    """The bins of the next level are then wider than what is kept as it is."""
    history = History(3072)
    slow = np.arange(2000, dtype=np.int64) * 3600 * SECOND
    quick = slow[-1] + 1 + np.arange(50_000, dtype=np.int64)
    for t in (slow, quick):
        history.append(t, {"flow": np.where(t == quick[20_000], 9.0, 0.0)})
    points = history.envelope("flow", 0, int(quick[-1]), SECOND)
    assert range_of(points) == (0.0, 9.0)
    later = np.arange(1, 3000, dtype=np.int64) * 3600 * SECOND + quick[-1]
    history.append(later, {"flow": np.zeros(len(later))})
    assert range_of(history.envelope("flow", 0, int(later[-1]), 10**14)) == (0.0, 9.0)


def test_failed_polls_are_empty_and_hide_no_neighbour() -> None:
    history = History()
    t = np.arange(6, dtype=np.int64) * 2**30
    value = np.array([1.0, np.nan, 3.0, np.nan, np.nan, 6.0])
    history.append(t, {"flow": value})
    alone = history.envelope("flow", 0, int(t[-1]), 2**30)
    np.testing.assert_equal(alone.low, value)
    assert alone.without_long_gaps().t.tolist() == t[[0, 1, 2, 3, 5]].tolist()
    pairs = history.envelope("flow", 0, int(t[-1]), 2**31)
    np.testing.assert_equal(pairs.high, np.array([1.0, 3.0, 6.0]))


def test_a_wall_clock_that_is_set_back_leaves_the_order_of_rows() -> None:
    history = History()
    history.append(np.array([10, 20, 5, 30], np.int64), {"flow": np.arange(4.0)})
    history.append(np.array([8, 40], np.int64), {"flow": np.array([4.0, 5.0])})
    points = history.envelope("flow", 0, 100, 1)
    assert points.t.tolist() == [10, 20, 30, 40]
    assert points.high.tolist() == [0.0, 2.0, 4.0, 5.0]


def test_a_column_that_comes_later_is_empty_before() -> None:
    history = History(3072)
    t = np.arange(3000, dtype=np.int64) * SECOND
    history.append(t, {"flow": np.ones(3000)})
    history.append(t + 3000 * SECOND, {"flow": np.ones(3000), "pressure": np.full(3000, 7.0)})
    points = history.envelope("pressure", 0, 6000 * SECOND, 64 * SECOND)
    assert np.isnan(points.low[points.t < 2900 * SECOND]).all()
    assert points.low[-1] == points.high[-1] == 7.0
    assert history.columns == ("flow", "pressure")


def test_an_empty_history_has_no_points() -> None:
    history = History()
    assert len(history.envelope("flow", 0, 100, 1)) == 0
    assert (history.first, history.last, history.period) == (None, None, 0.0)
