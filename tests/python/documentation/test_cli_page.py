"""The commands, files and messages of docs/cli.md, with simulated instruments."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from string import ascii_uppercase
from typing import NamedTuple

import pytest

from penstock.cli import main
from tests.python.conftest import CORE_MISSING
from tests.python.documentation.page_steps import DOCS, blocks, environment, simulated

PAGE = (DOCS / "cli.md").read_text(encoding="utf-8")
(RUN_TOML,) = [block.text for block in blocks(DOCS / "cli.md") if block.language == "toml"]
# A simulator is a process, which a busy machine delays.
PATIENT_TOML = RUN_TOML.replace('port = "', 'timeout = 10\nport = "')
# Without comments, and with the lines that continue a synopsis.
LINES = [
    " ".join(re.sub(r" +# .*", "", line).split())
    for line in re.findall(r"^    ((?:penstock|echo) .*(?:\n {8,}\[.*)*)$", PAGE, re.M)
]
COMMANDS = re.findall(r"^    penstock (\w+) {2,}\w", PAGE, re.M)
SYNOPSES = [line for line in LINES if "[" in line]
ALICAT = [line for line in LINES if line.startswith("penstock alicat") and "[" not in line][1:]
TERM = [line for line in LINES if "penstock term" in line][1:]
SIM = [line for line in LINES if line.startswith("penstock sim --")]
MESSAGES = re.findall(r"^    (penstock: .*)$", PAGE, re.M)

pytestmark = pytest.mark.skipif(
    CORE_MISSING, reason="penstock._core is not built (run 'make build')"
)

# Everything that a scan for Modbus numbers 1 to 20 asks answers at once.
UNIT = '[[bus.unit]]\nid = "{}"\nfull_scale = 5\n'
MODBUS_UNITS = map(UNIT.format, ascii_uppercase[:20])
FLEET = f"""
[[bus]]
baudrate = 115200
[[bus.unit]]
id = "A"
full_scale = 500
tau = 0
noise = 0

