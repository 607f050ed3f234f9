"""``penstock completion SHELL``: a script that completes the command in a shell.

The script is written from the parsers of the command line by shtab, so it knows every command and
option. It runs nothing of Penstock while it completes.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.cli._errors import CommandError, ExitCode

if TYPE_CHECKING:
    from types import ModuleType

__all__ = ["run_completion"]


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
