"""Limits in a ``run.toml``: when alarms begin and end, and what they cause."""

from __future__ import annotations

import csv
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cli._errors import CommandError
from penstock.cli._limits import Alarm, LimitPlan, LimitWatch
from penstock.cli._recording import alarms
from penstock.cli._recording.config import parse_config
from penstock.cli._recording.plan import AlarmPlan

S = 1_000_000_000
SCCM = {"Flow": "SCCM"}


def _story(plan: LimitPlan, values: list[Any], seconds: float = 1.0) -> list[str]:
    """What each answer changes: ``+`` an alarm begins, ``-`` it ends, ``.`` nothing."""
    watch = LimitWatch("a", plan)
    found = []
    for number, value in enumerate(values):
        alarm = watch.judge({"Flow": value}, SCCM, round(number * seconds * S))
        found.append("." if alarm is None else "+" if alarm.begins else "-")
    return found


@pytest.mark.parametrize(
    ("plan", "values", "story"),
    [
        (LimitPlan("Flow", high=10.0), [9, 10, 10.1, 11, 10, 9], "..+.-."),
        (LimitPlan("Flow", low=1.0), [1, 0.9, 0.5, 1], ".+.-"),
        (LimitPlan("Flow", low=1.0, high=10.0), [5, 11, 0, 5], ".+.-"),
        (LimitPlan("Flow", high=10.0, hysteresis=2.0), [11, 10, 9, 8.1, 8, 11], "+...-+"),
        (LimitPlan("Flow", low=1.0, hysteresis=0.5), [0.9, 1.2, 1.5], "+.-"),
        (LimitPlan("Flow", high=10.0, delay=2.0), [11, 11, 11, 11, 9], "..+.-"),
        (LimitPlan("Flow", high=10.0, delay=2.0), [11, 11, 9, 11, 11, 9], "......"),
        (
            LimitPlan("Flow", high=10.0),
            [float("nan"), "OVER", None, True, 11, "OVER", 9],
            "....+.-",
        ),
        (LimitPlan("Other", high=10.0), [11, 12], ".."),
    ],
)
def test_alarms_begin_and_end_by_the_readings(
    plan: LimitPlan, values: list[Any], story: str
) -> None:
    assert "".join(_story(plan, values)) == story


@given(
    st.lists(st.floats(-20, 20), max_size=40),
    st.floats(-10, 0),
    st.floats(1, 10),
    st.floats(0, 0.5),
    st.sampled_from([0.0, 1.0, 3.0]),
)
def test_alarms_alternate_and_begin_only_outside(
    values: list[float], low: float, high: float, hysteresis: float, delay: float
) -> None:
    story = _story(LimitPlan("Flow", low, high, None, hysteresis, delay), list(values))
    marks = [mark for mark in story if mark != "."]
    assert marks == ["+", "-"] * (len(marks) // 2) + ["+"] * (len(marks) % 2)
    for value, mark in zip(values, story, strict=True):
        if mark == "+":
            assert not low <= value <= high
        if mark == "-":
            assert low + hysteresis <= value <= high - hysteresis


def test_a_limit_whose_field_changes_its_unit_is_an_alarm() -> None:
    watch = LimitWatch("a", LimitPlan("Flow", high=100.0))
    assert watch.judge({"Flow": 50}, {"Flow": "SCCM"}, 0) is None
    alarm = watch.judge({"Flow": 0.05}, {"Flow": "SLPM"}, S)
    assert alarm is not None and alarm.begins
    assert alarm.message == ("Flow is in SLPM now, and its limit in SCCM: it cannot be checked")
    assert watch.judge({"Flow": 0.05}, {"Flow": "SLPM"}, 2 * S) is None
    ended = watch.judge({"Flow": 50}, {"Flow": "SCCM"}, 3 * S)
    assert ended is not None and not ended.begins


def test_an_alarm_says_what_is_outside_of_which_end() -> None:
    watch = LimitWatch("a", LimitPlan("Flow", low=1.0, delay=2.0))
    watch.judge({"Flow": 0.5}, SCCM, 0)
    alarm = watch.judge({"Flow": 0.25}, SCCM, 5 * S // 2)
    assert alarm is not None
    assert alarm.message == "Flow is 0.25 SCCM, below 1 SCCM for 2.5 s"


DEVICE = '[[device]]\nname = "argon"\nport = "/dev/ttyUSB0"\n'
LIMIT = DEVICE + "[[device.limit]]\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (LIMIT + "high = 3", ["the key field is missing"]),
        (LIMIT + 'field = "F"', ['field = "F" has no limit']),
        (LIMIT + 'field = "F"\nlow = 3\nhigh = 3', ["low = 3 is not below high = 3"]),
        (LIMIT + 'field = "F"\nlow = 1\nhigh = 3\nhysteresis = 1.5', ["leaves no value"]),
        (LIMIT + 'field = "F"\nhigh = nan', ["not a finite number"]),
        (LIMIT + 'field = "F"\nhigh = 1\ndelay = -1', ["delay = -1 is out of range"]),
        (LIMIT + 'field = "F"\nhihg = 1', ["did you mean high?", "[[device.limit]] number 1"]),
        (DEVICE + "[alarm]", ["the key command is missing"]),
        (DEVICE + '[alarm]\ncommand = "mail"', ["is not a list of words"]),
        (DEVICE + '[alarm]\ncommand = ["/nowhere/mail"]', ["there is no such program"]),
        (DEVICE + '[alarm]\ncommand = ["true"]\ntimeout = 0', ["timeout = 0 is out of range"]),
    ],
)
def test_a_limit_that_means_nothing_is_refused(text: str, words: list[str]) -> None:
    with pytest.raises(CommandError) as caught:
        parse_config(text.encode(), "run.toml")
    assert caught.value.code == 3
    assert all(word in str(caught.value) for word in words), caught.value


