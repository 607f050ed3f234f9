"""The command line itself: help, version, wrong options."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from penstock.cli._grammar_texts import COMMANDS_BY_PURPOSE, overview
from penstock.cli._parser import build_parser

Command = Callable[..., "subprocess.CompletedProcess[str]"]


def test_help_names_every_command_and_exit_code(penstock: Command) -> None:
    done = penstock("--help")
    assert done.returncode == 0
    for word in ("demo", "record", "doctor", "sim", "--version", "exit codes", "130"):
        assert word in done.stdout
    assert done.stderr == ""


@pytest.mark.parametrize("command", ["demo", "record"])
def test_help_of_a_command_names_its_options(penstock: Command, command: str) -> None:
    done = penstock(command, "--help")
    assert done.returncode == 0
    for word in ("--duration", "--out", "--overwrite", "--no-plot", "--json"):
        assert word in done.stdout


def test_the_overview_has_every_command_once_and_fits_the_terminal(
    penstock: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [name for names in COMMANDS_BY_PURPOSE.values() for name in names]
    assert sorted(names) == sorted(build_parser().commands.choices)
    monkeypatch.setenv("COLUMNS", "50")
    lines = overview(build_parser().commands).splitlines()
    assert [line for line in lines if len(line) > 50 and "--help" not in line] == [lines[0]]
    for name in names:
        assert any(line.startswith(f"  {name} ") for line in lines)


def test_only_the_command_itself_lists_the_exit_codes_of_all() -> None:
    for parser in _with_subcommands(build_parser()):
        listed = "verify found something wrong" in parser.format_help()
        assert listed == (parser.prog == "penstock"), parser.prog


def _with_subcommands(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for each in action.choices.values():
                if isinstance(each, argparse.ArgumentParser):  # built
                    yield from _with_subcommands(each)


def test_every_help_fits_a_terminal_of_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    wide = {
        (parser.prog, line)
        for parser in _with_subcommands(build_parser())
        for line in parser.format_help().splitlines()
        if len(line) > 80
    }
    assert wide == set()


def test_the_chosen_command_alone_is_built_and_as_in_the_whole_grammar() -> None:
    whole = {parser.prog: parser for parser in _with_subcommands(build_parser())}
    assert len(whole) > 50
    for prog, parser in whole.items():
        words = prog.split()[1:]
        chosen = build_parser(["-h", *words, "--flag", "word"])
        built = list(_with_subcommands(chosen))
        if not parser._subparsers and "config" not in words:  # its three actions come together
            assert [each.prog for each in built] == [
                " ".join(prog.split()[:n]) for n in range(1, len(words) + 2)
            ]
        assert (
            next(each for each in built if each.prog == prog).format_help() == parser.format_help()
        )
    assert [each.prog for each in _with_subcommands(build_parser([]))] == ["penstock"]


def test_version_is_one_line(penstock: Command) -> None:
    done = penstock("--version")
    assert done.returncode == 0
    name, number = done.stdout.split()
    assert name == "penstock"
    assert number[0].isdigit()


def test_simulator_parses_its_own_options(penstock: Command) -> None:
    done = penstock("sim", "--help")
    assert done.returncode == 0
    assert "--bus" in done.stdout
    assert penstock("sim", "--bus", "nonsense").returncode == 2


def test_help_imports_no_slow_modules(environment: dict[str, str]) -> None:
    code = (
        "import sys, penstock.cli\n"
        "assert penstock.cli.main(['--help']) == 0\n"
        "slow = {'anyio', 'asyncio', 'rich', 'matplotlib', 'numpy', 'pyarrow'}\n"
        "print(sorted(slow & set(sys.modules)))"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "COMMAND --help"),
        ([], "record the instruments that"),
        (["demoo"], "invalid choice"),
        (["recrod", "run.toml"], "did you mean record?"),
        (["alicat", "reed", "/dev/ttyUSB0"], "did you mean read?"),
        (["log", "chek", "orders.log"], "did you mean check?"),
        (["demo", "--duration", "-1"], "'-1' is not a time in seconds"),
        (["demo", "--duration", "nan"], "'nan' is not a time in seconds"),
        (["demo", "--rate", "fast"], "'fast' is not a rate in hertz"),
        (["demo", "--rate", "0"], "above 0 and up to 1000"),
        (["demo", "--out", ""], "not the name of a folder"),
        (["record"], "run.toml"),
        (["demo", "--dur", "3"], "unrecognized arguments"),
    ],
)
def test_wrong_option_is_refused_with_code_2(
    penstock: Command, arguments: list[str], words: str
) -> None:
    done = penstock(*arguments)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "name", "values"),
    [
        (["new", "run.toml", "--units", "A-F", "p", "q"], "ports", ["p", "q"]),
        (["verify", "a.csv", "--deep", "b.csv"], "files", ["a.csv", "b.csv"]),
        (["note", "run-1", "valve", "--device", "fuel", "opened"], "text", ["valve", "opened"]),
    ],
)
def test_a_list_of_words_goes_on_behind_an_option(
    arguments: list[str], name: str, values: list[str]
) -> None:
    options = build_parser(arguments).parse_args(arguments)
    assert getattr(options, name) == values


def test_a_word_too_many_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["verify", "a.csv", "--deeep", "b.csv"], ["export", "a", "b", "--wide", "c"]):
        with pytest.raises(SystemExit):
            build_parser(arguments).parse_args(arguments)
        assert "unrecognized arguments" in capsys.readouterr().err
