"""The examples of docs/sim.md are programs, and its files are fleets and fault plans."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import penstock.sim

ROOT = Path(__file__).resolve().parents[3]
EXAMPLE = re.compile(
    r"^<!-- example: ([\w-]+) -->\n+```python\n(.*?)^```\n\n```text\n(.*?)^```\n",
    re.MULTILINE | re.DOTALL,
)
PAGE = (ROOT / "docs" / "sim.md").read_text(encoding="utf-8")
EXAMPLES = EXAMPLE.findall(PAGE)


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.M | re.S)


COMMANDS = [line for block in blocks("sh") for line in block.splitlines()]


def simulator(arguments: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the simulator until the end of its input, which is empty."""
    return subprocess.run(
        [sys.executable, "-m", "penstock.sim", *arguments],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT / "python")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_page_has_its_examples() -> None:
    assert [name for name, _, _ in EXAMPLES] == ["memory", "faults"]


@pytest.mark.parametrize(("name", "code", "output"), EXAMPLES)
def test_an_example_prints_what_the_page_shows(name: str, code: str, output: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env=os.environ | {"PYTHONPATH": str(ROOT / "python")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stderr == "", name
    assert done.stdout == output, name


@pytest.mark.parametrize("command", [line for line in COMMANDS if line.startswith("penstock")])
def test_a_command_starts_simulators(command: str, tmp_path: Path) -> None:
    words = shlex.split(command.replace("--tcp 5020", "--tcp 0"), comments=True)
    done = simulator(words[2:], tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    ready = json.loads(done.stdout)
    if command == COMMANDS[0]:
        (shown,) = map(json.loads, blocks("json"))
        for bus in (*ready["buses"], *shown["buses"]):
            del bus["path"]
        assert ready == shown


def test_every_other_command_is_a_test_of_its_own() -> None:
    (other,) = (line for line in COMMANDS if not line.startswith("penstock"))
    assert other.startswith("python tests/python/sim/poll_run.py")  # test_poll_run.py


def test_the_fleet_and_the_fault_plan_are_served(tmp_path: Path) -> None:
    fleet, plan = blocks("toml")
    (tmp_path / "fleet.toml").write_text(fleet)
    (tmp_path / "plan.toml").write_text(plan)
    done = simulator(["--fleet", "fleet.toml", "--fault", "plan.toml"], tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    (bus,) = json.loads(done.stdout)["buses"]
    assert (bus["name"], bus["units"]) == ("gas", ["@", "P"])  # A is streaming


def test_the_modbus_line_makes_a_bus() -> None:
    (line,) = (block for block in blocks("python") if block.startswith("bus ="))
    exec(line, vars(penstock.sim).copy())


def test_a_misspelt_key_is_reported_as_the_page_shows(tmp_path: Path) -> None:
    (message,) = re.findall(r"^    (penstock.sim: .*)$", PAGE, re.M)
    (tmp_path / "fleet.toml").write_text(blocks("toml")[0].replace("supply", "suply"))
    done = simulator(["--fleet", "fleet.toml"], tmp_path)
    assert (done.returncode, done.stderr) == (2, f"{message}\n")
