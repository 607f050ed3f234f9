"""``penstock record`` with instruments that do not answer at the start."""

from __future__ import annotations

import csv
import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.python.cli.conftest import ENVIRONMENT

pytestmark = pytest.mark.usefixtures("native_loop")


@pytest.fixture
def plug_in(tmp_path: Path) -> Iterator[Callable[[str], None]]:
    """Start a simulated bus whose port appears as ``ports/bus1`` in *tmp_path*."""
    processes: list[subprocess.Popen[str]] = []

    def call(units: str) -> None:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "penstock.sim", "--bus", units, "--baud", "115200"),
                *("--link", str(tmp_path / "ports")),
            ],
            env=ENVIRONMENT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        processes.append(process)
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())

    yield call
    for process in processes:
        process.kill()
        process.communicate()


def _configure(folder: Path, *devices: str, record: str = "") -> Path:
    path = folder / "run.toml"
    text = f'[record]\nrate_hz = 20\nout = "out"\nformats = ["csv"]\n{record}\n'
    path.write_text(text + "\n".join(devices))
    return path


def _device(name: str, port: str, *, unit_id: str = "A", extra: str = "") -> str:
    return (
        f'[[device]]\nname = "{name}"\nport = "{port}"\nunit_id = "{unit_id}"\n'
        f"baudrate = 115200\ntimeout = 5\n{extra}\n"
    )


def _rows(folder: Path) -> list[dict[str, str]]:
    rows: list[dict[str, str]] = []
    for path in sorted((folder / "out").glob("samples*.csv")):
        with path.open(newline="", encoding="utf-8") as file:
            rows += csv.DictReader(file)
    return rows


def test_the_run_begins_with_what_answers_and_the_others_join(
    penstock: Any, start: Any, simulator: Any, plug_in: Any, tmp_path: Path
) -> None:
    _, (port,) = simulator("A:500")
    _configure(tmp_path, _device("argon", port), _device("oxygen", "ports/bus1", unit_id="B"))
    running = start("record", "run.toml", "--no-plot")
    running.wait_for(r'device "oxygen": .*ports/bus1.*; the run continues without it')
    running.wait_for(r"argon -?\d+\.\d+ .*oxygen absent")
    plug_in("B:100")
    running.wait_for(r'device "oxygen" answers now')
    running.wait_for(r"oxygen -?\d+\.\d+")
    running.process.send_signal(signal.SIGINT)
    code, output, errors = running.finish()
    assert (code, errors) == (130, ""), output
    rows = [row for row in _rows(tmp_path) if row["device"] == "oxygen"]
    assert sum(row["error_code"] == "absent" for row in rows) == 1
    kinds = [row["event"] for row in rows if row["event"]]
    assert kinds.count("absent") == kinds.count("joined") == 1
    assert kinds.index("absent") < kinds.index("joined")
    assert all(row["unit_id"] == "B" for row in rows)
    answered = [row for row in rows if row["Mass_Flow"]]
    assert answered and all(row["error"] == "" for row in answered)
    assert any(row["Mass_Flow"] for row in _rows(tmp_path) if row["device"] == "argon")
    checked = penstock("verify", "out", "--json")
    found = json.loads(checked.stdout)["out"]
    assert (found["problems"], found["devices"]["oxygen"]["gaps"]) == (0, 0), found


def test_a_run_of_absent_instruments_waits_for_them(
    start: Any, plug_in: Any, tmp_path: Path
) -> None:
    devices = [_device(name, "ports/bus1", unit_id=unit) for name, unit in (("a", "A"), ("b", "B"))]
    _configure(tmp_path, *devices)
    running = start("record", "run.toml", "--no-plot")
    running.wait_for(r"a absent, b absent")
    plug_in("A:100,B:200")
    running.wait_for(r"a -?\d+\.\d+ .*b -?\d+\.\d+")
    running.process.send_signal(signal.SIGTERM)
    assert running.finish()[0] == 143


def test_a_required_instrument_that_is_absent_ends_the_run_before_it_begins(
    penstock: Any, simulator: Any, tmp_path: Path
) -> None:
    _, (port,) = simulator("A:500")
    absent = _device("oxygen", "ports/bus1", extra="required = true")
    _configure(tmp_path, _device("argon", port), absent)
    done = penstock("record", "run.toml", "--no-plot")
    assert (done.returncode, 'device "oxygen"' in done.stderr) == (4, True)
    assert not (tmp_path / "out").exists()


def test_a_setpoint_that_is_due_before_the_instrument_is_there_is_not_sent_later(
    start: Any, plug_in: Any, tmp_path: Path
) -> None:
    steps = "[[device.setpoint]]\nat = 0\nvalue = 70\n"
    _configure(tmp_path, _device("a", "ports/bus1", extra=steps))
    running = start("record", "run.toml", "--no-plot")
    running.wait_for("a absent")
    plug_in("A:100")
    running.wait_for(r"a -?\d+\.\d+ of 0\.00")
    running.process.send_signal(signal.SIGINT)
    code, output, _ = running.finish()
    assert (code, "setpoint not accepted: a, 70 at 0 s" in output) == (130, True), output


def test_the_unit_that_does_answer_is_named_while_the_run_goes_on(
    start: Any, simulator: Any, tmp_path: Path
) -> None:
    _, (port,) = simulator("A:500")
    _configure(
        tmp_path, _device("argon", port, unit_id="D").replace("timeout = 5", "timeout = 0.5")
    )
    running = start("record", "run.toml", "--no-plot")
    running.wait_for(r'unit id D .* does not answer .*write unit_id = "A" if that is the one')
    running.process.send_signal(signal.SIGINT)
    assert running.finish()[0] == 130
