"""``penstock dash``, and ``--dash`` beside a recording."""

from __future__ import annotations

import base64
import json
import re
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import ClientConnection, connect

pytestmark = pytest.mark.usefixtures("native_loop")


def configured(folder: Path, *ports: str) -> Path:
    path = folder / "run.toml"
    tables = [
        f'[[device]]\nname = "fuel{number}"\nport = "{port}"\nbaudrate = 115200\ntimeout = 10\n'
        for number, port in enumerate(ports)
    ]
    path.write_text("[record]\nrate_hz = 20\n" + "".join(tables))
    return path


@contextmanager
def page_of(line: str, token: str | None = None, **headers: str) -> Iterator[ClientConnection]:
    found = re.search(r"http://(\S+)/", line)
    assert found is not None
    with connect(
        f"ws://{found[1]}/live", proxy=None, max_size=None, additional_headers=headers
    ) as page:
        page.send(json.dumps({"type": "hello", "token": token}))
        yield page


def receive(page: ClientConnection, kind: str, until: Callable[[Any], object]) -> Any:
    while True:
        data = page.recv(timeout=30)
        if isinstance(data, bytes):
            continue
        message = json.loads(data)
        if message["type"] == "state":
            page.send(json.dumps({"type": "ack", "seq": message["seq"]}))
        if message["type"] == kind and until(message):
            return message


def test_live_instruments_are_shown_and_nothing_is_written(
    start: Any, simulator: Any, tmp_path: Path
) -> None:
    _, (port,) = simulator("A:500")
    configured(tmp_path, port)
    running = start("dash", "run.toml", "--port", 0)
    with page_of(running.wait_for("dashboard: ")) as page:
        hello = receive(page, "hello", lambda message: message["devices"])
        assert hello["control"] == "none"
        state = receive(page, "state", lambda m: m["devices"]["fuel0"]["samples"] >= 5)
        assert state["devices"]["fuel0"]["setpoint"] == 0
        assert state["live"] is True
    running.process.send_signal(signal.SIGINT)
    code, _, errors = running.finish()
    assert (code, errors) == (0, "")
    assert [path.name for path in tmp_path.iterdir()] == ["run.toml"]


def test_a_setpoint_from_the_page_reaches_instrument_and_recording(
    start: Any, simulator: Any, tmp_path: Path, recorded: Any
) -> None:
    _, (port,) = simulator("A:500")
    configured(tmp_path, port)
    running = start("record", "run.toml", "--dash", 0, "--control", "--out", "out", "--no-plot")
    line = running.wait_for("dashboard: ")
    token = running.wait_for("control token").split()[-1]
    assert token not in line
    change = {"type": "setpoint", "id": 1, "device": "fuel0", "value": 120, "confirmed": True}
    with page_of(line) as page:
        page.send(json.dumps(change))
        answer = receive(page, "result", lambda message: True)
        assert (answer["ok"], "token" in answer["text"]) == (False, True)
    with page_of(line, token) as page:
        page.send(json.dumps(change))
        assert receive(page, "result", lambda message: True)["text"] == (
            "fuel0 has the setpoint 120 SCCM"
        )
        page.send(json.dumps({"type": "gases", "id": 2, "device": "fuel0"}))
        assert "Ar" in receive(page, "result", lambda message: True)["gases"]
        page.send(
            json.dumps({"type": "gas", "id": 3, "device": "fuel0", "gas": "Ar", "confirmed": True})
        )
        assert receive(page, "result", lambda message: True)["ok"]
        changed = time.time()
        page.send(json.dumps({**change, "id": 4, "value": 9999}))
        assert not receive(page, "result", lambda message: True)["ok"]
        state = receive(page, "state", lambda m: (m["devices"]["fuel0"]["t"] or 0) > changed)
        assert state["devices"]["fuel0"]["setpoint"] == 120
    running.process.send_signal(signal.SIGINT)
    code, _, _ = running.finish()
    assert code == 130
    rows = recorded(tmp_path / "out").parquet()
    assert rows["Mass_Flow_Setpt"][-1] == 120
    assert rows["Gas"][-1] == "Ar"
    text = (tmp_path / "out/samples.csv").read_text()
    assert ",setpoint," in text


