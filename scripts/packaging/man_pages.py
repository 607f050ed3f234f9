"""Writes a manual page for ``penstock`` and for each of its commands, from the parsers.

``man_pages.py FOLDER`` writes ``penstock.1``, ``penstock-record.1``, ``penstock-alicat-set.1`` and
so on, for ``man -l FILE`` or a folder ``man1`` of the search path.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from penstock import __version__
from penstock.cli._parser import build_parser

NO_DATE = ""  # the same sources give the same pages
COLUMNS = "80"


def escaped(text: str) -> str:
    """The text as roff prints it unchanged, whatever its lines begin with."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^(?=[.'])", "\\\\&", text, flags=re.M)


def commands_of(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The commands of a parser by name; none for a command without any of its own."""
    found: dict[str, argparse.ArgumentParser] = {}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            found |= action.choices
    return found


def pages(parser: argparse.ArgumentParser, summary: str) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of the page of a parser, and of those below it."""
    name = parser.prog.replace(" ", "-")
    yield name, page(parser, name, summary)
    summaries = {
        each.dest: each.help or ""
        for action in parser._actions
        if isinstance(action, argparse._SubParsersAction)
        for each in action._choices_actions
    }
    for command, below in commands_of(parser).items():
        yield from pages(below, summaries[command])


def page(parser: argparse.ArgumentParser, name: str, summary: str) -> str:
    """The page of one command."""
    lines = [
        f'.TH "{name.upper()}" "1" "{NO_DATE}" "Penstock {__version__}" "Penstock"',
        *(".SH NAME", f"{escaped(name)} \\- {escaped(summary)}"),
        *(".SH SYNOPSIS", ".nf", escaped(usage(parser)), ".fi"),
    ]
    if parser.description:
        lines += [".SH DESCRIPTION", escaped(" ".join(parser.description.split()))]
    for group in parser._action_groups:
        entries = [entry for action in group._group_actions for entry in entry_of(parser, action)]
        if entries:
            lines += [f".SH {escaped((group.title or 'options').upper())}", *entries]
    if parser.epilog:
        title, _, text = parser.epilog.partition("\n")
        lines += [f".SH {escaped(title.rstrip(':').upper())}", ".nf", escaped(text.rstrip()), ".fi"]
    below = [each.prog.replace(" ", "-") for each in commands_of(parser).values()]
    above = name.rpartition("-")[0]
    others = [*([above] if above else []), *below]
    if others:
        lines += [".SH SEE ALSO", ",\n".join(f"\\fB{escaped(each)}\\fR(1)" for each in others)]
    return "\n".join(lines) + "\n"


def usage(parser: argparse.ArgumentParser) -> str:
    """The usage, in lines as argparse breaks them."""
    return parser.format_usage().removeprefix("usage: ").rstrip()


def entry_of(parser: argparse.ArgumentParser, action: argparse.Action) -> list[str]:
    """The lines about one argument; none for one that help does not show."""
    if action.help is argparse.SUPPRESS:
        return []
    if isinstance(action, argparse._SubParsersAction):
        return [
            line
            for each in action._choices_actions
            for line in (".TP", f"\\fB{escaped(each.dest)}\\fR", escaped(each.help or ""))
        ]
    formatter = parser._get_formatter()
    invocation = formatter._format_action_invocation(action)
    text = formatter._expand_help(action) if action.help else ""
    return [".TP", f"\\fB{escaped(invocation)}\\fR", escaped(" ".join(text.split()))]


def main(folder: Path) -> None:
    """Write the pages and print how many there are."""
    folder.mkdir(parents=True, exist_ok=True)
    count = 0
    os.environ["COLUMNS"] = COLUMNS  # where argparse breaks the lines of a usage
    for name, text in pages(build_parser(), "record and control serial instruments"):
        (folder / f"{name}.1").write_text(text)
        count += 1
    print(f"{count} manual pages in {folder}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: man_pages.py FOLDER")
    main(Path(sys.argv[1]))
