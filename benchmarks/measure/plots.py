"""Grouped bars with their spread, drawn as SVG by matplotlib."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measure.spread import Spread

# The same colour for a contender on every page; grey for the floor.
COLOURS = {
    "floor": "#9aa0a6",
    "penstock": "#0b6e99",
    "uvloop": "#e07a1f",
    "zloop": "#7a5195",
    "rloop": "#4c9a52",
    "asyncio": "#c8a415",
}
OTHER_COLOUR = "#444444"


@dataclass(frozen=True)
class Panel:
    """One set of axes: a value for each contender (row) in each group (column), or None for n/a."""

    title: str
    groups: Sequence[str]
    values: Mapping[str, Sequence[Spread | None]]


@dataclass(frozen=True)
class Chart:
    """Panels above each other whose vertical axes have the same quantity."""

    title: str
    axis: str
    panels: Sequence[Panel]


def draw(chart: Chart, path: Path) -> None:
    """Draw the chart into an SVG file that depends only on the figures, not on the date.

    Raises:
        ModuleNotFoundError: if matplotlib is not installed.
    """
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "penstock"
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.0, 0.6 + 2.6 * len(chart.panels)), layout="constrained")
    figure.suptitle(chart.title)
    axes = figure.subplots(len(chart.panels), 1, squeeze=False)[:, 0]
    for panel, axis in zip(chart.panels, axes, strict=True):
        width = 0.84 / max(len(panel.values), 1)
        for row, (name, values) in enumerate(panel.values.items()):
            shown = [(group, value) for group, value in enumerate(values) if value is not None]
            if not shown:
                continue
            axis.bar(
                [group - 0.42 + width * (row + 0.5) for group, _ in shown],
                [value.median for _, value in shown],
                width * 0.94,
                yerr=[
                    [value.median - value.low for _, value in shown],
                    [value.high - value.median for _, value in shown],
                ],
                color=COLOURS.get(name, OTHER_COLOUR),
                error_kw={"elinewidth": 0.8, "ecolor": "#222222"},
                label=name,
            )
        axis.set_title(panel.title, fontsize=10, loc="left")
        axis.set_xticks(range(len(panel.groups)), panel.groups)
        axis.set_ylabel(chart.axis)
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(axis="y", linewidth=0.4, alpha=0.6)
        axis.set_axisbelow(True)
    handles, labels = axes[0].get_legend_handles_labels()
    if handles:
        figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
    figure.savefig(path, format="svg", metadata={"Date": None})
