from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.record.clock import Cadence
from tests.python.record.batches import bounded

rates = st.one_of(
    st.floats(min_value=1e-3, max_value=1e4),
    st.sampled_from([0.1, 0.3, 1.0, 3.0, 7.0, 20.0, 50.0, 59.94, 1000.0]),
)


@pytest.mark.parametrize("rate", [0.1, 3.0, 7.0, 20.0, 59.94, 1000.0])
def test_targets_do_not_drift_over_a_million_slots(rate: float) -> None:
    start = 123_456_789_012_345
    cadence = Cadence(start, rate)
    exact = Fraction(str(rate))
    for slot in (*range(0, 1_000_001, 999), 1_000_000):
        error = cadence.target_ns(slot) - (start + Fraction(slot * 10**9) / exact)
        assert -1 < error <= 0


@bounded
@given(rates, st.integers(0, 10**9), st.integers(0, 2**62))
def test_slot_at_is_the_inverse_of_target_ns(rate: float, slot: int, start: int) -> None:
    cadence = Cadence(start, rate)
    target = cadence.target_ns(slot)
    assert cadence.slot_at(target) == slot
    assert cadence.slot_at(target - 1) == slot - 1


@pytest.mark.parametrize(
    ("rate", "duration", "slots"),
    [(20, 10, 200), (0.1, 0.5, 1), (3, 1, 3), (10, 0.25, 3), (1000, 0.001, 1), (0.1, 30, 3)],
)
def test_a_duration_holds_the_slots_that_are_due_before_its_end(
    rate: float, duration: float, slots: int
) -> None:
    assert Cadence(0, rate).slots_within(duration) == slots


@pytest.mark.parametrize("rate", [0, -1, float("nan"), float("inf"), 1e7])
def test_a_senseless_rate_is_refused(rate: float) -> None:
    with pytest.raises(ValueError, match="rate_hz"):
        Cadence(0, rate)


@pytest.mark.parametrize("duration", [0, -1, float("nan"), float("inf")])
def test_a_senseless_duration_is_refused(duration: float) -> None:
    with pytest.raises(ValueError, match="duration"):
        Cadence(0, 10).slots_within(duration)
