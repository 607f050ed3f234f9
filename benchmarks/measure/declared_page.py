"""A page that declares itself: its name, the columns that name a row, its figures, its charts.

How its rows are measured stands in the page's module; the rest of the report stands here once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.measure.comparison import Comparison, Metric, metric_panel
from benchmarks.measure.page import Method, Report
from benchmarks.measure.plots import Chart, Panel

CELLS = "cells"
"""The key of a page's rows in its results."""

Naming = Callable[[Comparison[Any]], str]
Panels = Callable[[Sequence[Comparison[Any]], Metric[Any]], list[Panel]]


def first_label(comparison: Comparison[Any]) -> str:
    """The label of a row whose other labels are those of its neighbours."""
    return comparison.labels[0]


def in_lines(comparison: Comparison[Any]) -> str:
    """The first label with a line for each of its parts."""
    return comparison.labels[0].replace(", ", ",\n")


def crossed(comparison: Comparison[Any]) -> str:
    """``64 B x 1000``."""
    return " x ".join(comparison.labels)


def in_panels(group: Naming = first_label, title: Naming = lambda comparison: "") -> Panels:
    """The panels of a chart: one for each title.

    Args:
        group: names the bars of a row.
        title: names the panel of a row.
    """

    def drawn(comparisons: Sequence[Comparison[Any]], metric: Metric[Any]) -> list[Panel]:
        titled: dict[str, list[Comparison[Any]]] = {}
        for comparison in comparisons:
            titled.setdefault(title(comparison), []).append(comparison)
        return [metric_panel(name, rows, metric, group) for name, rows in titled.items()]

    return drawn


ONE_PANEL = in_panels()
"""One panel, with the first label of each row."""


@dataclass(frozen=True)
class Bars:
    """A chart of one figure.

    Attributes:
        title: of the chart.
        axis: what its bars measure, with the unit.
        metric: the figure.
        panels: its panels; by default one, with the first label of each row.
    """

    title: str
    axis: str
    metric: Metric[Any]
    panels: Panels = ONE_PANEL

    def drawn(self, comparisons: Sequence[Comparison[Any]]) -> Chart:
        """The chart of these rows."""
        return Chart(self.title, self.axis, self.panels(comparisons, self.metric))


@dataclass(frozen=True)
class DeclaredPage:
    """What of a page's report is no result.

    Attributes:
        name: of the page and of its files.
        labels: the columns that name a row.
        metrics: the figures in the results.
        charts: by the names of their files.
        shown: the figures with a table; by default all.
    """

    name: str
    labels: Sequence[str]
    metrics: Sequence[Metric[Any]]
    charts: Mapping[str, Bars]
    shown: Sequence[Metric[Any]] | None = None

    def report(
        self,
        comparisons: Sequence[Comparison[Any]],
        machine: dict[str, object],
        method: Method,
        *,
        contenders: Sequence[str] | None = None,
        further: Sequence[str] = (),
        conditions: Mapping[str, object] | None = None,
    ) -> Report:
        """The report of measured rows.

        Args:
            comparisons: the rows. Without any there is no table and no chart.
            machine: the facts of the machine.
            method: how they were measured.
            contenders: the columns of the tables; by default who took part.
            further: the paragraphs between the tables and what is missing.
            conditions: further facts for the results.
        """
        report = Report.begin(self.name, machine, method, **(conditions or {}))
        report.add_part(
            CELLS,
            comparisons,
            self.labels,
            self.metrics,
            shown=self.shown,
            contenders=contenders,
            further=further,
        )
        if comparisons:
            report.charts = {name: bars.drawn(comparisons) for name, bars in self.charts.items()}
        return report
