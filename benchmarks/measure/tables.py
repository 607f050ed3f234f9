"""Markdown tables and the figures in their cells."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.measure.spread import Spread


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]], *, labels: int = 1) -> str:
    """A Markdown table, its first ``labels`` columns to the left, the figures to the right.

    The columns are padded, so that the table can be read in a terminal as well.
    """
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]

    def line(cells: Sequence[str]) -> str:
        padded = [
            cell.ljust(width) if i < labels else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(cells, widths, strict=True))
        ]
        return f"| {' | '.join(padded)} |"

    rule = [
        "-" * width if i < labels else "-" * (width - 1) + ":" for i, width in enumerate(widths)
    ]
    return "\n".join([line(header), line(rule), *(line(row) for row in rows)])


def figure(value: Spread, digits: int, scale: float = 1.0) -> str:
    """Median with smallest and largest round: ``182.4 (180.1–184.0)``."""
    median, low, high = (
        f"{number / scale:.{digits}f}" for number in (value.median, value.low, value.high)
    )
    return f"{median} ({low}–{high})"
