"""What ``penstock`` alone prints: where to begin, and the commands by what a user wants."""

from __future__ import annotations

import argparse
import shutil
import textwrap
from collections.abc import Mapping
from typing import Any

__all__ = ["COMMANDS_BY_PURPOSE", "overview"]

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
    lines += ["", "penstock COMMAND --help tells the options; penstock --help, the exit codes."]
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
