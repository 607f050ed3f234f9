"""The interface of a page, and its result.

A page is a module of ``benchmarks.pages`` with

- ``SUMMARY``: one line, for ``--help`` and as the page's title;
- ``add_options(parser)``: its own options; one that differs from its default narrows the page, and
  a narrowed page is printed but not published;
- ``COSTS``: its figures for what an operation costs, if it has such figures; two builds are
  compared by the first that a cell holds;
- ``COMPARISON_OPTIONS``: the options with which two builds are compared, so that 12 pairs of every
  row take at most 4 minutes;
- ``measure(options, cores, say)``: the measurement itself, a :class:`Report`.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from benchmarks.measure.affinity import Cores
from benchmarks.measure.cost_ratios import Cost
from benchmarks.measure.plots import Chart

Say = Callable[[str], None]


@dataclass
class Report:
    """A measured page.

    Attributes:
        results: all measurements as JSON values. ``run.py`` adds how many minutes they took, and
            the CPU time of other programs in the seconds before, as a share of one processor.
        markdown: the tables for the documentation.
        charts: plots by file stem.
        failures: failures of Penstock or the floor; those of a peer are part of the results.
    """

    results: dict[str, object]
    markdown: str
    charts: dict[str, Chart] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)


class Page(Protocol):
    """The interface of a page's module."""

    SUMMARY: str
    COSTS: Sequence[Cost[Any]]
    COMPARISON_OPTIONS: Sequence[str]

    def add_options(self, parser: argparse.ArgumentParser) -> None: ...

    def measure(self, options: argparse.Namespace, cores: Cores, say: Say) -> Report: ...
