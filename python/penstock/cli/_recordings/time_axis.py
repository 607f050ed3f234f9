"""The time axis of pictures: since the start, in local time or in UTC, with the zone named."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from typing import Literal, TypeAlias, get_args

import numpy as np

from penstock.record.envelopes.bins import Numbers, Times

__all__ = ["TIME_SCALES", "TimeAxis", "TimeScale", "date_text"]

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
        """Of the calendar; None for the local one."""
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
