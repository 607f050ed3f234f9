"""Grouped bars with their spread, drawn as SVG by matplotlib."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.measure.spread import Spread

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from matplotlib.ticker import Locator

# The same colour for a contender on every page; grey for the floor.
COLOURS = {
    "floor": "#9aa0a6",
    "floor-python": "#bdc1c6",
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


#: The left end of a chart of ratios.
LOWEST_RATIO = 0.25
FLOOR_MARK: dict[str, Any] = {
    "marker": "D",
    "linestyle": "none",
    "markerfacecolor": "white",
    "markeredgecolor": "#555555",
    "markeredgewidth": 0.7,
    "markersize": 3.2,
    "zorder": 1.5,
}


@dataclass(frozen=True)
class RatioDot:
    """A ratio, its spread and what it is to, for a chart of ratios; 1 is level."""

    title: str
    beside: str
    ratio: Spread
    colour: str
    to_floor: float | None = None
    """The ratio to the floor, where one was measured."""


def draw(chart: Chart, path: Path) -> None:
    """Draw the chart into an SVG file that depends only on the figures, not on the date.

    Raises:
        ModuleNotFoundError: if matplotlib is not installed.
    """
    figure = _figure(9.0, 0.6 + 2.6 * len(chart.panels))
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
    _save(figure, path)


def draw_ratios(
    title: str,
    subjects: Mapping[str, Sequence[RatioDot]],
    legend: Mapping[str, str],
    path: Path,
) -> None:
    """Draw a dot with its spread for each ratio, one below the other under their subjects.

    The picture is narrow, for a phone. ``legend`` gives the meaning of the colours. A hollow
    diamond is the ratio to the floor; below the picture's left end it stands at that end.

    Raises:
        ModuleNotFoundError: if matplotlib is not installed.
    """
    lines = sum(len(dots) + 1.4 for dots in subjects.values())
    figure = _figure(6.4, 1.3 + 0.19 * lines)
    figure.suptitle(title, fontsize=11)
    axis = figure.subplots()
    axis.set_xscale("log", base=2)
    ticks: dict[float, str] = {}
    line = 0.0
    for subject, dots in subjects.items():
        line += 1.4
        axis.annotate(
            subject,
            (0, line - 0.1),
            xycoords=("axes fraction", "data"),
            xytext=(4, 0),
            textcoords="offset points",
            fontsize=8.5,
            fontweight="bold",
            va="center",
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.5},
        )
        for dot in dots:
            line += 1
            ratio = dot.ratio
            axis.plot([ratio.low, ratio.high], [line, line], color=dot.colour, lw=1.2, alpha=0.6)
            axis.plot([ratio.median], [line], "o", color=dot.colour, ms=4)
            if dot.to_floor is not None:
                axis.plot([max(dot.to_floor, LOWEST_RATIO)], [line], **FLOOR_MARK)
            axis.annotate(
                f"{ratio.median:.2f}  {dot.beside}",
                (ratio.high, line),
                xytext=(4, 0),
                textcoords="offset points",
                fontsize=6.5,
                va="center",
            )
            ticks[line] = dot.title
    axis.axvline(1, color="#222222", lw=0.8)
    axis.set_ylim(line + 1, 0)
    axis.set_yticks(list(ticks), list(ticks.values()), fontsize=7.5)
    shown = [0.5, 0.7, 1, 1.5, 2, 3, 4, 6, 8, 12, 16, 24]
    low, high = axis.get_xlim()
    # One wide spread must not crowd the others together; the last name needs room.
    low, high = max(low, LOWEST_RATIO), high * 1.6
    axis.set_xlim(low, high)
    within = [tick for tick in shown if low <= tick <= high]
    axis.set_xticks(within, [f"{tick:g}" for tick in within], fontsize=8)
    axis.xaxis.set_minor_locator(_no_ticks())
    axis.tick_params(top=True, labeltop=True, length=2)
    axis.spines[["right"]].set_visible(False)
    axis.grid(axis="x", linewidth=0.4, alpha=0.6)
    for name, colour in legend.items():
        axis.plot([], [], "o", color=colour, ms=4, label=name)
    axis.plot([], [], **FLOOR_MARK, label="to the floor")
    figure.legend(loc="outside lower center", ncols=len(legend) + 1, frameon=False, fontsize=8)
    _save(figure, path)


def _figure(width: float, height: float) -> Figure:
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "penstock"
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def _no_ticks() -> Locator:
    from matplotlib.ticker import NullLocator

    return NullLocator()


def _save(figure: Figure, path: Path) -> None:
    figure.savefig(path, format="svg", metadata={"Date": None})
