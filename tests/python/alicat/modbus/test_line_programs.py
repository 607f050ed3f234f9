"""Random damage to Modbus lines; `make fuzz` runs more."""

from __future__ import annotations

from .line_programs import misplaced, run_program


def test_no_end_of_a_damaged_line_takes_a_frame_that_does_not_stand_on_it() -> None:
    assert [finding for seed in range(300) if (finding := run_program(seed))] == []


def test_a_frame_that_was_made_up_is_noticed() -> None:
    assert misplaced(b"abcd", [b"ab", b"cd"]) is None
    assert misplaced(b"abcd", [b"cd", b"ab"]) is not None
    assert misplaced(b"abcd", [b"x"]) is not None
