"""The board: devices, counts, alarms and events from the rows of a recording."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.dash import Board, Limits
from penstock.record.shown_quantity import Quantity
from tests.python.dash.tables import START, batch, sample, table, wave

SECOND = 1_000_000_000


def kinds(board: Board) -> list[tuple[str, str, str]]:
    return [(event.device, event.kind, event.message) for event in board.events_since(0)]


def test_rows_become_values_setpoints_and_counts_of_each_device() -> None:
    board = Board("run")
    rows = [*wave("argon", 40), *wave("oxygen", 40)]
    rows[3:3] = [sample("argon", 0.12, error="AlicatTimeoutError: no answer")]
    rows.append(sample("argon", 2.0, 123.5, status="HLD,MOV"))
    board.add(table(rows))
    argon, oxygen = board.devices["argon"], board.devices["oxygen"]
    assert argon.quantity == Quantity("Mass_Flow", "Mass_Flow_Setpt", "SCCM")
    assert (argon.value, argon.setpoint, argon.status, argon.error) == (123.5, 100, "HLD,MOV", None)
    assert (argon.curve.rows, argon.errors, oxygen.curve.rows, oxygen.errors) == (42, 1, 40, 0)
    assert argon.unit_id == "A"
    assert board.span == (START, START + 2 * SECOND)
    points = oxygen.curve.query(0, board.span[1], 1)
    assert points.value_low.tolist() == [row.values["Mass_Flow"] for row in wave("oxygen", 40)]


@pytest.mark.parametrize("form", ["batch", "table", "plain text"])
def test_a_batch_and_a_table_of_a_file_give_the_same_rows(form: str) -> None:
    found = batch(wave("argon", 30)).to_arrow()
    given: Any = found if form == "batch" else pa.Table.from_batches([found])
    if form == "plain text":
        at = given.column_names.index("device")
        given = given.set_column(at, "device", given["device"].cast(pa.string()))
    board = Board("run")
    board.add(given)
    assert board.devices["argon"].curve.rows == 30


def test_devices_with_different_fields_show_their_own_quantity() -> None:
    board = Board("run")
    meter = sample("level", 0.0)
    meter.values["Abs_Press"] = 3.25
    board.add(table([*wave("argon", 5), meter]))
    assert board.devices["level"].quantity == Quantity("Abs_Press", None, "PSIA")
    assert board.devices["level"].value == 3.25


def test_a_failed_poll_keeps_the_last_answer_and_raises_an_alarm() -> None:
    board = Board("run")
    board.add(table([*wave("argon", 5), sample("argon", 0.3, error="TimeoutError: no answer")]))
    argon = board.devices["argon"]
    assert argon.error == "TimeoutError: no answer"
    assert argon.value == pytest.approx(wave("argon", 5)[-1].values["Mass_Flow"])
    now = START + SECOND
    assert board.alarms(argon, now) == ["failing"]
    board.add(table([sample("argon", 0.4, 7.0)]))
    assert board.alarms(argon, now) == ["gaps"]
    assert board.alarms(argon, now + 120 * SECOND) == []


def test_events_are_logged_and_missed_slots_are_counted() -> None:
    board = Board("run")
    board.add(
        table(
            [
                *wave("argon", 3),
                sample("argon", 1.0, event="setpoint", message="setpoint: ALS 50"),
                sample("argon", 2.0, event="missed_slots", message="12 missed: the bus was busy"),
            ]
        )
    )
    assert board.devices["argon"].curve.rows == 3
    board.add(table([sample("argon", 3.0, event="missed_slots", message="3 missed: busy")]))
    assert board.devices["argon"].missed == 15
    assert kinds(board)[0] == ("argon", "setpoint", "setpoint: ALS 50")
    assert [event.kind for event in board.events_since(2)] == ["missed_slots"]


def test_one_sample_beyond_a_limit_raises_an_alarm_and_the_return_clears_it() -> None:
    board = Board("run", limits={"argon": Limits(10, 200)})
    rows = wave("argon", 10)
    rows[4] = sample("argon", 0.2, 900.0)
    board.add(table(rows))
    assert board.devices["argon"].limit is None  # it has returned within the batch
    assert [kind for _, kind, _ in kinds(board)] == ["alarm", "alarm_cleared"]
    assert kinds(board)[0][2] == "900 SCCM is above the limit 200 SCCM"
    board.add(table([sample("argon", 1.0, 3.0)]))
    assert board.alarms(board.devices["argon"], START) == ["low"]
    board.add(table([sample("argon", 1.1, 2.0)]))
    assert len(kinds(board)) == 3  # one alarm, however long it lasts


def test_a_device_without_samples_is_silent_until_it_sends_again() -> None:
    board = Board("run", silence_s=2)
    board.add(table(wave("argon", 3)))
    board.watch_silence(START + SECOND)
    assert not board.devices["argon"].silent
    board.watch_silence(START + 4 * SECOND)
    board.watch_silence(START + 5 * SECOND)
    assert board.alarms(board.devices["argon"], START + 5 * SECOND) == ["silent"]
    board.add(table([sample("argon", 6.0, 1.0)]))
    board.watch_silence(START + 7 * SECOND)
    assert [kind for _, kind, _ in kinds(board)] == ["alarm", "alarm_cleared"]


def test_a_finished_recording_is_not_silent() -> None:
    board = Board("run", live=False, silence_s=1)
    board.add(table(wave("argon", 3)))
    board.watch_silence(START + 1000 * SECOND)
    assert kinds(board) == []


def test_expected_devices_are_shown_before_their_first_sample() -> None:
    board = Board("run")
    board.expect({"argon": Quantity("Mass_Flow", None, "SCCM")})
    assert board.span is None
    assert board.devices["argon"].value is None


def test_the_log_is_bounded_and_says_what_is_new() -> None:
    board = Board("run")
    for number in range(1500):
        board.log("note", str(number))
    assert len(board.events_since(0)) == 1000
    assert [event.message for event in board.events_since(1498)] == ["1498", "1499"]
    assert board.events_since(1500) == []


def test_a_number_of_a_text_is_no_value() -> None:
    board = Board("run")
    over = sample("argon", 1.0, 5.0)
    over.values["Mass_Flow"] = "OVER"
    board.add(table([*wave("argon", 2), over]))
    assert board.devices["argon"].value is None
    assert np.isnan(board.devices["argon"].curve.query(0, START * 2, 1).value_low[-1])