def test_an_alarm_that_is_acknowledged_on_the_page_is_in_the_recording_and_its_book(
    start: Any, simulator: Any, tmp_path: Path
) -> None:
    _, (port,) = simulator("A:500")
    with configured(tmp_path, port).open("a") as file:
        file.write('[[device.limit]]\nfield = "Abs_Press"\nhigh = 1\n[alarm]\nbook = "book.json"\n')
    running = start("record", "run.toml", "--dash", 0, "--control", "--out", "out", "--no-plot")
    line = running.wait_for("dashboard: ")
    token = running.wait_for("control token").split()[-1]

    def alarms(message: Any) -> list[bool]:
        return [alarm[-1] for alarm in message["devices"]["fuel0"]["alarms"]]

    with page_of(line, token) as page:
        assert alarms(receive(page, "state", lambda m: m["devices"] and alarms(m))) == [False]
        page.send(json.dumps({"type": "acknowledge", "id": 1, "device": "fuel0"}))
        assert receive(page, "result", lambda m: True)["text"] == "acknowledged"
        receive(page, "state", lambda m: "alarm_acknowledged" in json.dumps(m["events"]))
    running.process.send_signal(signal.SIGINT)
    assert running.finish()[0] == 130
    text = (tmp_path / "out/samples.csv").read_text()
    assert text.count(",alarm_acknowledged,") == 1
    assert '"acknowledged": true' in (tmp_path / "book.json").read_text()


def test_the_page_of_the_files_passes_on_to_the_recorder_what_is_acknowledged(
    start: Any, simulator: Any, tmp_path: Path
) -> None:
    _, (port,) = simulator("A:500")
    with configured(tmp_path, port).open("a") as file:
        file.write('[[device.limit]]\nfield = "Abs_Press"\nhigh = 1\n[alarm]\nbook = "book.json"\n')
    recorder = start("record", "run.toml", "--out", "lab/run", "--no-plot")
    recorder.wait_for("samples,")
    while not list(tmp_path.glob("lab/run/samples.parquet.parts/.penstock/journal*")):
        recorder.wait_for("samples,")
    limit = ("--limit", "fuel0.Abs_Press=:1")
    running = start("dash", "lab", "--port", 0, "--control", *limit)
    line = running.wait_for("dashboard: ")
    token = running.wait_for("control token").split()[-1]

    def alarms(message: Any) -> list[bool]:
        return [alarm[-1] for alarm in message["devices"]["fuel0"]["alarms"]]

    def acknowledge(page: ClientConnection) -> Any:
        page.send(json.dumps({"type": "acknowledge", "id": 1, "device": "fuel0"}))
        return receive(page, "result", lambda m: True)

    with page_of(line, token) as page:
        receive(page, "state", lambda m: m["devices"] and False in alarms(m))
        page.send(json.dumps({"type": "gases", "id": 2, "device": "fuel0"}))
        answer = receive(page, "result", lambda m: True)
        assert (answer["ok"], "at their recorder" in answer["text"]) == (False, True)
        assert acknowledge(page)["text"] == "acknowledged"
        receive(page, "state", lambda m: "alarm_acknowledged" in json.dumps(m["events"]))
    recorder.process.send_signal(signal.SIGINT)
    assert recorder.finish()[0] == 130
    text = (tmp_path / "lab/run/samples.csv").read_text()
    assert ",alarm_acknowledged,the page (" in text
    assert '"acknowledged": true' in (tmp_path / "book.json").read_text()
    running.process.send_signal(signal.SIGINT)
    assert running.finish()[0] == 0
    running = start("dash", "lab", "--port", 0, "--control", *limit)
    line = running.wait_for("dashboard: ")
    token = running.wait_for("control token").split()[-1]
    with page_of(line, token) as page:
        receive(page, "state", lambda m: m["devices"] and False in alarms(m))
        answer = acknowledge(page)
        assert (answer["ok"], "no recorder is running" in answer["text"]) == (False, True)
        receive(page, "state", lambda m: False in alarms(m))
    running.process.send_signal(signal.SIGINT)
    assert running.finish()[0] == 0


def test_the_demo_is_shown_while_it_is_recorded(start: Any, tmp_path: Path) -> None:
    running = start("demo", "--dash", 0, "--no-plot", "--rate", 5, "--out", "out")
    with page_of(running.wait_for("dashboard: ")) as page:
        state = receive(page, "state", lambda m: all(d["samples"] for d in m["devices"].values()))
        assert set(state["devices"]) == {"argon", "nitrogen", "oxygen", "helium"}
    running.process.send_signal(signal.SIGINT)
    assert running.finish()[0] == 130
    assert (tmp_path / "out/samples.csv").exists()


def test_the_page_of_a_demo_learns_of_its_end(start: Any, tmp_path: Path) -> None:
    running = start("demo", "--dash", 0, "--no-plot", "--rate", 5, "--duration", 3, "--out", "out")
    with page_of(running.wait_for("dashboard: ")) as page:
        state = receive(page, "state", lambda message: message["ended"])
        assert (state["ended"], state["live"]) == ("the recording has ended", False)
    assert running.finish()[0] == 0


