"""What the pages of closed loops have in common: the options of their cells, and their charts."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence

from benchmarks.measure.closed_loop import CPU, RATE, Sample
from benchmarks.measure.comparison import Metric
from benchmarks.measure.declared_page import ONE_PANEL, Bars, Panels
from benchmarks.measure.echo_stand import Cell
from benchmarks.measure.options import add_choices, add_loops, add_turns, numbers

AXES = {
    RATE.key: ("requests per second (more is better)", "thousand requests / s"),
    CPU.key: ("server CPU per request (less is better)", "µs / request"),
}
"""The title and the axis of a chart, by the key of its metric."""


def bars_of(subject: str, metric: Metric[Sample], panels: Panels = ONE_PANEL) -> Bars:
    """The chart of one of the two figures of a closed loop; ``subject`` begins its title."""
    title, axis = AXES[metric.key]
    return Bars(f"{subject}: {title}", axis, metric, panels)


def add_cells(
    parser: argparse.ArgumentParser,
    styles: Sequence[str],
    default_styles: Sequence[str],
    sizes: Sequence[int],
    connections: Sequence[int],
    *,
    further_loops: Sequence[str] = (),
    sizes_are: str = "message sizes in bytes",
    connections_are: str = "e.g. 3,32",
) -> None:
    """The options of a page whose cells are styles, sizes and numbers of connections."""
    add_loops(parser, further_loops)
    add_choices(parser, "--styles", "style", styles, default=default_styles)
    parser.add_argument("--sizes", type=numbers, default=list(sizes), help=sizes_are)
    parser.add_argument(
        "--connections", type=numbers, default=list(connections), help=connections_are
    )
    add_turns(parser)


def cells_of(options: argparse.Namespace) -> Iterator[Cell]:
    """All combinations that are asked for."""
    for style in options.styles:
        for size in options.sizes:
            for connections in options.connections:
                yield Cell(style, size, connections)