ALARM = Alarm("argon", "Flow", 212.5, True, "Flow is 212.5 SCCM")


@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        ("raise SystemExit(3)", "ended with code 3 after"),
        ("import os; os.kill(os.getpid(), 9)", "was ended by signal 9 after"),
    ],
)
def test_the_command_gets_the_alarm_and_its_end_is_told(code: str, outcome: str) -> None:
    command = AlarmPlan((sys.executable, "-c", code), 60.0)
    assert outcome in alarms._run(command, ALARM)


def test_the_command_knows_the_alarm_from_its_environment(tmp_path: Path) -> None:
    path = tmp_path / "told"
    words = ("begin", "argon", "Flow", "212.5", "Flow is 212.5 SCCM")
    keys = ("", "_DEVICE", "_FIELD", "_VALUE", "_MESSAGE")
    names = [f"PENSTOCK_ALARM{key}" for key in keys]
    code = f"import os; open({str(path)!r}, 'w').write('|'.join(os.environ[n] for n in {names!r}))"
    assert "code 0" in alarms._run(AlarmPlan((sys.executable, "-c", code), 60.0), ALARM)
    assert path.read_text() == "|".join(words)


def test_a_command_that_hangs_is_killed_with_its_children(tmp_path: Path) -> None:
    # The child holds the pipe; it is at its end only when both have gone.
    fifo = tmp_path / "held"

    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    command = AlarmPlan(("sh", "-c", f"exec 3>{fifo}; sleep 600 & sleep 600"), 0.5)
    outcome = alarms._run(command, ALARM)
    assert outcome == "sh did not end within 0.5 s, and was killed"
    os.set_blocking(reader, True)
    assert os.read(reader, 1) == b""
    os.close(reader)


def _events(folder: Path) -> list[dict[str, str]]:
    rows: list[dict[str, str]] = []
    for path in sorted((folder / "out").glob("samples*.csv")):
        with path.open(newline="", encoding="utf-8") as file:
            rows += [row for row in csv.DictReader(file) if row["event"]]
    return rows


def _configure(folder: Path, port: str, limit: str, command: list[str]) -> None:
    (folder / "run.toml").write_text(
        '[record]\nrate_hz = 20\nout = "out"\nformats = ["csv"]\n'
        f"[alarm]\ncommand = {json.dumps(command)}\ntimeout = 30\n"
        f'[[device]]\nname = "argon"\nport = "{port}"\nbaudrate = 115200\ntimeout = 10\n'
        f"[[device.limit]]\n{limit}\n"
        "[[device.setpoint]]\nat = 1\nvalue = 300\n[[device.setpoint]]\nat = 5\nvalue = 0\n"
    )


@pytest.mark.usefixtures("native_loop")
def test_an_alarm_is_an_event_a_word_and_a_command(
    start: Any, simulator: Any, tmp_path: Path
) -> None:
    _, (port,) = simulator("A:500")
    code = "import os; print(os.environ['PENSTOCK_ALARM'], file=open('told', 'a'))"
    limit = 'field = "Mass_Flow"\nhigh = 200\nhysteresis = 50\nunit = "SCCM"'
    _configure(tmp_path, port, limit, [sys.executable, "-c", code])
    running = start("record", "run.toml", "--no-plot", "--json")
    assert running.process.stderr is not None
    for line in running.process.stderr:
        if "ALARM" in line:
            break
    for line in running.process.stderr:
        if "argon" in line and "ALARM" not in line:
            break
    running.process.send_signal(signal.SIGINT)
    code_, output, _ = running.finish()
    assert (code_, json.loads(output)["alarms"]) == (130, 1)
    events = [row for row in _events(tmp_path) if row["event"].startswith("alarm")]
    kinds = [row["event"] for row in events]
    assert [kind for kind in kinds if kind != "alarm_command"] == ["alarm", "alarm_ended"]
    assert {row["device"] for row in events} == {"argon"}
    assert "SCCM, above 200 SCCM" in next(r["message"] for r in events if r["event"] == "alarm")
    assert (tmp_path / "told").read_text().split()[0] == "begin"
    assert any("ended with code 0" in r["message"] for r in events if r["event"] == "alarm_command")


@pytest.mark.usefixtures("native_loop")
@pytest.mark.parametrize(
    ("limit", "words"),
    [
        ('field = "Mas_Flow"\nhigh = 3', "is for Mas_Flow, which it does not send; it has "),
        ('field = "Mass_Flow"\nunit = "SLPM"\nhigh = 3', "is in SLPM, and it counts in SCCM"),
    ],
)
def test_a_limit_that_the_instrument_cannot_have_is_refused_at_the_start(
    penstock: Any, simulator: Any, tmp_path: Path, limit: str, words: str
) -> None:
    _, (port,) = simulator("A:500")
    _configure(tmp_path, port, limit, ["true"])
    done = penstock("record", "run.toml", "--no-plot")
    assert (done.returncode, words in done.stderr) == (4, True), done.stderr
    assert not (tmp_path / "out").exists()