[[bus]]
protocol = "modbus-rtu"
baudrate = 115200
{"".join(MODBUS_UNITS)}
"""
GATEWAY = """
[[bus]]
protocol = "modbus-tcp"
[[bus.unit]]
id = "A"
family = "coda-meter"
full_scale = 100
number = 7
"""


class Instruments(NamedTuple):
    ascii: str
    modbus: str
    gateway: str


@pytest.fixture
def instruments(tmp_path: Path) -> Iterator[Instruments]:
    (tmp_path / "fleet.toml").write_text(FLEET)
    (tmp_path / "gateway.toml").write_text(GATEWAY)
    with ExitStack() as stack:
        line, modbus = stack.enter_context(simulated("--fleet", str(tmp_path / "fleet.toml")))
        (gateway,) = stack.enter_context(
            simulated("--fleet", str(tmp_path / "gateway.toml"), "--tcp", "0")
        )
        yield Instruments(line["path"], modbus["path"], f"tcp://127.0.0.1:{gateway['tcp']}")


def test_the_page_has_what_is_run_here() -> None:
    assert len(COMMANDS) >= 14
    assert len(SYNOPSES) >= 9
    assert len(ALICAT) >= 15
    assert len(TERM) == 3
    assert len(SIM) == 2
    assert len(MESSAGES) == 2


def test_the_list_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    known = re.findall(r"^    (\w+) ", capsys.readouterr().out, re.M)
    assert set(COMMANDS) == set(known) - {"completion"}  # which the text below the list names


@pytest.mark.parametrize("synopsis", SYNOPSES)
def test_a_command_has_the_options_of_its_synopsis(
    synopsis: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command = re.match(r"penstock((?: [a-z]+)+)(?= |$)", synopsis)
    assert command is not None
    assert main([*command[1].split(), "--help"]) == 0
    known = set(re.findall(r"--[\w-]+", capsys.readouterr().out))
    assert set(re.findall(r"--[\w-]+", synopsis)) - known == set()


@pytest.mark.parametrize("command", ["demo", "record", "watch", "dash", "verify", "export", "plot"])
def test_a_synopsis_has_every_option_of_its_command(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (synopsis,) = [line for line in SYNOPSES if line.startswith(f"penstock {command} ")]
    assert main([command, "--help"]) == 0
    known = set(re.findall(r"^ +(--[\w-]+)", capsys.readouterr().out, re.M))
    # The config may be named by an option too, which the text says.
    assert known - {"--config"} == set(re.findall(r"--[\w-]+", synopsis))


def test_the_commands_for_one_instrument_work_one_after_the_other(
    instruments: Instruments,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    for line in ALICAT:
        port = instruments.modbus if "--modbus" in line else instruments.ascii
        words = shlex.split(
            line.replace("/dev/ttyUSB0", port).replace("tcp://gateway:502", instruments.gateway)
        )[1:]
        if "scan" in words:
            words += [port, "--bauds", "19200"]
        if "watch" in words:
            words += ["--count", "2"]
        code = main([*words, "--timeout", "5"])
        printed = capsys.readouterr()
        # This controller is not bidirectional, so it refuses what the option lets through.
        expected = 4 if "-5" in words else 0
        assert code == expected, f"{line}\n{printed.out}{printed.err}"
        assert printed.out if expected == 0 else printed.err, line


def test_terminals_end_with_their_input(tmp_path: Path) -> None:
    with simulated("--bus", "A:5", "--bus", "B:5", "--bus", "C:5", "--rfc2217", "0") as buses:
        ports = iter(buses)
        running = []
        for line in TERM:
            bus = next(ports)
            line = line.replace("/dev/ttyUSB0", bus["path"])
            line = line.replace("rfc2217://lab:2217", f"rfc2217://127.0.0.1:{bus['rfc2217']}")
            folder = tmp_path / bus["name"]
            folder.mkdir()
            running.append(
                subprocess.Popen(
                    ["sh", "-c", line],
                    cwd=folder,
                    env=environment(folder, dict(os.environ)),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                )
            )
        for line, process in zip(TERM, running, strict=True):
            output, errors = process.communicate(timeout=60)
            assert process.returncode == 0, f"{line}\n{output}{errors}"


def test_simulators_run_until_their_input_ends(tmp_path: Path) -> None:
    fleet, plan = (block.text for block in blocks(DOCS / "sim.md") if block.language == "toml")
    (tmp_path / "fleet.toml").write_text(fleet)
    (tmp_path / "plan.toml").write_text(plan)
    variables = environment(tmp_path, dict(os.environ))
    for line in SIM:
        done = subprocess.run(
            ["sh", "-c", line.replace("--tcp 4000", "--tcp 0")],
            cwd=tmp_path,
            env=variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, ""), line
        assert '"buses"' in done.stdout, line


def test_the_configuration_file_records_and_its_files_can_be_used(
    instruments: Instruments,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("run.toml").write_text(PATIENT_TOML.replace("/dev/ttyUSB0", instruments.ascii))
    recovering = [line for line in LINES if line.startswith("penstock recover argon")]
    assert len(recovering) == 2
    recording = "argon-run/samples.parquet"
    for line in (
        "penstock record run.toml --duration 2 --no-plot",
        *recovering,
        f"penstock export {recording} out.csv --every 1 --method mean",
        f"penstock export {recording} litres.csv --unit Mass_Flow=SLPM --standard 25C,14.696psia",
        f"penstock plot {recording} --out flow.svg",
        "penstock watch run.toml --duration 0.5",
    ):
        code = main(shlex.split(line)[1:])
        printed = capsys.readouterr()
        assert code == 0, f"{line}\n{printed.out}{printed.err}"
    assert Path("out.csv").stat().st_size and Path("flow.svg").stat().st_size


def test_a_misspelt_key_is_reported_as_the_page_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("run.toml").write_text(RUN_TOML.replace("rate_hz", "rat_hz"))
    assert main(["record", "run.toml"]) == 3
    assert capsys.readouterr().err == f"{MESSAGES[0]}\n"


def test_another_unit_id_is_reported_as_the_page_shows(
    instruments: Instruments,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    # Unit A is the first that is looked for, and may be late.
    monkeypatch.setattr("penstock.cli._recording.instruments._SEARCH_TIMEOUT", 20)
    mine = 'name = "argon"\nunit_id = "B"\nrequired = true'
    asked = RUN_TOML.replace('name = "argon"', mine)
    Path("run.toml").write_text(asked.replace("/dev/ttyUSB0", instruments.ascii))
    assert main(["record", "run.toml"]) == 4
    assert capsys.readouterr().err == MESSAGES[1].replace("/dev/ttyUSB0", instruments.ascii) + "\n"
