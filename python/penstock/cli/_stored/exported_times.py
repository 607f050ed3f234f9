"""The column that ``export --time`` adds: local time, or the time since the first row."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Literal

from penstock.cli._errors import CommandError, ExitCode
from penstock.record.arrow import iso_times, pyarrow_module
from penstock.record.schema import LEADING_COLUMNS
from penstock.record.steady_times import SteadyTimes

_LOCAL, _ELAPSED = "t_local", "elapsed_s"
_QUARTER_S = 900
"""No zone changes its offset between two multiples of it."""


class ExportedTimes:
    """Adds the time of each row in a scale, behind the fixed columns.

    ``local`` is a text with the offset of the zone of this machine, ``elapsed`` the seconds since
    the first row of all tables: by the monotonic clock, as ``penstock plot`` has them, where that
    is known. With ``utc`` nothing is added.
    """

    def __init__(self, scale: Literal["utc", "local", "elapsed"]) -> None:
        self._scale = scale
        self._steady = SteadyTimes()
        self._start: int | None = None

    def of(self, table: Any, metadata: Mapping[str, Any] | None = None) -> Any:
        """The table with the column.

        Args:
            table: rows with ``t_utc``, in the order of recording.
            metadata: of their part; None for rows at steps, which have no clock but ``t_utc``.

        Raises:
            CommandError: the recording has a column of that name.
        """
        if self._scale == "utc":
            return table
        pa = pyarrow_module()
        name = _LOCAL if self._scale == "local" else _ELAPSED
        if name in table.column_names:
            raise CommandError(
                f"the recording has a column {name} of its own; leave out --time, or choose other "
                "columns with --field",
                ExitCode.USAGE,
            )
        t = table["t_utc"].cast(pa.timestamp("ns", "UTC")).cast(pa.int64())
        if self._scale == "local":
            field, column = pa.field(name, pa.string()), _local(t)
        else:
            field = pa.field(name, pa.float64(), metadata={"unit": "s"})
            column = self._elapsed(table, t, metadata or {})
        names = table.column_names
        place = 1 + max(names.index(each) for each in LEADING_COLUMNS if each in names)
        return table.add_column(place, field, column)

    def _elapsed(self, table: Any, t: Any, metadata: Mapping[str, Any]) -> Any:
        pa, compute = pyarrow_module(), pyarrow_module("pyarrow.compute")
        if "t_mono_ns" in table.column_names:
            both = pa.table({"t": t, "steady": table["t_mono_ns"]}).drop_null()
            for first in both.slice(0, 1).to_pylist():
                offset = self._steady.offset(metadata, first["t"], first["steady"])
                if offset is not None:
                    t = compute.coalesce(compute.add(table["t_mono_ns"], offset), t)
        known = t.drop_null()
        if self._start is None and len(known):
            self._start = known[0].as_py()
        since = compute.subtract(t, self._start or 0)
        # Beyond 104 days the last digits of a nanosecond are lost.
        return compute.divide(since.cast(pa.float64(), safe=False), 1e9)


def _local(t: Any) -> Any:
    """Texts such as 2026-11-25T23:43:18.123456789+01:00."""
    pa, compute = pyarrow_module(), pyarrow_module("pyarrow.compute")
    quarters = compute.divide(t, _QUARTER_S * 1_000_000_000)
    known = compute.unique(quarters).drop_null()
    offsets = [_offset_at(quarter * _QUARTER_S) for quarter in known.to_pylist()]
    place = compute.index_in(quarters, value_set=known)
    shift = pa.array([seconds for seconds, _ in offsets], pa.int64()).take(place)
    zone = pa.array([text for _, text in offsets], pa.string()).take(place)
    there = compute.add(t, compute.multiply(shift, 1_000_000_000)).cast(pa.timestamp("ns"))
    return compute.binary_join_element_wise(iso_times(there), zone, "")


def _offset_at(seconds: int) -> tuple[int, str]:
    """The offset of this machine's zone in seconds, and as a text."""
    moment = datetime.fromtimestamp(seconds, UTC).astimezone()
    digits = f"{moment:%z}"
    offset = moment.utcoffset()
    assert offset is not None  # astimezone() gives it a zone
    return round(offset.total_seconds()), f"{digits[:3]}:{digits[3:5]}"
