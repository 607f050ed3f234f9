"""``penstock alicat``, in a process of its own, with a simulated instrument in another."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

Command = Callable[..., "subprocess.CompletedProcess[str]"]
Ask = Callable[..., "subprocess.CompletedProcess[str]"]

BAUD = 115200


@pytest.fixture
def ask(penstock: Command, simulator: Callable[..., Any]) -> Ask:
    """``penstock alicat ACTION PORT ...`` on a controller of 500 SCCM."""
    _, (port,) = simulator("A:500", baudrate=BAUD)

    def run(action: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        return penstock("alicat", action, port, *arguments, "--baud", str(BAUD), "--timeout", "5")

    return run


def test_info_tells_what_an_instrument_is(ask: Ask) -> None:
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


def test_watch_prints_a_line_a_reading(ask: Ask) -> None:
    lines = ask("watch", "--rate", "50", "--count", "3", "--json").stdout.splitlines()
    assert [json.loads(line)["unit_id"] for line in lines] == ["A"] * 3


def test_set_reads_back_what_it_set(ask: Ask) -> None:
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
        (("ramp", "5"), "state the time_unit"),
        (("watch", "--rate", "0"), "rate"),
    ],
)
def test_impossible_argument_is_one_sentence(
    ask: Ask, arguments: tuple[str, ...], reason: str
) -> None:
    done = ask(*arguments)
    assert done.returncode == 2
    assert reason in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert done.stdout == ""


def test_gas_is_told_and_chosen(ask: Ask) -> None:
    assert ask("gas").stdout == "N2 (Nitrogen)\n"
    assert json.loads(ask("gas", "Ar", "--json").stdout)["gas"] == "Ar"


def test_tare_that_is_confirmed_is_sent(ask: Ask) -> None:
    reading = json.loads(ask("tare", "flow", "--yes", "--json").stdout)
    assert reading["unit_id"] == "A"


def test_ramp_is_told_and_set(ask: Ask) -> None:
    assert ask("ramp").stdout == "at once\n"
    assert ask("ramp", "50", "--per", "s").stdout == "at most 50 SCCM/s\n"


def test_scan_finds_what_answers(penstock: Command, simulator: Callable[..., Any]) -> None:
    _, (port,) = simulator("B:100", baudrate=BAUD)
    where = ("--bauds", str(BAUD), "--timeout", "2")
    found = penstock("alicat", "scan", port, "--units", "AB", *where, "--json")
    (entry,) = json.loads(found.stdout)
    assert (entry["port"], entry["unit_id"]) == (port, "B")
    nothing = penstock("alicat", "scan", port, "--units", "C", *where)
    assert nothing.returncode == 4
    assert "no instrument answered" in nothing.stderr


def test_port_that_is_not_there_is_one_sentence(penstock: Command) -> None:
    done = penstock("alicat", "read", "/dev/ttyNOWHERE")
    assert done.returncode == 4
    assert "does not exist" in done.stderr
    assert len(done.stderr.splitlines()) == 1
