"""The visible range as CSV (RFC 4180), a few rows at a time."""

from __future__ import annotations

import csv
import io
from collections.abc import AsyncIterator, Sequence

import anyio
import anyio.lowlevel
import numpy as np

from penstock.dash._board import Board
from penstock.dash._wire import CurveName

_COLUMNS = (
    "device",
    "t_utc",
    "quantity",
    "unit",
    "value_min",
    "value_max",
)
_ROWS_AT_ONCE = 256
"""So many rows take a millisecond, in which no poll begins."""


async def csv_rows(
    board: Board, curves: Sequence[CurveName], begin: int, end: int
) -> AsyncIterator[str]:
    """The samples of ``curves`` from ``begin`` to ``end``, in nanoseconds since 1970.

    They are the samples themselves, whose minimum and maximum are equal, as far back as the board
    keeps them; before that, the extremes of neighbours that it keeps. A failed poll has no values.
    """
    yield ",".join(_COLUMNS) + "\r\n"
    for name, key in curves:
        device = board.devices.get(name)
        quantity = device.quantities.of_key(key) if device is not None else None
        if device is None or quantity is None:
            continue
        about = (quantity.field, quantity.unit or "")
        points = device.history.envelope(key, begin, end, 1)
        inside = np.flatnonzero((points.t >= begin) & (points.t <= end))
        for start in range(0, len(inside), _ROWS_AT_ONCE):
            rows = inside[start : start + _ROWS_AT_ONCE]
            text = io.StringIO()
            writer = csv.writer(text)
            times = np.datetime_as_string(points.t[rows].astype("datetime64[ns]")).tolist()
            cells = [column[rows].tolist() for column in (points.low, points.high)]
            for t, *numbers in zip(times, *cells, strict=True):
                writer.writerow((name, f"{t}Z", *about, *map(_number, numbers)))
            yield text.getvalue()
            await anyio.lowlevel.checkpoint()


def _number(value: float) -> str:
    return "" if value != value else repr(value).removesuffix(".0")
