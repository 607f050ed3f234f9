"""Random damage to frames and tables; `make fuzz` runs more."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

import pytest

from penstock.alicat import AlicatParseError, StatusCode
from penstock.alicat._instrument.data_frame import parse_data_frame_format

from .captures import FORMAT_10V20, FRAME_10V20
from .frame_programs import corpus, objection, run_program

FORM = parse_data_frame_format(FORMAT_10V20)


def test_no_damaged_frame_gives_a_value_that_does_not_stand_in_it() -> None:
    assert [finding for seed in range(400) if (finding := run_program(seed))] == []


def test_every_frame_of_the_corpus_fits_its_table() -> None:
    assert len(corpus()) > 80
    for table, sample in corpus():
        form = parse_data_frame_format(list(table))
        assert objection(sample, form.decoder("A", sample)(sample), form, sample) is None


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (FRAME_10V20.replace(b"A ", b"B ", 1), "begins with"),
        (FRAME_10V20.replace(b"+021.89 ", b""), "has 5 columns"),
        (FRAME_10V20.replace(b"+021.89", b"+021.98"), "Flow_Temp is 21.89 of"),
        (FRAME_10V20.replace(b"N2", b"Ar"), "Gas is 'N2' of"),
        (FRAME_10V20.replace(b"+000.00", b"+00.00"), "has shrunk from"),
        (FRAME_10V20.replace(b"+000.00", b"+0000.0"), "has other decimals than"),
        (FRAME_10V20 + b" HLD", "status"),
    ],
)
def test_a_wrong_reading_is_noticed(line: bytes, sentence: str) -> None:
    frame = FORM.decoder("A", FRAME_10V20)(FRAME_10V20)
    assert sentence in str(objection(line, frame, FORM, FRAME_10V20))


def test_a_status_that_was_not_sent_is_noticed() -> None:
    frame = FORM.decoder("A", FRAME_10V20)(FRAME_10V20)
    invented = replace(frame, status=frozenset({StatusCode.HLD}))
    assert "status" in str(objection(FRAME_10V20, invented, FORM, FRAME_10V20))
    fewer = replace(frame, values=MappingProxyType(dict(list(frame.values.items())[:5])))
    assert "columns" in str(objection(FRAME_10V20, fewer, FORM, FRAME_10V20))


@pytest.mark.parametrize("end", [b"\n", b" \n", b" HLD\n"])
def test_a_line_feed_is_no_part_of_a_frame(end: bytes) -> None:
    with pytest.raises(AlicatParseError):
        FORM.decoder("A", FRAME_10V20)(FRAME_10V20 + end)
