"""Messages one after the other on one connection: what the pages that measure them share."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from benchmarks.measure.affinity import Cores
from benchmarks.measure.closed_loop import Sample
from benchmarks.measure.comparison import Comparison, Metric
from benchmarks.measure.library_stand import add_libraries
from benchmarks.measure.options import numbers
from benchmarks.measure.page import Method

WARM_UP = 0.05  # seconds

SERVERS_IN_TURN = (
    "servers in turn, server and client on one core each, each reply compared before the next"
    " message."
)
"""The end of a page's sentence: how it was measured."""


def wall_of(thing: str, explained: str) -> Metric[Sample]:
    """The wall time of one such thing."""
    return Metric(
        f"wall_us_per_{thing}",
        f"Wall clock, µs {explained} (less is better):",
        lambda sample: sample.seconds / sample.requests * 1e6,
        digits=1,
        more_is_better=False,
    )


WALL_OF_MESSAGE = wall_of("message", "for a message and its reply")


def add_sequential(
    parser: argparse.ArgumentParser,
    libraries: Sequence[str],
    sizes: Sequence[int],
    counts: Sequence[int],
    *,
    counted: str = "messages",
    rounds: int,
    quick: str,
) -> None:
    """The options of a page whose cells are sizes and numbers of messages."""
    add_libraries(parser, libraries)
    parser.add_argument("--sizes", type=numbers, default=sizes, help="message sizes in bytes")
    example = ",".join(str(count) for count in counts)
    parser.add_argument(f"--{counted}", type=numbers, default=counts, help=f"e.g. {example}")
    parser.add_argument("--rounds", type=int, default=rounds, help=f"rounds of each ({rounds})")
    parser.add_argument("--quick", action="store_true", help=quick)


def sequential_method(options: argparse.Namespace, cores: Cores, how: str) -> Method:
    """How such a page is measured; ``how`` ends its sentence."""
    facts: dict[str, object] = {
        "rounds": options.rounds,
        "server_core": cores.server,
        "client_core": cores.client,
    }
    rounds = f"Median of {options.rounds} rounds with the lowest and highest round"
    return Method(facts, f"{rounds}; {how}")


def longest(comparisons: Sequence[Comparison[Any]]) -> list[Comparison[Any]]:
    """The rows with the most messages, whose number is the last label of a row."""
    most = max((int(each.labels[-1]) for each in comparisons), default=0)
    return [each for each in comparisons if int(each.labels[-1]) == most]
