"""The picture of recorded curves: a panel for each unit, one above the other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from penstock.cli._recording.plot import picture_of
from penstock.cli._recordings.time_axis import TimeAxis
from penstock.record.envelopes.lines import Line

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["DOTS_PER_INCH", "PlottedCurve", "draw_curves"]

DOTS_PER_INCH = 144
_ALPHA = 0.75
"""Curves that cover each other are seen through each other."""
_PANEL_SHARE = 0.75
"""The height of a second panel, of that of the first."""
_NARROW_INCHES = 6
_TIMES_AN_INCH = 1.2
_LEGEND_CHARACTERS = 10
"""So many characters of a legend take the width of an inch."""


@dataclass(frozen=True, slots=True)
class PlottedCurve:
    """A curve with its words. ``start`` is the first moment of its recording, as of ``line.t``."""

    label: str
    unit: str
    line: Line
    start: int


def draw_curves(
    curves: Sequence[PlottedCurve], axis: TimeAxis, kind: str, size: tuple[int, int]
) -> bytes:
    """The content of a file of ``kind``, png or svg, of ``size`` pixels. Needs matplotlib.

    Every further unit adds a panel, and so to the height.
    """
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    units = list(dict.fromkeys(curve.unit for curve in curves))
    width, height = (pixels / DOTS_PER_INCH for pixels in size)
    figure = Figure(
        figsize=(width, height * (1 + _PANEL_SHARE * (len(units) - 1))), layout="constrained"
    )
    panels = list(figure.subplots(len(units), 1, squeeze=False, sharex=True).flat)
    handles = []
    for number, curve in enumerate(curves):
        axes = panels[units.index(curve.unit)]
        places = axis.places(curve.line.t, curve.start)
        color = f"C{number % 10}"
        alpha = _ALPHA if sum(other.unit == curve.unit for other in curves) > 1 else 1.0
        (drawn,) = axes.plot(places, curve.line.values, lw=1.0, color=color, alpha=alpha)
        alone = curve.line.isolated
        axes.plot(places[alone], curve.line.values[alone], ls="", marker=".", ms=4, color=color)
        handles.append(drawn)
    for unit, axes in zip(units, panels, strict=True):
        axes.set_ylabel(unit or "value", parse_math=False)
        axes.grid(color="#d9d9d9", lw=0.6)
        axes.spines[["top", "right"]].set_visible(False)
        axes.margins(y=0.06)
    _mark_times(panels[-1], axis, width)
    # Above the panels: on a curve it would hide a part of it. Of the lines' own labels, a legend
    # leaves out those that begin with an underscore.
    widest = max(len(curve.label) for curve in curves) + 6
    legend = figure.legend(
        handles,
        [curve.label for curve in curves],
        loc="outside upper left",
        ncols=max(1, math.floor(width * _LEGEND_CHARACTERS / widest)),
        frameon=False,
        fontsize="small",
    )
    for text in legend.get_texts():
        text.set_parse_math(False)
    # One path with a hundred thousand points may be more than Agg's memory for its cells.
    with rc_context({"agg.path.chunksize": 20_000}):
        return picture_of(figure, kind)


def _mark_times(axes: Axes, axis: TimeAxis, width: float) -> None:
    # At the left: at the right end a calendar has its date.
    narrow = width < _NARROW_INCHES
    axes.set_xlabel(axis.label(narrow=narrow), parse_math=False, fontsize="small", loc="left")
    first, last = axis.limits
    if first < last:
        axes.set_xlim(first, last)
    if axis.scale == "elapsed":
        return
    dates: Any = import_module("matplotlib.dates")  # its classes have no types
    # matplotlib's own dependency: of Python's zones, none is the local one at any date.
    zone = axis.zone or import_module("dateutil.tz").tzlocal()
    most = max(3, round(width * _TIMES_AN_INCH))
    locator = dates.AutoDateLocator(tz=zone, minticks=2, maxticks=most)
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator, tz=zone))
