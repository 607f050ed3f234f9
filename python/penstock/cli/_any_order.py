"""A parser that takes options between positional arguments."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from penstock.cli._help import CommandParser

__all__ = ["AnyOrderParser"]


class AnyOrderParser(CommandParser):
    """Takes ``gas PORT --unit B Ar`` for ``gas PORT Ar --unit B``.

    The argparse of CPython 3.11 takes an optional positional argument for absent as soon as an
    option comes before it, and refuses it afterwards as unknown. Its ``parse_intermixed_args`` does
    not, and is no part of what subparsers call.
    """

    _parsing = False

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[argparse.Namespace, list[str]]:
        if self._parsing or self._subparsers is not None:
            return super().parse_known_args(args, namespace)
        self._parsing = True
        try:
            options, unknown = self.parse_known_intermixed_args(args, namespace)
            if unknown:
                self.error(f"unrecognized arguments: {' '.join(unknown)}")
            return options, unknown
        finally:
            self._parsing = False
