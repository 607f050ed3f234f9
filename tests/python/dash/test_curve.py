"""Curves: thinned in bounded memory, and no extreme is lost."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from penstock.dash._curve import Curve, Points

SECOND = 1_000_000_000


def filled(values: list[float], chunk: int, raw_rows: int) -> tuple[Curve, np.ndarray, np.ndarray]:
    curve = Curve(raw_rows)
    t = np.arange(len(values), dtype=np.int64) * SECOND + 7
    numbers = np.array(values)
    for begin in range(0, len(values), chunk):
        part = slice(begin, begin + chunk)
        curve.append(t[part], numbers[part], numbers[part] + 1)
    return curve, t, numbers


def extremes(points: Points) -> tuple[float, float]:
    return float(np.nanmin(points.value_low)), float(np.nanmax(points.value_high))


@given(
    st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=600),
    st.integers(1, 100),
    st.integers(1, 50 * SECOND),
    st.sampled_from([64, 128, 10_000]),
)
def test_extremes_of_all_samples_are_kept_at_any_width(
    values: list[float], chunk: int, width: int, raw_rows: int
) -> None:
    curve, t, _ = filled(values, chunk, raw_rows)
    points = curve.query(0, int(t[-1]), width)
    assert extremes(points) == (min(values), max(values))
    assert np.nanmax(points.setpoint_high) == max(np.array(values) + 1)
    assert np.all(np.diff(points.t) > 0)
    # One point for each bucket, and each at a time of a sample.
    assert len(np.unique(points.t // width)) == len(points)
    assert set(points.t.tolist()) <= set(t.tolist())
    assert (curve.first, curve.last, curve.rows) == (t[0], t[-1], len(values))


@given(st.integers(1, 3000), st.integers(1, 200), st.data())
def test_a_spike_is_in_the_range_that_has_it(count: int, chunk: int, data: st.DataObject) -> None:
    spike = data.draw(st.integers(0, count - 1))
    values = [0.0] * count
    values[spike] = 5.0
    curve, t, _ = filled(values, chunk, 64)
    around = curve.query(int(t[spike]) - SECOND, int(t[spike]) + SECOND, 10 * SECOND)
    assert extremes(around)[1] == 5.0


def test_samples_further_apart_than_the_width_are_given_as_they_are() -> None:
    curve, t, numbers = filled([float(n % 17) for n in range(1000)], 10, 10_000)
    points = curve.query(int(t[100]), int(t[200]), SECOND // 2)
    # One more on each side: the line reaches the edges.
    assert points.t.tolist() == t[99:202].tolist() or points.t.tolist() == t[100:202].tolist()
    first = int(np.searchsorted(t, points.t[0]))
    assert points.value_low.tolist() == numbers[first:202].tolist()
    assert points.value_low.tolist() == points.value_high.tolist()


def test_memory_is_bounded_and_the_beginning_stays_visible() -> None:
    curve = Curve(64)
    count, chunk = 400_000, 4096
    for begin in range(0, count, chunk):
        t = np.arange(begin, min(begin + chunk, count), dtype=np.int64) * SECOND
        value = np.where(t == 3 * SECOND, 9.0, 0.0)
        curve.append(t, value, value)
    assert sum(len(level) for level in curve._levels) < 64 + 6 * 8192
    points = curve.query(0, count * SECOND, count * SECOND // 300)
    assert curve.first == 0
    assert 300 <= len(points) <= 302
    assert points.value_high[0] == 9.0


def test_failed_polls_are_empty_and_hide_no_neighbour() -> None:
    curve = Curve()
    t = np.arange(6, dtype=np.int64) * SECOND
    value = np.array([1.0, np.nan, 3.0, np.nan, np.nan, 6.0])
    curve.append(t, value, value)
    alone = curve.query(0, 5 * SECOND, SECOND)
    np.testing.assert_equal(alone.value_low, value)
    pairs = curve.query(0, 5 * SECOND, 2 * SECOND)
    np.testing.assert_equal(pairs.value_high, np.array([1.0, 3.0, 6.0]))


def test_a_wall_clock_that_is_set_back_leaves_the_order_of_rows() -> None:
    curve = Curve()
    t = np.array([10, 20, 5, 30], dtype=np.int64)
    curve.append(t, np.arange(4.0), np.arange(4.0))
    curve.append(np.array([8, 40], dtype=np.int64), np.array([4.0, 5.0]), np.zeros(2))
    points = curve.query(0, 100, 1)
    assert points.t.tolist() == [10, 20, 30, 40]
    assert points.value_high.tolist() == [0.0, 2.0, 4.0, 5.0]


def test_an_empty_curve_has_no_points() -> None:
    curve = Curve()
    assert len(curve.query(0, 100, 1)) == 0
    assert (curve.first, curve.last, curve.period) == (None, None, 0.0)
