"""Texts that are made from the grammar: an overview, and scripts that complete the command."""

from __future__ import annotations

import argparse
import re
import shutil
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.cli._errors import CommandError, ExitCode

if TYPE_CHECKING:
    from types import ModuleType

COMMANDS_BY_PURPOSE = {
    "Record instruments": ("new", "record", "watch", "note", "alarm", "safe"),
    "Look at recordings": ("dash", "plot", "query", "export", "verify", "recover", "grafana"),
    "Gather from many machines": ("send", "archive"),
    "Ports and instruments": ("ports", "term", "serial", "alicat", "sim"),
    "Serve web applications": ("serve",),
    "This machine": ("demo", "doctor", "log", "completion"),
}
_BEGIN = {
    "penstock demo": "records four simulated instruments, without hardware",
    "penstock new run.toml": "finds the instruments of this machine",
    "penstock serve module:app": "serves a web application",
}
_NAME_WIDTH = 12
_COLUMNS = 80


def overview(commands: argparse._SubParsersAction[Any]) -> str:
    """The text, no wider than the terminal or 80 columns."""
    width = min(shutil.get_terminal_size().columns, _COLUMNS)
    helps = {each.dest: each.help or "" for each in commands._choices_actions}
    lines = ["Penstock: asynchronous I/O, from the kernel to the instrument.", "", "To begin:"]
    lines += _table(_BEGIN, max(map(len, _BEGIN)) + 2, width)
    for purpose, names in COMMANDS_BY_PURPOSE.items():
        lines += ["", f"{purpose}:"]
        lines += _table({name: helps[name] for name in names}, _NAME_WIDTH, width)
    lines += ["", "penstock COMMAND --help lists the options; penstock --help, the exit codes."]
    return "\n".join(lines)


def _table(rows: Mapping[str, str], name_width: int, width: int) -> list[str]:
    lines: list[str] = []
    for name, text in rows.items():
        lines += textwrap.wrap(
            text,
            width,
            initial_indent=f"  {name:{name_width}}",
            subsequent_indent=" " * (name_width + 2),
        )
    return lines


# ``penstock completion SHELL``: a script that completes the command in a shell.
#
# The script is written from the parsers of the command line by shtab, so it knows every command and
# option. It runs nothing of Penstock while it completes.

# The names of arguments that stand for a file or a folder.
_FILES = {"FILE", "run.toml", "PLAN", "PICTURE", "OUT"}
_FOLDERS = {"DIR"}
_DEVICES = {"PORT", "DEVICE", "PORT|URL"}


def run_completion(parser: argparse.ArgumentParser, shell: str) -> int:
    """Print the script that completes the command line of ``parser`` in ``shell``.

    Raises:
        CommandError: if shtab is not installed.
    """
    try:
        import shtab
    except ModuleNotFoundError as error:
        if error.name != "shtab":
            raise
        raise CommandError(
            "completion needs the package shtab; install it with pip install 'penstock[cli]'",
            ExitCode.MISSING_PART,
        ) from error
    from penstock.sim.__main__ import build_parser as build_simulator_parser

    # The simulator parses its own options, so the command line's parser lacks them.
    commands = _commands_of(parser)
    simulator = build_simulator_parser()
    simulator.prog = commands.choices["sim"].prog
    commands.choices["sim"] = simulator
    for each in _parsers(parser):
        _complete_paths(each, shtab)
    script = shtab.complete(parser, shell=shell)
    print(_with_optional_values(script, parser) if shell == "zsh" else script)
    return ExitCode.OK


def _with_optional_values(script: str, parser: argparse.ArgumentParser) -> str:
    """The script for zsh, where an option such as ``--dash [PORT]`` may stand without its value.

    shtab writes ``--dash[help]:PORT:``, after which zsh completes nothing but the value; a second
    colon makes it optional.
    """
    for each in _parsers(parser):
        for action in each._actions:
            if action.nargs == argparse.OPTIONAL and len(action.option_strings) == 1:
                (name,) = action.option_strings
                spec = rf'("{re.escape(name)}\[(?:[^\]\\]|\\.)*\]):(?!:)'
                script = re.sub(spec, r"\1::", script)
    return script


def _commands_of(
    parser: argparse.ArgumentParser,
) -> argparse._SubParsersAction[argparse.ArgumentParser]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return action
    raise LookupError("the parser has no commands")


def _parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Yield the parser and those of its commands, at every depth."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for each in action.choices.values():
                yield from _parsers(each)


def _complete_paths(parser: argparse.ArgumentParser, shtab: ModuleType) -> None:
    for action in parser._actions:
        name = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
        if name in _FOLDERS:
            action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]
        elif action.type not in (None, str, Path):
            continue  # a number, such as that of a network port
        elif name in _FILES or name in _DEVICES:
            action.complete = shtab.FILE  # type: ignore[attr-defined]
