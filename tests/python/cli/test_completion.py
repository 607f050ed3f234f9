"""``penstock completion SHELL``: the scripts complete commands, options and files."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.cli import main

Command = Callable[..., "subprocess.CompletedProcess[str]"]

# Bash completes by a function that finds the words in COMP_WORDS, and fills COMPREPLY.
IN_BASH = """
. "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
_shtab_penstock; printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    written = subprocess.run(
        [sys.executable, "-m", "penstock.cli", "completion", "bash"],
        stdout=subprocess.PIPE,
        check=True,
    )
    file = tmp_path_factory.mktemp("completion") / "penstock"
    file.write_bytes(written.stdout)
    return file


def completed(script: Path, *words: str, cwd: Path | None = None) -> set[str]:
    command = ["bash", "-c", IN_BASH, "bash", str(script), "penstock", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=cwd)
    return set(done.stdout.split())


def test_bash_completes_commands(script: Path) -> None:
    assert completed(script, "re") == {"record", "recover"}
    assert completed(script, "alicat", "sc") == {"scan"}


def test_bash_completes_options_of_a_command(script: Path) -> None:
    assert completed(script, "record", "--dur") == {"--duration"}
    assert completed(script, "sim", "--fau") == {"--fault", "--fault-log"}


def test_bash_completes_shells_and_files(script: Path, tmp_path: Path) -> None:
    assert completed(script, "completion", "") >= {"bash", "fish", "zsh"}
    (tmp_path / "run.toml").touch()
    (tmp_path / "runs").mkdir()
    assert completed(script, "record", "ru", cwd=tmp_path) == {"run.toml", "runs"}
    assert completed(script, "demo", "--out", "ru", cwd=tmp_path) == {"runs"}


@pytest.mark.parametrize("shell", ["bash", "fish", "zsh"])
def test_script_is_valid_in_its_shell(penstock: Command, shell: str) -> None:
    done = penstock("completion", shell)
    assert done.returncode == 0, done.stderr
    assert "fault-log" in done.stdout
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed, so its script is only written")
    checked = subprocess.run([shell, "-n"], input=done.stdout, text=True, capture_output=True)
    assert (checked.returncode, checked.stderr) == (0, "")


def test_unknown_shell_is_refused_with_those_there_are(penstock: Command) -> None:
    done = penstock("completion", "tcsh")
    assert done.returncode == 2
    assert "choose from bash, fish, zsh" in done.stderr.replace("'", "")


def test_missing_shtab_is_named_with_the_remedy(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert main(["completion", "bash"]) == 7
    assert "pip install 'penstock[cli]'" in capsys.readouterr().err
