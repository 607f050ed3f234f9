"""``penstock new``: a configuration file of simulated instruments, which a run accepts."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.cli._recording.new_command import _entries
from tests.python.cli.conftest import ENVIRONMENT, Command

pytestmark = pytest.mark.usefixtures("native_loop")

Simulator = Callable[..., Any]
# A busy machine delays a simulator, and an answer that is late counts as none.
PATIENT = ("--timeout", "5")
AT_115200 = ("--bauds", "115200", *PATIENT)


@pytest.fixture
def modbus_port(tmp_path: Path) -> Iterator[str]:
    fleet = """
[[bus]]
protocol = "modbus-rtu"
baudrate = 19200
[[bus.unit]]
id = "A"
full_scale = 500
number = 3
"""
    (tmp_path / "fleet.toml").write_text(fleet)
    process = subprocess.Popen(
        [sys.executable, "-m", "penstock.sim", "--fleet", str(tmp_path / "fleet.toml")],
        env=ENVIRONMENT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())["buses"][0]["path"]
    finally:
        process.kill()
        process.communicate()


def test_a_run_accepts_the_file_and_records_what_answered(
    penstock: Command, simulator: Simulator, tmp_path: Path
) -> None:
    # All letters that are asked for are there: each that is not costs its time-outs.
    _, (first, second) = simulator("A:500,B:100", "A:5000,B:50")
    done = penstock("new", "run.toml", first, second, "--units", "A-B", *AT_115200)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("wrote run.toml: 4 instruments")
    written = (tmp_path / "run.toml").read_text()
    devices = tomllib.loads(written)["device"]
    assert [(each["port"], each["unit_id"], each["baudrate"]) for each in devices] == [
        (first, "A", 115200),
        (first, "B", 115200),
        (second, "A", 115200),
        (second, "B", 115200),
    ]
    assert len({each["name"] for each in devices}) == 4
    done = penstock("record", "run.toml", "--check")
    assert done.returncode == 0, done.stderr
    assert "ready to record" in done.stdout
    done = penstock("record", "run.toml", "--duration", "1", "--no-plot", "--out", "run")
    assert done.returncode in (0, 6), done.stderr
    assert (tmp_path / "run" / "samples.csv").stat().st_size > 0


def test_its_suggestions_are_accepted_too(
    penstock: Command, simulator: Simulator, tmp_path: Path
) -> None:
    _, (port,) = simulator("A:500")
    assert penstock("new", "run.toml", port, *AT_115200).returncode == 0
    head, begin, rest = (tmp_path / "run.toml").read_text().partition("[record]")
    eager = "\n".join(
        line.removeprefix("# ") if "=" in line or line.startswith("# [") else line
        for line in rest.splitlines()
    )
    eager = eager.replace("/mnt/other", str(tmp_path)).replace("required = true", "timeout = 5")
    eager = eager.replace("timeout = 0.5", "required = true", 1)
    (tmp_path / "eager.toml").write_text(head + begin + eager)
    assert "setpoint" in tomllib.loads(head + begin + eager)["device"][0]
    done = penstock("record", "eager.toml", "--check")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("kind", ["file", "link to nothing", "folder"])
def test_what_is_there_is_left_alone(penstock: Command, tmp_path: Path, kind: str) -> None:
    path = tmp_path / "run.toml"
    if kind == "file":
        path.write_text("mine")
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to("nowhere")
    # The port would fail: it is not even opened.
    done = penstock("new", "run.toml", "/dev/nothing")
    assert done.returncode == 5
    assert "run.toml already exists" in done.stderr
    assert kind != "file" or path.read_text() == "mine"
    assert not (tmp_path / "nowhere").exists()


def test_a_folder_that_is_missing_is_told_before_the_search(penstock: Command) -> None:
    done = penstock("new", "nowhere/run.toml", "/dev/nothing")
    assert done.returncode == 5
    assert "there is no folder nowhere" in done.stderr


def test_no_file_is_left_where_nothing_answers(
    penstock: Command, silent_port: str, tmp_path: Path
) -> None:
    done = penstock("new", "run.toml", silent_port, "--bauds", "19200", "--timeout", "0.05")
    assert done.returncode == 4
    assert "no instrument answered" in done.stderr
    assert not list(tmp_path.iterdir())


def test_modbus_instruments_are_written_with_their_numbers(
    penstock: Command, modbus_port: str, tmp_path: Path
) -> None:
    done = penstock(
        *("new", "run.toml", modbus_port, "--modbus", "rtu", "--units", "3"),
        *("--bauds", "19200", *PATIENT),
    )
    assert done.returncode == 0, done.stderr
    (device,) = tomllib.loads((tmp_path / "run.toml").read_text())["device"]
    assert device["number"] == 3
    assert device["family"] == "mass-flow-controller"
    done = penstock("record", "run.toml", "--check")
    assert done.returncode == 0, done.stderr


def test_what_lacks_a_fact_is_a_comment() -> None:
    found = [
        {"port": "/dev/a", "baudrate": 19200, "unit_id": "1", "family": "pressure-meter"},
        {"port": "/dev/a", "baudrate": 19200, "unit_id": "2", "family": "basis-meter"},
        {"port": "/dev/a", "baudrate": 19200, "unit_id": "3", "family": "coda-meter"},
        {"port": "/dev/a", "baudrate": 115200, "unit_id": "4", "family": "coda-meter"},
    ]
    pressure, basis, coda, faster = _entries(found, "rtu")
    assert "gauge-pressure-meter" in pressure.lacking
    assert "decimal places" in basis.lacking
    assert coda.lacking == ""
    assert "115200 baud" in faster.lacking
    for entry in (pressure, basis, faster):
        assert all(line.startswith("#") for line in entry.text().split("\n") if line)


def test_a_name_of_the_instrument_cannot_break_the_file() -> None:
    facts = {
        "port": "/dev/ttyUSB0",
        "baudrate": 19200,
        "unit_id": "A",
        "model": 'M"C\n[x]\x07',
        "serial": "1\r2",
        "firmware": "\u2028",
    }
    first, second = _entries([facts, {**facts, "port": "/dev/ttyUSB1"}], None)
    for entry in (first, second):
        (device,) = tomllib.loads(entry.text())["device"]
        assert device["name"] == entry.name
    assert first.name != second.name
