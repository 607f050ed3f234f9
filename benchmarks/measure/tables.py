"""Markdown tables and the figures in their cells."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.measure.spread import Spread

SCREEN = 120
"""The widest table, in characters."""


def markdown_table(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    labels: int = 1,
    width: int | None = SCREEN,
) -> str:
    """A Markdown table, or several where one would be wider than ``width``.

    The first ``labels`` columns are left-aligned, the others right-aligned. All are padded, so that
    the table is readable in a terminal too. A table that is too wide is split between columns, and
    each piece repeats the labels. It is transposed first if that gives fewer pieces.
    """
    pieces = _pieces(header, rows, labels, width)
    if len(pieces) > 1 and rows:
        turned_header, turned_rows = _transposed(header, rows, labels)
        turned = _pieces(turned_header, turned_rows, 1, width)
        if len(turned) < len(pieces):
            return "\n\n".join(
                _draw(_cells(turned_header, piece), [_cells(row, piece) for row in turned_rows], 1)
                for piece in turned
            )
    return "\n\n".join(
        _draw(_cells(header, piece), [_cells(row, piece) for row in rows], labels)
        for piece in pieces
    )


def _cells(row: Sequence[str], columns: Sequence[int]) -> list[str]:
    return [row[column] for column in columns]


def _widths(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[int]:
    return [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]


def _pieces(
    header: Sequence[str], rows: Sequence[Sequence[str]], labels: int, width: int | None
) -> list[list[int]]:
    """The columns of each piece that fits into ``width``, the labels among them."""
    widths = _widths(header, rows)
    repeated = list(range(labels))
    frame = 1 + sum(widths[column] + 3 for column in repeated)
    pieces: list[list[int]] = []
    used = 0
    for column in range(labels, len(header)):
        wanted = widths[column] + 3
        if not pieces or (width is not None and used + wanted > width):
            pieces.append(list(repeated))
            used = frame
        pieces[-1].append(column)
        used += wanted
    return pieces or [repeated]


def _transposed(
    header: Sequence[str], rows: Sequence[Sequence[str]], labels: int
) -> tuple[list[str], list[list[str]]]:
    """The table with a column for each row, headed by the row's labels."""
    turned_header = ["", *(", ".join(row[:labels]) for row in rows)]
    turned_rows = [
        [header[column], *(row[column] for row in rows)] for column in range(labels, len(header))
    ]
    return turned_header, turned_rows


def _draw(header: Sequence[str], rows: Sequence[Sequence[str]], labels: int) -> str:
    widths = _widths(header, rows)

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