def test_a_recording_is_shown_and_ctrl_c_is_the_usual_end(
    start: Any, penstock: Any, simulator: Any, tmp_path: Path
) -> None:
    _, (port,) = simulator("A:500")
    configured(tmp_path, port)
    done = penstock("record", "run.toml", "--out", "out", "--duration", 1, "--no-plot")
    assert done.returncode == 0
    with (tmp_path / "run.toml").open("a") as file:
        file.write('[[device.limit]]\nfield = "Mass_Flow"\nhigh = 400\n')
        file.write('[[dash.chart]]\nleft = ["fuel0.Abs_Press"]\n')
    (tmp_path / "password").write_text("open sesame\n")
    running = start(
        *("dash", "out", "--port", 0, "--layout", "run.toml", "--password-file", "password"),
        *("--limit", "fuel0.Abs_Press=:900:5"),
    )
    basic = "Basic " + base64.b64encode(b":open sesame").decode()
    line = running.wait_for("dashboard: ")
    with pytest.raises(InvalidStatus), page_of(line):
        pass
    with page_of(line, Authorization=basic) as page:
        hello = receive(page, "hello", lambda message: message["devices"])
        assert hello["layout"][0]["curves"] == [["fuel0", "Abs_Press", "left"]]
        assert hello["devices"][0]["limits"] == [
            {"field": "Abs_Press", "low": None, "high": 900},
            {"field": "Mass_Flow", "low": None, "high": 400},
        ]
        state = receive(page, "state", lambda message: message["devices"])
        fuel = state["devices"]["fuel0"]
        assert fuel["samples"] + fuel["missed"] == 20
    running.process.send_signal(signal.SIGINT)
    code, _, errors = running.finish()
    assert (code, errors) == (0, "")


def test_another_address_than_loopback_is_warned_of(
    start: Any, simulator: Any, tmp_path: Path
) -> None:
    _, (port,) = simulator("A:500")
    configured(tmp_path, port)
    running = start("dash", "run.toml", "--port", 0, "--host", "0.0.0.0", "--control")
    running.wait_for("dashboard: ")
    assert "not encrypted" in running.wait_for("warning: everyone who can reach")
    running.process.send_signal(signal.SIGINT)
    assert running.finish()[0] == 0


def test_a_taken_port_is_reported_before_any_instrument_is_opened(
    penstock: Any, tmp_path: Path
) -> None:
    configured(tmp_path, "/dev/does-not-exist")
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
        done = penstock("record", "run.toml", "--dash", port, "--no-plot")
    assert done.returncode == 5
    assert f"the dashboard cannot be served on 127.0.0.1 port {port}" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["run.toml"]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["record", "run.toml", "--control"], 2, "--control is for the dashboard; add --dash"),
        (["record", "run.toml", "--limit", "fuel0=1:2"], 2, "--limit is for the dashboard"),
        (["record", "--dash", "run.toml"], 2, "'run.toml' is not a port"),
        (["record", "run.toml", "--dash", "70000"], 2, "'70000' is not a port"),
        (["record", "run.toml", "--dash", "0", "--limit", "x=1:2"], 2, "x, which is not a device"),
        (["dash", "run.toml", "--limit", "fuel0"], 2, "write DEVICE=LOW:HIGH"),
        (["dash", "run.toml", "--limit", "fuel0=:"], 2, "write DEVICE=LOW:HIGH"),
        (["dash", "run.toml", "--limit", "fuel0=nan:1"], 2, "write DEVICE=LOW:HIGH"),
        (["dash", "run.toml", "--limit", "fuel0=3:2"], 2, "wrong order"),
        (["dash", "run.toml", "--limit", "fuel0=1:2:-1"], 2, "has a negative hysteresis"),
        (["dash", "run.toml", "--limit", "fuel0=1:2:0.6"], 2, "no value that ends an alarm"),
        (["record", "run.toml", "--dash", "0", "--limit", "x.Gas=1:2"], 2, "x.Gas, which is no"),
        (["dash", "run.toml", "--silence", "0"], 2, "is not a time in seconds"),
        (["dash", "run.toml", "--host", "256.1.1.1"], 5, "cannot be served on 256.1.1.1"),
        (["record", "run.toml", "--password-file", "x"], 2, "--password-file is for the dash"),
        (["dash", "run.toml", "--password-file", "missing"], 3, "missing cannot be read"),
        (["dash", "run.toml", "--password-file", "empty"], 3, "is empty; write the password"),
        (["dash", "run.toml", "--layout", "run.toml"], 2, "--layout is only for recordings"),
        (["dash", "missing.toml"], 3, "does not exist"),
        (["dash", "missing.parquet"], 5, "does not exist"),
        (["dash", "run.toml.txt"], 5, "does not exist"),
        (["dash", "postgresql://h/d", "--control"], 2, "is on a server"),
    ],
)
def test_what_cannot_be_served_is_one_sentence(
    penstock: Any, tmp_path: Path, arguments: list[str], code: int, words: str
) -> None:
    configured(tmp_path, "/dev/does-not-exist")
    (tmp_path / "empty").write_text("")
    done = penstock(*arguments)
    assert done.returncode == code
    assert words in done.stderr
    assert "Traceback" not in done.stderr
