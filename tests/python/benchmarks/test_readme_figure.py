"""The README's figures of speed are the published ones: a new run of the page changes them too."""

from __future__ import annotations

import json
import re
from pathlib import Path

from benchmarks.measure.summary import SERVER_CPU

ROOT = Path(__file__).resolve().parents[3]
README = (ROOT / "README.md").read_text(encoding="utf-8")
STREAMS = ["streams", "1 KiB", "32"]


def the_readmes_figures() -> tuple[str, str, str]:
    """The ratio to uvloop, the ratio to the best other loop, and that loop's name."""
    [stated] = re.findall(
        r"asyncio's streams takes \*\*([\d.]+) times the CPU\*\* that it takes on uvloop,"
        r"\s+and ([\d.]+) times that of\s+(\S+), the best other loop",
        README,
    )
    return stated


def test_the_readme_states_the_published_ratios() -> None:
    results = json.loads((ROOT / "benchmarks/results/echo.json").read_text(encoding="utf-8"))
    (cell,) = [cell for cell in results["cells"] if cell["labels"] == STREAMS]
    peer = cell["best_peer"][SERVER_CPU]
    ratios = cell["penstock_to"][SERVER_CPU]

    published = (f"{ratios['uvloop']['median']:.2f}", f"{ratios[peer]['median']:.2f}", peer)

    assert the_readmes_figures() == published


def test_the_summary_has_the_same_figure() -> None:
    summary = (ROOT / "docs/benchmarks/index.md").read_text(encoding="utf-8")
    (times,) = re.findall(r"\[TCP echo, asyncio streams\].*?\| +([\d.]+) \(", summary)
    _, stated, _ = the_readmes_figures()

    # The summary says how many times as cheap, with two decimals.
    assert abs(1 / float(times) - float(stated)) < 0.01
