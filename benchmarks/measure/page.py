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
from benchmarks.measure.comparison import (
    Comparison,
    Metric,
    contenders_of,
    metric_tables,
    missing_list,
    own_failures,
)
from benchmarks.measure.cost_ratios import Cost
from benchmarks.measure.machine import describe
from benchmarks.measure.plots import Chart

Say = Callable[[str], None]


@dataclass(frozen=True)
class Method:
    """How a page was measured.

    Attributes:
        facts: for the results.
        sentence: for a reader; empty if the parts of the page say it.
    """

    facts: dict[str, object]
    sentence: str = ""


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

    @classmethod
    def begin(
        cls, page: str, machine: dict[str, object], method: Method, **conditions: object
    ) -> Report:
        """A report that says where and how a page was measured.

        Args:
            page: its name.
            machine: the facts of the machine.
            method: how it was measured.
            conditions: further facts for the results.
        """
        report = cls(
            {"page": page, "machine": machine, "protocol": method.facts, **conditions},
            describe(machine),
        )
        if method.sentence:
            report.add(method.sentence)
        return report

    def add(self, *paragraphs: str) -> None:
        """Add paragraphs for a reader."""
        self.markdown = "\n\n".join([self.markdown, *paragraphs])

    def keep(
        self, part: str, comparisons: Sequence[Comparison[Any]], metrics: Sequence[Metric[Any]]
    ) -> None:
        """Keep comparisons in a part of the results, behind those that are there."""
        kept = self.results.get(part, [])
        assert isinstance(kept, list)
        self.results[part] = [*kept, *(each.as_json(metrics) for each in comparisons)]
        self.failures += own_failures(comparisons)

    def add_part(
        self,
        part: str,
        comparisons: Sequence[Comparison[Any]],
        header: Sequence[str],
        metrics: Sequence[Metric[Any]],
        *introduction: str,
        shown: Sequence[Metric[Any]] | None = None,
        contenders: Sequence[str] | None = None,
        further: Sequence[str] = (),
        label: int | None = 0,
    ) -> None:
        """Keep comparisons in a part of the results, and add their tables if there are any.

        Args:
            part: the key in the results.
            comparisons: the rows.
            header: the columns that name a row.
            metrics: the figures in the results.
            introduction: the paragraphs before the tables.
            shown: the figures with a table; by default all.
            contenders: the columns of the tables; by default who took part.
            further: the paragraphs between the tables and what is missing.
            label: see :func:`missing_list`.
        """
        columns = contenders_of(comparisons) if contenders is None else contenders
        figures = metrics if shown is None else shown
        tables = metric_tables(comparisons, header, columns, figures) if comparisons else []
        missing = missing_list(comparisons, label=label)
        self.add(*introduction, *tables, *further, *missing)
        self.keep(part, comparisons, metrics)


class Page(Protocol):
    """The interface of a page's module."""

    SUMMARY: str
    COSTS: Sequence[Cost[Any]]
    COMPARISON_OPTIONS: Sequence[str]

    def add_options(self, parser: argparse.ArgumentParser) -> None: ...

    def measure(self, options: argparse.Namespace, cores: Cores, say: Say) -> Report: ...
