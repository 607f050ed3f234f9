"""The board: devices, counts, alarms and events from the rows of a recording."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.dash import Board, Limits
from penstock.dash._board import ShownDevice
from penstock.record import Field, RecordSchema, SampleBatch
from penstock.record.shown_quantity import Quantity
from tests.python.dash.tables import (
    AIM,
    FIELDS,
    FLOW,
    PRESSURE,
    START,
    batch,
    sample,
    table,
    wave,
)

SECOND = 1_000_000_000


def words(board: Board, device: ShownDevice, now: int) -> list[str]:
    return [alarm.kind for alarm in board.alarms(device, now)]


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
    assert (argon.value, argon.setpoint, argon.status) == (123.5, 100, "HLD,MOV")
    assert not argon.failures.failing
    assert (argon.history.rows, argon.errors, oxygen.history.rows, oxygen.errors) == (42, 1, 40, 0)
    assert argon.unit_id == "A"
    assert board.span == (START, START + 2 * SECOND)
    points = oxygen.history.envelope(FLOW, 0, board.span[1], 1)
    assert points.low.tolist() == [row.values["Mass_Flow"] for row in wave("oxygen", 40)]


@pytest.mark.parametrize("form", ["batch", "table", "plain text"])
def test_a_batch_and_a_table_of_a_file_give_the_same_rows(form: str) -> None:
    found = batch(wave("argon", 30)).to_arrow()
    given: Any = found if form == "batch" else pa.Table.from_batches([found])
    if form == "plain text":
        at = given.column_names.index("device")
        given = given.set_column(at, "device", given["device"].cast(pa.string()))
    board = Board("run")
    board.add(given)
    assert board.devices["argon"].history.rows == 30


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
    assert words(board, argon, now) == ["gaps"]
    assert words(board, argon, now + 120 * SECOND) == []


def test_a_device_that_answers_some_polls_is_failing_until_it_answers_all() -> None:
    board = Board("run")
    rows = [
        sample("argon", n / 10, 7.0) if n % 3 == 0 else sample("argon", n / 10, error="no answer")
        for n in range(60)
    ]
    argon = None
    found = []
    for begin in range(0, 60, 2):
        board.add(table(rows[begin : begin + 2]))
        argon = board.devices["argon"]
        found.append("failing" in words(board, argon, START + 6 * SECOND))
    assert argon is not None
    # It begins once, and does not vanish with each answer.
    assert sorted(found) == found
    assert found[-1]
    board.add(table([sample("argon", 6 + n / 10, 7.0) for n in range(7)]))
    assert "failing" in words(board, argon, START + 7 * SECOND)
    board.add(table([sample("argon", 7.0, 7.0)]))
    assert words(board, argon, START + 7 * SECOND) == ["gaps"]


def test_an_alarm_is_acknowledged_until_another_one_begins() -> None:
    board = Board("run", limits={"argon": Limits(None, 10)})
    board.add(table([sample("argon", 0.0, 11.0)]))
    argon = board.devices["argon"]
    assert [alarm.seen for alarm in board.alarms(argon, START)] == [False]
    assert board.acknowledge("argon", START)
    assert [alarm.seen for alarm in board.alarms(argon, START)] == [True]
    assert not board.acknowledge("argon", START)
    board.add(table([sample("argon", 1.0, 9.95)]))  # within the hysteresis
    assert [alarm.seen for alarm in board.alarms(argon, START)] == [True]
    board.add(table([sample("argon", 2.0, 9.0)]))
    assert board.alarms(argon, START) == []
    board.add(table([sample("argon", 3.0, 11.0)]))
    assert [alarm.seen for alarm in board.alarms(argon, START)] == [False]


def test_alarms_of_the_recorder_are_those_of_the_page() -> None:
    board = Board("run", limits={"argon": Limits(None, 10, "Abs_Press", judged=False)})
    begin = sample("argon", 1.0, event="alarm", message="Abs_Press is 14.7 PSIA, above 10 PSIA")
    board.add(table([sample("argon", 0.0, 5.0), begin]))
    argon = board.devices["argon"]
    (alarm,) = board.alarms(argon, START)
    assert (alarm.kind, alarm.text) == ("limit", "Abs_Press is 14.7 PSIA, above 10 PSIA")
    end = sample(
        "argon", 2.0, event="alarm_ended", message="Abs_Press is 9 PSIA, within its limits"
    )
    board.add(table([end]))
    assert board.alarms(argon, START) == []


def test_a_pause_between_two_runs_is_an_event() -> None:
    board = Board("run", live=False)
    for run, begin in (("one", 0.0), ("one", 1.0), ("two", 3600.0)):
        schema = RecordSchema(FIELDS, json.dumps({"run_id": run}))
        rows = wave("argon", 10, begin=begin)
        board.add(SampleBatch.from_samples(rows, schema).to_arrow())
    ((_, kind, message),) = kinds(board)
    assert kind == "not_recorded"
    assert message.startswith("no recorder ran for 59 min 59 s, from 2096-")


def test_another_unit_is_another_curve() -> None:
    board = Board("run")
    board.add(table(wave("argon", 10)))
    fields = tuple(
        Field(field.name, field.kind, "SLPM" if field.unit == "SCCM" else field.unit)
        for field in FIELDS
    )
    later = SampleBatch.from_samples(wave("argon", 10, begin=1), RecordSchema(fields))
    board.add(later.to_arrow())
    argon = board.devices["argon"]
    keys = [quantity.key for quantity in argon.quantities.all]
    assert keys == [PRESSURE, FLOW, AIM, "Mass_Flow [SLPM]", "Mass_Flow_Setpt [SLPM]"]
    assert argon.quantity == Quantity("Mass_Flow", "Mass_Flow_Setpt", "SLPM")
    old, new = (argon.history.envelope(key, 0, 2 * START, 1) for key in (FLOW, "Mass_Flow [SLPM]"))
    assert np.isnan(old.low[10:]).all()
    assert np.isnan(new.low[:10]).all()
    assert new.low[10] == 100.0


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
    assert board.devices["argon"].history.rows == 3
    board.add(table([sample("argon", 3.0, event="missed_slots", message="3 missed: busy")]))
    assert board.devices["argon"].missed == 15
    assert kinds(board)[0] == ("argon", "setpoint", "setpoint: ALS 50")
    assert [event.kind for event in board.events_since(2)] == ["missed_slots"]


def test_one_sample_beyond_a_limit_raises_an_alarm_and_the_return_clears_it() -> None:
    board = Board("run", limits={"argon": Limits(10, 200)})
    rows = wave("argon", 10)
    rows[4] = sample("argon", 0.2, 900.0)
    board.add(table(rows))
    assert words(board, board.devices["argon"], START) == []  # it has returned within the batch
    assert [kind for _, kind, _ in kinds(board)] == ["alarm", "alarm_cleared"]
    assert kinds(board)[0][2] == "900 SCCM is above the limit 200 SCCM"
    board.add(table([sample("argon", 1.0, 3.0)]))
    assert words(board, board.devices["argon"], START) == ["low"]
    board.add(table([sample("argon", 1.1, 2.0)]))
    assert len(kinds(board)) == 3  # one alarm, however long it lasts


def test_an_alarm_ends_where_the_other_limit_is_infinite() -> None:
    board = Board("run", limits={"argon": Limits(10, math.inf)})
    for second, flow in enumerate([3.0, 10.05, 10.2]):
        board.add(table([sample("argon", second, flow)]))
    assert [kind for _, kind, _ in kinds(board)] == ["alarm", "alarm_cleared"]
    assert Limits(-math.inf, math.inf).margin == 0


@pytest.mark.parametrize(
    "options", [{"low": math.nan}, {"high": math.nan}, {"hysteresis": math.nan}]
)
def test_a_limit_that_is_no_number_is_refused(options: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="is not a number"):
        Limits(**options)  # type: ignore[arg-type]


def test_a_device_without_samples_is_silent_until_it_sends_again() -> None:
    board = Board("run", silence=2)
    board.add(table(wave("argon", 3)))
    board.watch_silence(START + SECOND)
    assert board.devices["argon"].silent_since is None
    board.watch_silence(START + 4 * SECOND)
    board.watch_silence(START + 5 * SECOND)
    assert words(board, board.devices["argon"], START + 5 * SECOND) == ["silent"]
    board.add(table([sample("argon", 6.0, 1.0)]))
    board.watch_silence(START + 7 * SECOND)
    assert [kind for _, kind, _ in kinds(board)] == ["alarm", "alarm_cleared"]


def test_a_device_is_silent_though_the_clock_was_set_back() -> None:
    board = Board("run", silence=2)
    board.add(table(wave("argon", 3)))
    an_hour_before = START - 3600 * SECOND
    arrived = board.devices["argon"].arrived
    board.watch_silence(an_hour_before, arrived + SECOND)
    assert board.devices["argon"].silent_since is None
    board.watch_silence(an_hour_before + 20 * SECOND, arrived + 20 * SECOND)
    assert words(board, board.devices["argon"], an_hour_before) == ["silent"]


def test_a_finished_recording_is_not_silent() -> None:
    board = Board("run", live=False, silence=1)
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
    assert np.isnan(board.devices["argon"].history.envelope(FLOW, 0, START * 2, 1).low[-1])
