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
    at: Sequence[float],
    low: Sequence[float],
    high: Sequence[float],
    *,
    width: int,
    height: int,
    title: str,
    between: tuple[float, float],
    ends: tuple[str, str],
) -> str:
    """A plot of extremes over ``at`` in ``width`` by ``height`` characters, with its limits.

    A column of dots is filled from the lowest to the highest value in it. Values that are not
    finite leave a gap. The columns reach over what ``between`` has; ``ends`` are the words below
    the first and the last one.
    """
    points = [
        (x, *pair)
        for x, *pair in zip(at, low, high, strict=True)
        if math.isfinite(x) and all(map(math.isfinite, pair))
    ]
    if not points:
        return f"{title}\n  no sample"
    left, right = between
    least, most = min(y for _, y, _ in points), max(y for _, _, y in points)
    labels = [f"{most:.6g}", f"{least:.6g}"]
    margin = max(map(len, labels))
    columns, rows = max(1, width - margin - 2), height
    cells = [[0] * columns for _ in range(rows)]

    def up(y: float) -> int:
        return round(_share(y, least, most) * (4 * rows - 1)) if most > least else 2 * rows

    filled: dict[int, tuple[int, int]] = {}
    for x, bottom, top in points:
        share = min(1.0, max(0.0, _share(x, left, right))) if right > left else 0.0
        across = round(share * (2 * columns - 1))
        begin, end = filled.get(across, (4 * rows, 0))
        filled[across] = min(begin, up(bottom)), max(end, up(top))
    for across, (begin, end) in filled.items():
        for level in range(begin, end + 1):
            down = 4 * rows - 1 - level
            cells[down // 4][across // 2] |= _DOTS[down % 4][across % 2]
    lines = [title]
    for number, row in enumerate(cells):
        label = labels[0] if number == 0 else labels[1] if number == rows - 1 else ""
        lines.append(f"{label:>{margin}} ┤" + "".join(chr(0x2800 + dots) for dots in row).rstrip())
    foot, last = ends
    room = columns - len(foot)
    if room > len(last):
        lines.append(f"{'':>{margin}}  {foot}{last:>{room}}")
    else:
        # A date and a zone are wider than a narrow terminal.
        lines += [f"{'':>{margin}}  {foot}", f"{'':>{margin}}  to {last}"]
    return "\n".join(lines)


def _share(value: float, low: float, high: float) -> float:
    """Where ``value`` lies between ``low`` and ``high``, from 0 to 1."""
    # The span of two finite floats may be infinite.
    span = high - low
    if math.isinf(span):
        return (value / 2 - low / 2) / (high / 2 - low / 2)
    return (value - low) / span
