"""The README's figure of speed is the published one: a new run of the page changes it here too."""

from __future__ import annotations

import json
import re
from pathlib import Path

from benchmarks.measure.summary import SERVER_CPU

ROOT = Path(__file__).resolve().parents[3]
README = (ROOT / "README.md").read_text(encoding="utf-8")
STREAMS = ["streams", "1 KiB", "32"]


def the_readmes_figure() -> str:
    [stated] = re.findall(r"asyncio's streams takes \*\*([\d.]+) times the CPU\*\*", README)
    return str(stated)


def test_the_readme_states_the_published_ratio_to_the_best_other_loop() -> None:
    results = json.loads((ROOT / "benchmarks/results/echo.json").read_text(encoding="utf-8"))
    (cell,) = [cell for cell in results["cells"] if cell["labels"] == STREAMS]
    peer = cell["best_peer"][SERVER_CPU]
    published = cell["penstock_to"][SERVER_CPU][peer]["median"]

    stated = the_readmes_figure()

    assert stated == f"{published:.2f}", f"README.md states {stated}, echo.json has {published:.4f}"


def test_the_summary_has_the_same_figure() -> None:
    summary = (ROOT / "docs/benchmarks/index.md").read_text(encoding="utf-8")
    (times,) = re.findall(r"\[TCP echo, asyncio streams\].*?\| +([\d.]+) \(", summary)
    stated = the_readmes_figure()

    # The summary says how many times as cheap, with two decimals.
    assert abs(1 / float(times) - float(stated)) < 0.01
