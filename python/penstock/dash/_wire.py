"""The messages between the page and the server: parsing what comes, packing what goes.

Texts are JSON objects with a ``type``. Points travel in binary messages: a 32-bit length, a JSON
head of that length padded to a multiple of 8, then 64-bit floats, all little-endian. JSON alone was
rejected: a snapshot of 64 charts has a hundred thousand numbers, which take 0.1 s to print, while
polls wait.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from penstock.record.envelopes.history import Extremes

_MOST_CURVES = 4096
_LONGEST_ID = 64
_HIGHEST_ID = 2**53
"""The highest whole number that every JSON parser keeps exactly (RFC 8259, section 6)."""
_NARROWEST, _WIDEST = 8, 4096
_LONGEST_S = 100 * 366 * 86400.0
_LATEST_S = 9e9
"""The year 2255: nanoseconds since 1970 must fit into 64 bits."""


CurveName: TypeAlias = tuple[str, str]
"""A device and one of its quantities."""


class BadMessageError(ValueError):
    """A message that the page never sends."""


@dataclass(frozen=True, slots=True)
class View:
    """What a browser shows: curves, a range of time and the number of points across it.

    Either the last ``span`` nanoseconds, or those from ``begin`` to ``end`` since 1970.
    """

    number: int
    curves: tuple[CurveName, ...]
    points: int
    span: int | None
    begin: int = 0
    end: int = 0

    @property
    def bucket(self) -> int:
        """The time between two points in nanoseconds."""
        span = self.end - self.begin if self.span is None else self.span
        return max(1, span // self.points)


def parse_message(text: str) -> dict[str, Any]:
    """The JSON object in ``text``, with a ``type`` that is a string.

    Raises:
        BadMessageError: it is something else.
    """
    try:
        message = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadMessageError("the message is not JSON") from error
    if not isinstance(message, dict) or not isinstance(message.get("type"), str):
        raise BadMessageError("the message is not an object with a type")
    return message


def parse_view(message: dict[str, Any]) -> View:
    """The view that a browser asks for.

    Raises:
        BadMessageError: a part is missing or out of range.
    """
    curves = message.get("curves")
    if (
        not isinstance(curves, list)
        or len(curves) > _MOST_CURVES
        or not all(_is_curve_name(curve) for curve in curves)
    ):
        raise BadMessageError("curves is not a list of pairs of device and quantity")
    number = _whole(message, "id", 0, 2**53)
    points = _whole(message, "width", 0, 2**53)
    points = min(max(points, _NARROWEST), _WIDEST)
    names = tuple(dict.fromkeys((device, key) for device, key in curves))
    if message.get("span") is not None:
        span = number_in(message, "span", 1e-3, _LONGEST_S)
        return View(number, names, points, round(span * 1e9))
    begin = round(number_in(message, "from", 0.0, _LATEST_S) * 1e9)
    end = round(number_in(message, "to", 0.0, _LATEST_S) * 1e9)
    if end <= begin:
        raise BadMessageError("to is not after from")
    return View(number, names, points, None, begin, end)


def answer_id(message: dict[str, Any]) -> int | str | None:
    """What an answer to ``message`` repeats, so that its sender knows it; None without one.

    Raises:
        BadMessageError: it is neither a short text nor a whole number.
    """
    found = message.get("id")
    if found is None:
        return None
    if isinstance(found, int) and not isinstance(found, bool) and abs(found) <= _HIGHEST_ID:
        return found
    # A text that is not printable may be none of Unicode, such as half of a surrogate pair.
    if isinstance(found, str) and len(found) <= _LONGEST_ID and found.isprintable():
        return found
    raise BadMessageError(f"id is neither a whole number nor a text of up to {_LONGEST_ID} letters")


def number_in(message: dict[str, Any], key: str, low: float, high: float) -> float:
    """The finite number at ``key``, from ``low`` to ``high``.

    Raises:
        BadMessageError: it is missing, no number or out of range.
    """
    value = message.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BadMessageError(f"{key} is not a number")
    # An int of JSON may have thousands of digits, which no float holds.
    if not low <= value <= high or not math.isfinite(value):
        raise BadMessageError(f"{key} is not from {low:g} to {high:g}")
    return float(value)


def _whole(message: dict[str, Any], key: str, low: int, high: int) -> int:
    return int(number_in(message, key, low, high))


def _is_curve_name(curve: object) -> bool:
    return (
        isinstance(curve, list) and len(curve) == 2 and all(isinstance(part, str) for part in curve)
    )


def pack_points(view: int, found: Sequence[tuple[CurveName, int, Extremes]]) -> bytes:
    """Points of several curves in one binary message.

    Each is ``(name, from, points)``: the points replace those that the browser has from that time
    on, in nanoseconds since 1970. Times go as seconds: their digits below a microsecond are lost,
    which no chart shows. A curve of which each point is one sample is ``flat``, and has no highest
    values beside the lowest ones. One with the times of the curve before it is ``same``, and has no
    times.
    """
    described = []
    pieces = []
    times = None
    for (device, key), begin, points in found:
        flat = np.array_equal(points.low, points.high, equal_nan=True)
        same = times is not None and np.array_equal(times, points.t)
        times = points.t
        described.append(
            {
                "device": device,
                "key": key,
                "from": begin / 1e9,
                "rows": len(points),
                "flat": flat,
                "same": same,
            }
        )
        if not same:
            pieces.append((points.t / 1e9).astype("<f8", copy=False).tobytes())
        columns = (points.low,) if flat else (points.low, points.high)
        pieces += [np.ascontiguousarray(column, "<f8").tobytes() for column in columns]
    head = json.dumps({"view": view, "curves": described}).encode()
    head += b" " * (-(len(head) + 4) % 8)
    return b"".join([len(head).to_bytes(4, "little"), head, *pieces])
