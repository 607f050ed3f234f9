"""``penstock completion SHELL``: the scripts complete commands, options and files."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tty
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
IN_FISH = 'source $argv[1]; complete -C "$argv[2]"'
# Zsh completes only in its line editor. Each match passes through compadd, which notes it here.
IN_ZSH = """
PS1=; fpath=("$FOLDER" $fpath)
autoload -U compinit; compinit -u -D
compadd () {
    if [[ ${@[1,(i)(-|--)]} == *-(O|A|D)* ]]; then
        builtin compadd "$@"
        return
    fi
    local -a found; builtin compadd -A found "$@"; print -rl -- $found >> "$FOLDER/matches"
    builtin compadd "$@"
}
"""
SECONDS = 60


def completed_by_bash(script: Path, words: list[str], cwd: Path) -> set[str]:
    command = ["bash", "-c", IN_BASH, "bash", str(script), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=cwd)
    return set(done.stdout.split("\n")) - {""}


def completed_by_fish(script: Path, words: list[str], cwd: Path) -> set[str]:
    command = ["fish", "--no-config", "-c", IN_FISH, str(script), " ".join(words)]
    environment = {**os.environ, "HOME": str(script.parent)}
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, cwd=cwd, env=environment
    )
    return {line.partition("\t")[0].rstrip("/") for line in done.stdout.splitlines()}


def completed_by_zsh(script: Path, words: list[str], cwd: Path) -> set[str]:
    """Type the words and a tabulator into zsh on a terminal."""
    folder = script.parent
    shutil.copyfile(script, folder / "_penstock")
    (folder / "init").write_text(IN_ZSH)
    matches = folder / "matches"
    matches.write_text("")
    terminal, slave = os.openpty()
    tty.setraw(slave)  # what is typed ahead waits for the line editor
    with subprocess.Popen(
        ["zsh", "-f", "-i"],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        cwd=cwd,
        env={**os.environ, "FOLDER": str(folder), "TERM": "dumb"},
        start_new_session=True,
    ) as shell:
        os.close(slave)
        # Ctrl-U discards the line.
        os.write(terminal, f'source "$FOLDER/init"\n{" ".join(words)}\t\x15exit\n'.encode())
        try:
            while os.read(terminal, 4096):
                pass
        except OSError:
            pass  # the shell has ended
        os.close(terminal)
        shell.wait(SECONDS)
    return set(matches.read_text().split("\n")) - {""}


COMPLETED = {"bash": completed_by_bash, "fish": completed_by_fish, "zsh": completed_by_zsh}
Completed = Callable[..., set[str]]


@pytest.fixture(params=list(COMPLETED))
def completed(request: pytest.FixtureRequest, tmp_path: Path) -> Completed:
    """What a shell offers for the last of some words."""
    shell = request.param
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed, so its script is only written")
    written = subprocess.run(
        [sys.executable, "-m", "penstock.cli", "completion", shell],
        stdout=subprocess.PIPE,
        check=True,
    )
    script = tmp_path / "script" / "penstock"
    script.parent.mkdir()
    script.write_bytes(written.stdout)

    def complete(*words: str) -> set[str]:
        return COMPLETED[shell](script, ["penstock", *words], tmp_path)

    return complete


def test_a_shell_completes_commands(completed: Completed) -> None:
    assert completed("re") == {"record", "recover"}
    assert completed("alicat", "sc") == {"scan"}
    assert completed("alicat", "config", "") >= {"save", "diff", "restore"}


def test_a_shell_completes_options_of_a_command(completed: Completed) -> None:
    assert completed("record", "--dur") == {"--duration"}
    assert completed("sim", "--fau") == {"--fault", "--fault-log"}
    assert completed("alicat", "set", "/dev/ttyUSB0", "5", "--bau") == {"--baud"}


def test_an_option_may_follow_one_whose_value_is_optional(completed: Completed) -> None:
    assert completed("demo", "--dash", "--dur") == {"--duration"}


def test_a_shell_completes_shells_and_files(completed: Completed, tmp_path: Path) -> None:
    assert completed("completion", "") >= {"bash", "fish", "zsh"}
    (tmp_path / "run.toml").touch()
    (tmp_path / "runs").mkdir()
    assert completed("record", "ru") == {"run.toml", "runs"}
    assert completed("demo", "--out", "ru") == {"runs"}


def test_a_network_port_is_not_completed_with_files(completed: Completed, tmp_path: Path) -> None:
    (tmp_path / "run.toml").touch()
    assert "run.toml" not in completed("dash", "--port", "ru")


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
