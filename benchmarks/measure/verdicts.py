"""Whether Penstock has won, and every figure of the published results that it has lost."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.measure.contenders import is_peer
from benchmarks.measure.spread import Spread
from benchmarks.measure.tables import figure, markdown_table

LEVEL = 0.02
"""A median within this of 1 is level."""

WON, LEVEL_TEXT, LOST = "won", "level", "**lost**"

RATES = ("_per_second", "_per_s", "_a_second")
"""The ends of the keys of figures of which more is better."""

NOT_COMPARED = ("_to_floor", "growth_kib", "growth_by_churn")
"""The ends of the keys of figures that say nothing beside a peer's."""

KINDS = {
    "cpu": "CPU",
    "wall": "wall time",
    "bytes": "bytes",
    "ms": "wall time",
    "open": "wall time",
}
"""The kind of a figure by a part of its key, unless the key is a rate or a percentile."""


SHORTER = {
    "penstock's loop, the others on their best": "each on its best loop",
    "50 × 20 MiB, O_DIRECT, 64 in flight": "50 × 20 MiB, O_DIRECT",
}


def better(metric: str, ratio: dict[str, float] | None) -> Spread | None:
    """How many times as good Penstock is, from its figure over another's: above 1 it is better.

    None if there is no ratio, or if it has none because a figure is 0 or negative.
    """
    if ratio is None or min(ratio.values()) <= 0:
        return None
    median, low, high = ratio["median"], ratio["low"], ratio["high"]
    if metric.endswith(RATES):
        return Spread(median, low, high)
    return Spread(1 / median, 1 / high, 1 / low)


def verdict(ratio: Spread | None) -> str:
    """Won, level or lost; empty without a ratio."""
    if ratio is None:
        return ""
    if abs(ratio.median - 1) <= LEVEL or ratio.low <= 1 <= ratio.high:
        return LEVEL_TEXT
    return WON if ratio.median > 1 else LOST


def kind(metric: str) -> str:
    """What a figure is, by its key: "CPU", "wall time", "rate", "bytes", "p50"."""
    if metric.endswith((*RATES, "percent_of_line")):
        return "rate"
    parts = metric.split("_")
    if parts[0] == "longest":
        return "longest gap"
    for part in parts:
        if part in ("max", "mean") or (part[0] == "p" and part[1:].isdigit()):
            return part
    return next((KINDS[part] for part in parts if part in KINDS), metric.replace("_", " "))


def with_unit(metric: str) -> str:
    """The kind with its unit: "CPU, ns", "rate, 1/s"."""
    if metric.endswith(RATES):
        return f"{kind(metric)}, 1/s"
    units = {"us": "µs", "ns": "ns", "ms": "ms", "percent": "%"}
    unit = next((units[part] for part in metric.split("_") if part in units), "")
    return f"{kind(metric)}, {unit}" if unit else kind(metric)


def lost_figures(results: Path) -> str:
    """A table for each page, of every figure of which even the best end of the spread has lost.

    The summary has one figure for each subject; this has all, so that no choice hides a loss.
    """
    pages: dict[str, list[tuple[str, str, str, str]]] = {}
    for page, table, labels, metric, peer, ratio in _lost(results):
        line = (_row_name(table, labels), kind(metric), peer, figure(ratio, 2))
        pages.setdefault(page, []).append(line)
    header = ["row", "figure", "best peer", "ratio"]
    return "\n\n".join(
        f"**[{page}]({page}.md)**\n\n{markdown_table(header, list(dict.fromkeys(lines)), labels=3)}"
        for page, lines in pages.items()
    )


def _row_name(table: str, labels: list[str]) -> str:
    named = table == "cells" or labels[0].startswith(table)
    return ", ".join(SHORTER.get(part, part) for part in ([] if named else [table]) + labels)


def _lost(results: Path) -> Iterator[tuple[str, str, list[str], str, str, Spread]]:
    for path in sorted(results.glob("*.json")):
        for table, cells in json.loads(path.read_text()).items():
            for cell in _compared(cells):
                for metric, peer in cell["best_peer"].items():
                    if peer is None or not is_peer(peer) or metric.endswith(NOT_COMPARED):
                        continue
                    ratio = better(metric, cell["penstock_to"][metric].get(peer))
                    if ratio is not None and verdict(ratio) == LOST:
                        yield path.stem, table, cell["labels"], metric, peer, ratio


def _compared(cells: Any) -> list[dict[str, Any]]:
    if not isinstance(cells, list):
        return []
    return [cell for cell in cells if isinstance(cell, dict) and "penstock_to" in cell]
