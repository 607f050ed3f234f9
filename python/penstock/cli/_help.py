"""What all parsers of the command line share: how they print their help."""

from __future__ import annotations

import argparse
from typing import Any

__all__ = ["CommandParser", "HelpFormatter"]


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Keeps the lines of a text that has some, such as a table; fills one that has none."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if "\n" in text.strip():
            return super()._fill_text(text, width, indent)
        return argparse.HelpFormatter._fill_text(self, text, width, indent)


class CommandParser(argparse.ArgumentParser):
    """A parser whose options must be spelled out, with that help; so are its subparsers."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"formatter_class": HelpFormatter, "allow_abbrev": False, **options})
