"""What the pages of closed loops have in common: the options of their cells, and their report.

A page states its name, its cells, its metrics and its charts; the rest stands here once.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.measure.affinity import Cores
from benchmarks.measure.closed_loop import CPU, RATE, Sample, protocol_facts, protocol_sentence
from benchmarks.measure.comparison import (
    Comparison,
    Metric,
    metric_panel,
    metric_tables,
    missing_list,
    own_failures,
)
from benchmarks.measure.echo_stand import Cell
from benchmarks.measure.machine import describe
from benchmarks.measure.options import add_loops, add_turns, choices, numbers
from benchmarks.measure.page import Report
from benchmarks.measure.plots import Chart, Panel

Comparisons = Sequence[Comparison[Sample]]

AXES = {
    RATE.key: ("requests per second (more is better)", "thousand requests / s"),
    CPU.key: ("server CPU per request (less is better)", "µs / request"),
}
"""The title and the axis of a chart, by the key of its metric."""


def first_label(comparison: Comparison[Sample]) -> str:
    """The label of a group of bars whose other labels are all the same."""
    return comparison.labels[0]


@dataclass(frozen=True)
class ClosedLoopPage:
    """What a page is: everything of its report that is no result.

    Attributes:
        name: of the page and of its files.
        subject: the begin of a chart's title.
        labels: the columns that name a cell.
        metrics: a table for each.
        charts: by the names of their files, the metric of each.
        panels: the panels of a chart.
    """

    name: str
    subject: str
    labels: Sequence[str]
    metrics: Sequence[Metric[Sample]]
    charts: Mapping[str, Metric[Sample]]
    panels: Callable[[Comparisons, Metric[Sample]], list[Panel]]

    def report(
        self,
        comparisons: Comparisons,
        contenders: Sequence[str],
        options: argparse.Namespace,
        cores: Cores,
        facts: dict[str, object],
        *,
        load: str = "",
        further: Sequence[str] = (),
        conditions: Mapping[str, object] | None = None,
    ) -> Report:
        """The report.

        Args:
            comparisons: one for each cell.
            contenders: the columns of the tables.
            options: of the page.
            cores: those of server and load.
            facts: of the machine.
            load: a sentence about the load, behind that about the turns.
            further: what stands between the tables and what is missing.
            conditions: facts of the load for the results.
        """
        sentence = protocol_sentence(options)
        parts = [
            describe(facts),
            f"{sentence} {load}" if load else sentence,
            *metric_tables(comparisons, self.labels, contenders, self.metrics),
            *further,
            *missing_list(comparisons),
        ]
        return Report(
            results={
                "page": self.name,
                "machine": facts,
                "protocol": protocol_facts(options, cores),
                **(conditions or {}),
                "cells": [comparison.as_json(self.metrics) for comparison in comparisons],
            },
            markdown="\n\n".join(parts),
            charts={
                name: Chart(
                    f"{self.subject}: {AXES[metric.key][0]}",
                    AXES[metric.key][1],
                    self.panels(comparisons, metric),
                )
                for name, metric in self.charts.items()
            },
            failures=own_failures(comparisons),
        )


def one_panel(
    group: Callable[[Comparison[Sample]], str] = first_label, title: str = ""
) -> Callable[[Comparisons, Metric[Sample]], list[Panel]]:
    """The panels of a chart that has one, with the name of each group of bars by ``group``."""
    return lambda comparisons, metric: [metric_panel(title, comparisons, metric, group)]


def add_cells(
    parser: argparse.ArgumentParser,
    styles: Sequence[str],
    default_styles: Sequence[str],
    sizes: Sequence[int],
    connections: Sequence[int],
    *,
    further_loops: Sequence[str] = (),
    sizes_are: str = "message sizes in bytes",
    connections_are: str = "e.g. 3,32",
) -> None:
    """The options of a page whose cells are styles, sizes and numbers of connections."""
    add_loops(parser, further_loops)
    parser.add_argument(
        "--styles",
        type=choices("style", list(styles)),
        default=list(default_styles),
        help=f"of {','.join(styles)}",
    )
    parser.add_argument("--sizes", type=numbers, default=list(sizes), help=sizes_are)
    parser.add_argument(
        "--connections", type=numbers, default=list(connections), help=connections_are
    )
    add_turns(parser)


def cells_of(options: argparse.Namespace) -> Iterator[Cell]:
    """All combinations that are asked for."""
    for style in options.styles:
        for size in options.sizes:
            for connections in options.connections:
                yield Cell(style, size, connections)
