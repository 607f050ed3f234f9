"""The downsampled curve of a device: bounded memory, and no extreme or gap is lost."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from penstock.cli._recording.progress import DownsampledCurve

_polls = st.lists(st.none() | st.floats(-1e6, 1e6), min_size=1, max_size=400)


@given(_polls, st.integers(1, 8))
def test_extremes_sum_and_count_are_kept_at_any_length(
    polls: list[float | None], half: int
) -> None:
    curve = DownsampledCurve(half)
    for at, value in enumerate(polls):
        if value is None:
            curve.gap(float(at))
        else:
            curve.add(float(at), value, value + 1)
    answers = [value for value in polls if value is not None]
    kept = [bucket for bucket in curve.buckets if bucket.count]
    assert len(curve.buckets) <= 2 * half
    assert sum(bucket.count for bucket in curve.buckets) == len(answers)
    assert [bucket.at for bucket in curve.buckets] == [
        float(at) for at in range(0, len(polls), curve.per_bucket)
    ]
    if answers:
        assert min(bucket.low for bucket in kept) == min(answers)
        assert max(bucket.high for bucket in kept) == max(answers)
        assert math.isclose(sum(bucket.total for bucket in kept), math.fsum(answers), abs_tol=1e-3)
        assert kept[-1].setpoint == answers[-1] + 1


def test_short_run_keeps_every_sample_and_gap() -> None:
    curve = DownsampledCurve()
    curve.add(0.0, 1.0, None)
    curve.gap(0.5)
    curve.add(1.0, 3.0, 2.0)
    assert [(b.at, b.count) for b in curve.buckets] == [(0.0, 1), (0.5, 0), (1.0, 1)]
    assert curve.buckets[2].mean == 3.0
