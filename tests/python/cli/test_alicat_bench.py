"""The actions of ``penstock alicat`` at the bench, on a simulated instrument in another process."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.alicat import Commands
from penstock.cli import main
from penstock.cli._alicat.bench_actions import command_names
from penstock.cli._alicat.running import REMEDIES, in_own_words

ROOT = Path(__file__).parents[3]
BAUD = "115200"
#: Words, exit code, and what the output or the error has; in this order on one instrument.
_ACTIONS: tuple[tuple[list[str], int, str], ...] = (
    (["lock", "--assume", "display"], 0, "LCK"),
    (["lock"], 4, "open it with --assume display"),
    (["unlock"], 0, "Mass_Flow"),
    (["hold"], 0, "HLD"),
    (["hold", "--closed"], 2, "repeat it with --yes"),
    (["hold", "--closed", "--yes"], 0, "HLD"),
    (["cancel"], 0, "Mass_Flow"),
    (["exhaust", "--yes"], 4, "--assume multi-valve"),
    (["exhaust", "--yes", "--assume", "multi-valve"], 0, "EXH"),
    (["totalizer"], 0, '"digits": 7'),
    (["totalizer", "reset"], 2, "repeat it with --yes"),
    (["mix", "236"], 2, "a mix needs a name and its gases"),
    (["mix", "236", "Shield", "Ar=x"], 2, "not part of a mix"),
    (["mix", "236", "Shield", "Ar=75", "CO2=25"], 0, '"number": 236'),
    (["gas", "--list"], 0, "Shield"),
    (["gas", "shield"], 0, '"code": 236'),
    (["gas", "N2"], 0, '"code": 8'),
    (["gas", "Foo"], 2, "penstock alicat gas PORT --list"),
    (["mix", "236", "--delete"], 2, "repeat it with --yes"),
    (["mix", "236", "--delete", "--yes"], 0, '"number": 236'),
    (["pid", "--integral", "150"], 2, "repeat it with --yes"),
    (["pid", "--algorithm", "pd2i", "--yes"], 0, '"algorithm": "pd2i"'),
    (["unit", "mass_flow", "SLPM"], 0, '"unit": "SLPM"'),
    (["info"], 0, '"value": 0.5'),
    (["unit", "mass_flow", "SCCM"], 0, '"unit": "SCCM"'),
    (["source"], 0, '"S"'),
    (["raw", "??M*"], 0, "MC-500SCCM-D"),
    (["raw", "NOPE"], 4, "does not accept the command"),
    (["do", "list"], 0, "zero-band"),
    (["do", "zero-band", "zero_band=1.5"], 0, '"zero_band": 1.5'),
    (["do", "zero-band", "colour=1"], 2, "it has zero_band"),
    (["do", "zero-band", "zero_band=x"], 2, "not a valid value of this field"),
    (["do", "nonsense"], 2, "is not a command"),
    (["do", "baud-rate"], 2, "penstock alicat baud"),
    (["do", "delete-mix"], 2, "needs number"),
    (["rename", "B"], 2, "repeat it with --yes"),
    (["baud", "9600"], 2, "repeat it with --yes"),
    (["read", "--timeout", "-1"], 2, "seconds above 0"),
    (["set", "-5"], 2, "add --assume bidirectional"),
)


def test_every_action_does_what_it_says_or_tells_why_not(
    simulator: Callable[..., Any], capfd: pytest.CaptureFixture[str]
) -> None:
    _, (port,) = simulator("A:500", baudrate=int(BAUD))
    wrong = []
    for (action, *words), code, has in _ACTIONS:
        line = ["alicat", action, port, *words, "--baud", BAUD, "--json"]
        line += [] if "--timeout" in words else ["--timeout", "5"]
        capfd.readouterr()
        found = main(line)
        output, errors = capfd.readouterr()
        if found != code or has not in output + errors or (code == 0) != (errors == ""):
            wrong.append((action, words, found, output, errors))
    assert wrong == []


def test_scan_takes_ranges_and_lists_of_unit_ids(
    simulator: Callable[..., Any], capfd: pytest.CaptureFixture[str]
) -> None:
    _, (port,) = simulator("B:100", baudrate=int(BAUD))
    for units, code in (("A-B", 0), ("a,B", 0), ("AB", 0), ("C,A", 4), ("B-A", 2), ("A-9", 2)):
        line = ["alicat", "scan", port, "--units", units, "--bauds", BAUD, "--timeout", "2"]
        assert main(line) == code, (units, capfd.readouterr())


def test_every_command_of_the_catalogue_can_be_named() -> None:
    names = {line.split()[0].upper().replace("-", "_") for line in command_names()}
    assert set(Commands.all()) - names == {
        "BAUD_RATE", "CREATE_MIX", "POLL_DATA", "DATA_FRAME_FORMAT_QUERY",
    }  # fmt: skip


def test_remedies_are_sentences_of_the_library() -> None:
    sources = "".join(
        path.read_text(encoding="utf-8")
        for path in (ROOT / "python" / "penstock" / "alicat").rglob("*.py")
    )
    sentences = re.sub(r"\"\s*\n\s*f?\"", "", sources)
    assert [library for library, _ in REMEDIES if library not in sentences] == []


def test_optional_hardware_is_assumed_by_its_option() -> None:
    sentence = "open it with assume_capabilities=Capability.MULTI_VALVE"
    assert in_own_words(sentence) == "open it with --assume multi-valve"


@pytest.mark.parametrize(
    ("words", "usage"),
    [
        (["alicat", "read", "/dev/x", "--bogus"], "usage: penstock alicat read"),
        (["alicat", "config", "save", "/dev/x", "f", "--bogus"], "penstock alicat config save"),
        (["ports", "--bogus"], "usage: penstock ports"),
        (["sim", "--bogus"], "usage: penstock sim"),
    ],
)
def test_unknown_option_shows_the_usage_of_its_command(
    words: list[str], usage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    assert usage in capsys.readouterr().err


def test_terminal_without_a_degree_sign_gets_another(
    simulator: Callable[..., Any], environment: dict[str, str]
) -> None:
    _, (port,) = simulator("A:500", baudrate=int(BAUD))
    done = subprocess.run(
        [sys.executable, "-m", "penstock.cli", "alicat", "read", port, "--baud", BAUD],
        env={**environment, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "\\xb0C" in done.stdout


def test_reader_that_closes_the_output_ends_the_command_as_a_signal_would(
    simulator: Callable[..., Any], environment: dict[str, str]
) -> None:
    _, (port,) = simulator("A:500", baudrate=int(BAUD))
    watch = subprocess.Popen(
        [
            *(sys.executable, "-m", "penstock.cli", "alicat", "watch", port),
            *("--baud", BAUD, "--rate", "50", "--json"),
        ],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert watch.stdout is not None and watch.stderr is not None
    assert json.loads(watch.stdout.readline())["unit_id"] == "A"
    watch.stdout.close()
    assert watch.wait(60) == 141
    assert watch.stderr.read() == ""
    watch.stderr.close()
