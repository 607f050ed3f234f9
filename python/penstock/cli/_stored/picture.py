"""The picture of recorded curves: a panel for each unit, one above the other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np

from penstock.cli._recording.plot import picture_of
from penstock.record.envelopes.bins import Numbers, Times
from penstock.record.envelopes.curves import Line

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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
    """A curve with its words. ``start`` is the first moment of its recording, as for ``line.t``."""

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
    # Above the panels: on a curve it would hide a part of it. From the lines' own labels, a
    # legend leaves out those that begin with an underscore.
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


# The time axis of pictures: since the start, in local time or in UTC, with the zone named.

TimeScale: TypeAlias = Literal["elapsed", "local", "utc"]
TIME_SCALES: tuple[TimeScale, ...] = get_args(TimeScale)

_DAY_S = 86_400
# Each unit of elapsed time, in seconds, for spans of at least so many.
_UNITS = ((4 * _DAY_S, "d", _DAY_S), (3 * 3600, "h", 3600), (300, "min", 60), (0, "s", 1))


class TimeAxis:
    """Places and words of moments.

    Args:
        scale: what the axis counts.
        start: its first moment in nanoseconds since 1970 (UTC).
        end: its last one.
        starts: how many recordings there are, each with a start of its own.
    """

    def __init__(self, scale: TimeScale, start: int, end: int, starts: int = 1) -> None:
        self.scale = scale
        self.start = start
        self.end = end
        self._starts = starts
        span = max(0, end - start) / 1e9
        self.unit, self._unit_s = next((name, s) for least, name, s in _UNITS if span >= least)

    def places(self, t: Times, start: int) -> Numbers:
        """Where moments lie: in units since ``start``, or in days since 1970."""
        if self.scale == "elapsed":
            found: Numbers = (t - start) / (self._unit_s * 1e9)
        else:
            found = t / (_DAY_S * 1e9)
        return found

    @property
    def zone(self) -> tzinfo | None:
        """The zone of the calendar; None for the local one."""
        return UTC if self.scale == "utc" else None

    @property
    def limits(self) -> tuple[float, float]:
        """The places of the first and the last moment."""
        first, last = self.places(np.array([self.start, self.end]), self.start).tolist()
        return first, last

    def label(self, *, narrow: bool = False) -> str:
        """What stands below the axis; on two lines where there is little room."""
        between = "\n" if narrow else " "
        if self.scale == "elapsed":
            if self._starts > 1:
                return f"time since the start{between}of each recording ({self.unit})"
            first, last = date_text(self.start), date_text(self.end)
            return f"time in {self.unit} since{between}{first}{between}until {last}"
        if self.scale == "utc":
            return "time (UTC)"
        return f"local time, {_zone_names(self.start, self.end)}"

    def ends(self) -> tuple[str, str]:
        """Words for the first and the last moment."""
        if self.scale == "elapsed":
            length = (self.end - self.start) / (self._unit_s * 1e9)
            since = "" if self._starts > 1 else f" = {date_text(self.start)}"
            return f"0 {self.unit}{since}", f"{length:.6g} {self.unit}"
        return date_text(self.start, self.zone), date_text(self.end, self.zone)


def date_text(t: int, zone: tzinfo | None = None) -> str:
    """A moment to the second, with its zone: ``2026-11-25 22:43:18 CET (UTC+01:00)``."""
    moment = _moment(t).astimezone(zone)
    return f"{moment:%Y-%m-%d %H:%M:%S} {_zone_text(moment)}"


def _zone_names(start: int, end: int) -> str:
    """The zone at both ends: summer time may begin in between."""
    names = (_zone_text(_moment(t).astimezone()) for t in (start, end))
    return ", later ".join(dict.fromkeys(names))


def _zone_text(moment: datetime) -> str:
    name, digits = moment.tzname() or "", f"{moment:%z}"
    shift = f"UTC{digits[:3]}:{digits[3:5]}"
    if name == "UTC" and shift == "UTC+00:00":
        return name
    # A zone without a name of letters is named by its digits alone.
    return f"{name} ({shift})" if name.isalpha() else shift


def _moment(t: int) -> datetime:
    return datetime.fromtimestamp(t // 1_000_000_000, UTC)
