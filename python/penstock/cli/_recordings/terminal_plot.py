"""Curves in a terminal: sparklines, and plots of braille dots."""

from __future__ import annotations

import math
from collections.abc import Sequence

__all__ = ["dot_plot", "sparkline"]

_BARS = "▁▂▃▄▅▆▇█"
# Unicode numbers the dots of a braille cell down the left column, then down the right one; the
# lowest row was added later and has the highest bits.
_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))


def sparkline(values: Sequence[float | None], width: int) -> str:
    """The last ``width`` values as bars between their lowest and highest; a space for a gap."""
    shown = [
        value if value is not None and math.isfinite(value) else None for value in values[-width:]
    ]
    known = [value for value in shown if value is not None]
    if not known:
        return " " * len(shown)
    low, span = min(known), max(known) - min(known)
    top = len(_BARS) - 1
    return "".join(
        " " if value is None else _BARS[round((value - low) / span * top) if span else top // 2]
        for value in shown
    )


def dot_plot(
    at: Sequence[float], values: Sequence[float], *, width: int, height: int, title: str
) -> str:
    """A plot of ``values`` over ``at`` in ``width`` by ``height`` characters, with its limits.

    Values that are not finite leave a gap.
    """
    points = [
        (x, y) for x, y in zip(at, values, strict=True) if math.isfinite(x) and math.isfinite(y)
    ]
    if not points:
        return f"{title}\n  no sample"
    left, right = min(x for x, _ in points), max(x for x, _ in points)
    low, high = min(y for _, y in points), max(y for _, y in points)
    labels = [f"{high:.6g}", f"{low:.6g}"]
    margin = max(map(len, labels))
    columns, rows = max(1, width - margin - 2), height
    cells = [[0] * columns for _ in range(rows)]
    for x, y in points:
        across = round(_share(x, left, right) * (2 * columns - 1)) if right > left else 0
        up = round(_share(y, low, high) * (4 * rows - 1)) if high > low else 2 * rows
        down = 4 * rows - 1 - up
        cells[down // 4][across // 2] |= _DOTS[down % 4][across % 2]
    lines = [title]
    for number, row in enumerate(cells):
        label = labels[0] if number == 0 else labels[1] if number == rows - 1 else ""
        lines.append(f"{label:>{margin}} ┤" + "".join(chr(0x2800 + dots) for dots in row).rstrip())
    foot = f"{left:.6g} s"
    lines.append(f"{'':>{margin}}  {foot}{f'{right:.6g} s':>{max(1, columns - len(foot))}}")
    return "\n".join(lines)


def _share(value: float, low: float, high: float) -> float:
    """Where ``value`` lies between ``low`` and ``high``, from 0 to 1."""
    # The span of two finite floats may be infinite.
    span = high - low
    if math.isinf(span):
        return (value / 2 - low / 2) / (high / 2 - low / 2)
    return (value - low) / span
