"""Every ``penstock alicat`` action on every simulated family: done, or refused in a sentence."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.cli import main
from penstock.sim._fleet import FAMILIES

from .conftest import ENVIRONMENT

BAUD = "921600"
FLOW = ["mass-flow-controller", "mass-flow-meter", "basis-controller", "basis-meter"]
CONTROLLERS = [name for name in FAMILIES if name.endswith("controller")]
BASIS = [name for name in FAMILIES if name.startswith("basis")]
PRESSURE = [name for name in FAMILIES if name.startswith("pressure")]
TEXT = [name for name in FAMILIES if name not in BASIS]
RAMPED = [name for name in CONTROLLERS if name not in BASIS]
#: Action with its arguments, and the families that have it.
ACTIONS: tuple[tuple[str, list[str] | tuple[str, ...]], ...] = (
    ("info", FAMILIES),
    ("read", FAMILIES),
    ("watch --rate 200 --count 2", FAMILIES),
    ("set 1", CONTROLLERS),
    ("gas", FLOW),
    ("gas Ar", FLOW),
    ("tare flow --yes", [name for name in FAMILIES if name not in PRESSURE]),
    ("tare gauge --yes", TEXT),
    ("tare absolute --yes --assume tareable-absolute-pressure", TEXT),
    ("ramp", RAMPED),
    ("ramp 5 --per s", RAMPED),
    ("batch", [name for name in CONTROLLERS if name not in PRESSURE]),
    ("batch 3", [name for name in CONTROLLERS if name not in PRESSURE]),
    ("registers 46 21", TEXT),
    ("registers 21=100 --yes", TEXT),
    ("config save FILE --overwrite", FAMILIES),
    ("config diff FILE", FAMILIES),
    ("config restore FILE --yes", FAMILIES),
)


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a port for each family, which has its name."""
    folder = tmp_path_factory.mktemp("fleet")
    fleet = folder / "fleet.toml"
    fleet.write_text(
        "".join(
            f'[[bus]]\nname = "{family}"\nbaudrate = {BAUD}\nturnaround = 0.0\n'
            f'[[bus.unit]]\nid = "A"\nfamily = "{family}"\nfull_scale = 100\n'
            for family in FAMILIES
        )
    )
    command = [sys.executable, "-m", "penstock.sim", "--fleet", str(fleet), "--link", str(folder)]
    with subprocess.Popen(
        command, env=ENVIRONMENT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield folder
        process.kill()


@pytest.fixture
def run(ports: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """``penstock alicat`` on a family's port; exit code, output and errors."""

    def call(family: str, words: str) -> tuple[int, str, str]:
        action, *arguments = [
            str(tmp_path / "settings.json") if word == "FILE" else word for word in words.split()
        ]
        actions = [action, arguments.pop(0)] if action == "config" else [action]
        line = ["--baud", BAUD, "--timeout", "1.5" if family in BASIS else "5", "--json"]
        code = main(["alicat", *actions, str(ports / family), *arguments, *line])
        output = capsys.readouterr()
        return code, output.out, output.err

    return call


#: A BASIS instrument is opened after it has left two questions unanswered, so a few must do.
OF_BASIS = ("read", "set 1", "gas Ar", "tare gauge --yes", "batch 3")


@pytest.mark.parametrize("family", FAMILIES)
def test_action_is_done_or_refused_in_a_sentence(family: str, run: Callable[..., Any]) -> None:
    for words, families in ACTIONS:
        if family in BASIS and words not in OF_BASIS:
            continue
        code, output, errors = run(family, words)
        done = family in families
        assert (words, code == 0) == (words, done), errors
        assert (words, len(errors.splitlines())) == (words, 0 if done else 1)
        assert "None" not in errors
        if not done:
            assert (words, output) == (words, "")
            continue
        answers = [
            json.loads(text) for text in (output.splitlines() if "watch" in words else [output])
        ]
        assert len(answers) == (2 if "watch" in words else 1)
        if words.startswith("config") and "save" not in words:
            assert (words, answers) == (words, [{}])
        elif words == "set 1":
            assert answers[0]["accepted"] is True


def test_scan_finds_every_family_that_tells_its_model(
    ports: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    places = [str(ports / family) for family in TEXT]
    assert main(["alicat", "scan", *places, "--bauds", BAUD, "--timeout", "5", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [entry["port"] for entry in found] == places
    kinds = [entry["kind"].removeprefix("flow_").removeprefix("pressure_") for entry in found]
    assert kinds == [family.rpartition("-")[2] for family in TEXT]


def test_unknown_hardware_is_refused_with_the_names(
    ports: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["alicat", "read", str(ports / FAMILIES[0]), "--assume", "wings"]) == 2
    assert "bidirectional" in capsys.readouterr().err


def test_malformed_setting_is_refused_before_anything_is_sent(
    run: Callable[..., Any], tmp_path: Path
) -> None:
    family = "mass-flow-controller"
    run(family, "config save FILE --overwrite")
    path = tmp_path / "settings.json"
    document = json.loads(path.read_text())
    document["settings"]["gas"] = {"code": 1, "label": "Ar"}
    document["settings"]["ramp rate"] = {}
    path.write_text(json.dumps(document))
    code, output, errors = run(family, "config restore FILE --yes")
    assert (code, output) == (2, "")
    assert "'ramp rate' is not what an instrument can be set to" in errors
    document["settings"]["ramp rate"] = {"max_ramp": "fast", "time_unit": 4}
    del document["settings"]["gas"]
    path.write_text(json.dumps(document))
    code, output, errors = run(family, "config restore FILE --yes")
    assert (code, output) == (2, "")
    assert len(errors.splitlines()) == 1
