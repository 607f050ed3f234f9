"""``penstock alicat --modbus`` in a subprocess, with simulated instruments in another process."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from penstock.alicat.modbus import FAMILIES
from penstock.cli._alicat.modbus_families import MODBUS_FAMILIES

Command = Callable[..., "subprocess.CompletedProcess[str]"]

FLEET = """\
[[bus]]
protocol = "modbus-rtu"
baudrate = 115200

[[bus.unit]]
id = "A"
full_scale = 500
tau = 0

[[bus.unit]]
id = "B"
family = "coda-meter"
full_scale = 100
supply = 10
tau = 0

[[bus.unit]]
id = "C"
family = "basis-controller"
full_scale = 100
serial = "B4711"
"""
LINE = ("--modbus", "rtu", "--baud", "115200", "--timeout", "5")


@contextmanager
def simulated(*arguments: str) -> Iterator[dict[str, object]]:
    with subprocess.Popen(
        [sys.executable, "-m", "penstock.sim", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            yield json.loads(process.stdout.readline())["buses"][0]
        finally:
            process.kill()


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    fleet = tmp_path_factory.mktemp("modbus") / "fleet.toml"
    fleet.write_text(FLEET, encoding="utf-8")
    with simulated("--fleet", str(fleet)) as bus:
        yield str(bus["path"])


def test_controller_is_read_and_set(penstock: Command, port: str) -> None:
    units = ("--units", "mass_flow=SCCM,mass_flow_setpt=SCCM")
    done = penstock("alicat", "set", port, "120", "--in", "SCCM", *LINE, *units, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["requested"] == 120.0
    reading = json.loads(penstock("alicat", "read", port, *LINE, *units, "--json").stdout)
    assert (reading["unit_id"], reading["Mass_Flow"]) == ("1", 120.0)
    assert reading["units"] == {"Mass_Flow": "SCCM", "Mass_Flow_Setpt": "SCCM"}
    assert penstock("alicat", "gas", port, "Ar", *LINE).stdout.startswith("Ar")
    tared = penstock("alicat", "tare", port, "flow", "--yes", *LINE, "--json")
    assert json.loads(tared.stdout)["Mass_Flow"] == 0.0


def test_other_families_are_read(penstock: Command, port: str) -> None:
    coda = ("--unit", "2", "--family", "coda-meter")
    assert "600.0 g/h" in penstock("alicat", "read", port, *LINE, *coda).stdout
    basis = ("--unit", "3", "--family", "basis-controller", "--decimals", "1")
    info = json.loads(penstock("alicat", "info", port, *LINE, *basis, "--json").stdout)
    assert info["serial"] == "B4711"


def test_modbus_tcp_is_read(penstock: Command) -> None:
    with simulated("--bus", "A:500", "--protocol", "modbus-tcp", "--tcp", "0") as bus:
        where = f"tcp://127.0.0.1:{bus['tcp']}"
        options = ("--modbus", "tcp", "--timeout", "5", "--json")
        lines = penstock("alicat", "watch", where, "--rate", "50", "--count", "2", *options)
        assert [json.loads(line)["Gas"] for line in lines.stdout.splitlines()] == ["N2", "N2"]


def test_scan_finds_units_and_their_families(penstock: Command, port: str) -> None:
    line = ("--modbus", "rtu", "--bauds", "115200", "--timeout", "5")
    done = penstock("alicat", "scan", port, *line, "--units", "1-3", "--json")
    assert done.returncode == 0, done.stderr
    assert [(entry["unit_id"], entry["family"]) for entry in json.loads(done.stdout)] == [
        ("1", "mass-flow-controller"),
        ("2", "coda-meter"),
        ("3", "basis-controller"),
    ]
    line = ("--modbus", "rtu", "--bauds", "115200", "--timeout", "0.1")
    nobody = penstock("alicat", "scan", port, *line, "--units", "9")
    assert (nobody.returncode, nobody.stdout) == (4, "")
    assert "unit 9 on" in nobody.stderr
    assert "--units 1-20" in nobody.stderr


def test_devices_of_a_run_are_recorded(penstock: Command, port: str, tmp_path: Path) -> None:
    common = f'port = "{port}"\nbaudrate = 115200\ntimeout = 5\nprotocol = "modbus-rtu"\n'
    run = tmp_path / "run.toml"
    run.write_text(
        f'''[record]
rate_hz = 20
duration = 2
formats = ["jsonl"]
out = "{tmp_path / "out"}"
[[device]]
name = "fuel"
{common}units = {{ mass_flow = "SCCM" }}
[[device.setpoint]]
at = 0
value = 75
[[device]]
name = "oil"
number = 2
family = "coda-meter"
{common}''',
        encoding="utf-8",
    )
    done = penstock("record", str(run), "--json")
    assert done.returncode == 0, done.stderr
    lines = (tmp_path / "out" / "samples.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    assert {row["Mass_Flow"] for row in rows if row.get("device") == "oil"} >= {600.0}
    reading = json.loads(penstock("alicat", "read", port, *LINE, "--json").stdout)
    assert reading["Mass_Flow_Setpt"] == 75


def test_families_of_the_parser_are_those_of_the_library() -> None:
    assert MODBUS_FAMILIES == FAMILIES


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--modbus", "rtu", "--units", "A"), "write 1-20, or 1,2,7"),
        (("--modbus", "rtu", "--units", "5-1"), "write 1-20, or 1,2,7"),
        (("--modbus", "rtu", "--units", "0"), "0 is not a Modbus unit number"),
        (("--modbus", "tcp"), "needs the addresses of the servers"),
    ],
)
def test_impossible_scans_are_refused(
    penstock: Command, arguments: tuple[str, ...], sentence: str
) -> None:
    done = penstock("alicat", "scan", *arguments)
    assert sentence in done.stderr
    assert (done.returncode, len(done.stderr.splitlines()), done.stdout) == (2, 1, "")


@pytest.mark.parametrize(
    ("arguments", "sentence", "code"),
    [
        (("ramp", "{port}", *LINE), "over Modbus, the actions are info, read, watch, set", 2),
        (("read", "{port}", *LINE, "--unit", "B"), "'B' is not a Modbus number", 2),
        (("read", "{port}", *LINE, "--unit", "300"), "300 is not a Modbus unit number", 2),
        (("read", "{port}", *LINE, "--units", "SCCM"), "write mass_flow=SCCM", 2),
        (("read", "{port}", *LINE, "--units", "flow=SCCM"), "flow", 2),
        (
            ("read", "{port}", *LINE, "--family", "basis-meter"),
            "needs the decimal places of its flow",
            2,
        ),
        (("read", "{port}", *LINE, "--decimals", "1"), "leave them out", 2),
        (("gas", "{port}", "Ar", "--save", *LINE), "--save is not available over Modbus", 2),
        (("read", "{port}", "--units", "mass_flow=SCCM"), "add --modbus rtu", 2),
        (("read", "{port}", "--family", "coda-meter"), "add --modbus rtu", 2),
        (
            ("set", "{port}", "1", *LINE, "--family", "mass-flow-meter"),
            "does not take a setpoint",
            2,
        ),
        (("set", "{port}", "600", *LINE), "Modbus exception 3", 4),
    ],
)
def test_impossible_requests_are_refused_in_one_sentence(
    penstock: Command, port: str, arguments: tuple[str, ...], sentence: str, code: int
) -> None:
    done = penstock("alicat", *(word.format(port=port) for word in arguments))
    assert sentence in done.stderr
    assert (done.returncode, len(done.stderr.splitlines()), done.stdout) == (code, 1, "")
