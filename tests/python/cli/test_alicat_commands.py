"""``penstock alicat`` in a subprocess, with a simulated instrument in another process."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.cli._parser import build_parser

Command = Callable[..., "subprocess.CompletedProcess[str]"]
Ask = Callable[..., "subprocess.CompletedProcess[str]"]

BAUD = 115200


@pytest.fixture
def ask(penstock: Command, simulator: Callable[..., Any]) -> Ask:
    """``penstock alicat ACTION PORT ...`` on a controller of 500 SCCM."""
    _, (port,) = simulator("A:500", baudrate=BAUD)

    def run(action: str, *arguments: str, position: int = 0) -> subprocess.CompletedProcess[str]:
        words = [action, *arguments[:position], port, *arguments[position:]]
        return penstock("alicat", *words, "--baud", str(BAUD), "--timeout", "5")

    return run


def test_info_prints_the_instruments_identity(ask: Ask) -> None:
    text = ask("info")
    assert text.returncode == 0
    assert "MC-500SCCM-D" in text.stdout
    known = json.loads(ask("info", "--json").stdout)
    assert (known["serial"], known["kind"]) == ("521641", "flow_controller")
    assert {"name": "Mass_Flow", "kind": "float", "unit": "SCCM"} in known["fields"]


def test_read_prints_one_reading(ask: Ask) -> None:
    reading = json.loads(ask("read", "--json").stdout)
    assert (reading["unit_id"], reading["Gas"]) == ("A", "N2")
    assert reading["units"]["Abs_Press"] == "PSIA"
    assert "Abs_Press" in ask("read").stdout


def test_watch_prints_one_line_per_reading(ask: Ask) -> None:
    lines = ask("watch", "--rate", "50", "--count", "3", "--json").stdout.splitlines()
    assert [json.loads(line)["unit_id"] for line in lines] == ["A"] * 3


def test_set_reads_the_setpoint_back(ask: Ask) -> None:
    done = ask("set", "120", "--in", "SCCM", "--json")
    assert done.returncode == 0, done.stderr
    state = json.loads(done.stdout)
    assert (state["requested"], state["unit"], state["accepted"]) == (120.0, "SCCM", True)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("set", "501"), "full scale of 500 SCCM"),
        (("set", "1", "--in", "SLPM"), "in SCCM, not in SLPM"),
        (("gas", "unobtainium"), "unknown gas 'unobtainium'"),
        (("tare", "flow"), "repeat it with --yes"),
        (("ramp", "5"), "state the time with --per"),
        (("watch", "--rate", "0"), "rate"),
    ],
)
def test_invalid_argument_is_reported_in_one_sentence(
    ask: Ask, arguments: tuple[str, ...], reason: str
) -> None:
    done = ask(*arguments)
    assert done.returncode == 2
    assert reason in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert done.stdout == ""


def test_gas_is_printed_and_selected(ask: Ask) -> None:
    assert ask("gas").stdout == "N2 (Nitrogen)\n"
    assert json.loads(ask("gas", "Ar", "--json").stdout)["gas"] == "Ar"


def test_confirmed_tare_is_sent(ask: Ask) -> None:
    answer = ask("tare", "flow", "--yes", "--json")
    assert (answer.returncode, answer.stderr) == (0, "")
    assert json.loads(answer.stdout)["unit_id"] == "A"


def test_ramp_is_printed_and_set(ask: Ask) -> None:
    assert ask("ramp").stdout == "at once\n"
    assert ask("ramp", "50", "--per", "s").stdout == "at most 50 SCCM/s\n"


def test_scan_finds_answering_instruments(penstock: Command, simulator: Callable[..., Any]) -> None:
    _, (port,) = simulator("B:100", baudrate=BAUD)
    where = ("--bauds", str(BAUD), "--timeout", "2")
    found = penstock("alicat", "scan", port, "--units", "AB", *where, "--json")
    (entry,) = json.loads(found.stdout)
    assert (entry["port"], entry["unit_id"]) == (port, "B")
    nothing = penstock("alicat", "scan", port, "--units", "C", *where)
    assert nothing.returncode == 4
    assert "no instrument answered" in nothing.stderr


def test_missing_port_is_reported_in_one_sentence(penstock: Command) -> None:
    done = penstock("alicat", "read", "/dev/ttyNOWHERE")
    assert done.returncode == 4
    assert "does not exist" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_batch_is_printed_and_set(ask: Ask) -> None:
    assert ask("batch").stdout == "off\n"
    answer = json.loads(ask("batch", "12.5", "--totalizer", "2", "--json").stdout)
    assert (answer["totalizer"], answer["volume"], answer["unit"]) == (2, 12.5, "SmL")


def test_registers_are_read_and_written_with_yes(ask: Ask) -> None:
    assert ask("registers", "46", "122").stdout == "046 = 8\n122 = 37\n"
    refused = ask("registers", "46=4")
    assert refused.returncode == 2
    assert "--yes" in refused.stderr
    done = json.loads(ask("registers", "46=4", "--yes", "--json").stdout)
    assert done["registers"] == {"46": 4}
    assert ask("gas").stdout.startswith("CO2")
    assert ask("registers", "x").returncode == 2


def test_settings_are_saved_compared_and_restored(ask: Ask, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    saved = json.loads(ask("config", "save", str(path), "--json", position=1).stdout)
    assert saved["settings"] >= 5
    assert saved["unreadable"] == {}
    document = json.loads(path.read_text())
    assert "zero band" in document["settings"]
    assert document["identity"]["serial"] == "521641"
    assert document["settings"]["gas"] == {"code": 8, "label": "N2"}

    same = ask("config", "diff", str(path), position=1)
    assert same.returncode == 0, same.stderr
    ask("gas", "Ar")
    ask("ramp", "5", "--per", "s")
    other = ask("config", "diff", str(path), "--json", position=1)
    assert other.returncode != 0
    found = json.loads(other.stdout)
    assert set(found) == {"gas", "ramp rate"}
    assert found["gas"] == {
        "file": {"code": 8, "label": "N2"},
        "instrument": {"code": 1, "label": "Ar"},
    }

    refused = ask("config", "restore", str(path), position=1)
    assert refused.returncode == 2
    assert "--yes" in refused.stderr
    done = ask("config", "restore", str(path), "--yes", position=1)
    assert done.returncode == 0, done.stderr
    assert ask("gas").stdout.startswith("N2")


def test_file_without_a_configuration_is_refused(ask: Ask, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text("[]")
    for action in ("diff", "restore"):
        done = ask("config", action, str(path), position=1)
        assert done.returncode == 2
        assert "not the configuration" in done.stderr
    done = ask("config", "save", str(path), position=1)
    assert "already exists" in done.stderr
    assert path.read_text() == "[]"


@pytest.mark.parametrize(
    ("words", "name", "value"),
    [
        (["gas", "/dev/x", "--unit", "B", "Ar"], "gas", "Ar"),
        (["gas", "--unit", "B", "/dev/x"], "gas", None),
        (["batch", "/dev/x", "--totalizer", "2", "3"], "volume", 3.0),
        (["ramp", "/dev/x", "--per", "s", "50"], "rate", 50.0),
        (["scan", "a", "--bauds", "9600", "b"], "ports", ["a", "b"]),
    ],
)
def test_options_may_stand_between_arguments(words: list[str], name: str, value: object) -> None:
    assert getattr(build_parser().parse_args(["alicat", *words]), name) == value
