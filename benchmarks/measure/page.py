"""What a page is, and what it hands back.

A page is a module of ``benchmarks.pages`` with

- ``SUMMARY``: one line, for ``--help`` and as the page's title;
- ``add_options(parser)``: its own options; one that differs from its default narrows the page, and
  a narrowed page is printed but not published;
- ``measure(options, cores, say)``: the measurement itself, a :class:`Report`.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from benchmarks.measure.affinity import Cores
from benchmarks.measure.plots import Chart

Say = Callable[[str], None]


@dataclass
class Report:
    """A measured page.

    Attributes:
        results: everything measured, ready for JSON.
        markdown: the tables that the documentation shows.
        charts: plots by file stem.
        failures: what went wrong with Penstock itself; a peer's troubles are part of the results.
    """

    results: dict[str, object]
    markdown: str
    charts: dict[str, Chart] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)


class Page(Protocol):
    """The shape of a page's module."""

    SUMMARY: str

    def add_options(self, parser: argparse.ArgumentParser) -> None: ...

    def measure(self, options: argparse.Namespace, cores: Cores, say: Say) -> Report: ...
