"""Random changes of units while numbers are sent; `make fuzz` runs more."""

from __future__ import annotations

from .unit_programs import run_program


def test_no_number_is_sent_or_reported_in_another_unit_than_it_was_meant_in() -> None:
    assert [finding for seed in range(120) if (finding := run_program(seed))] == []
