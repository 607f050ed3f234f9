"""Where a page's results go: JSON and SVG in ``results``, tables in the documentation."""

from __future__ import annotations

import json
import os
from pathlib import Path

from benchmarks.measure.native import BENCHMARKS
from benchmarks.measure.page import Report
from benchmarks.measure.plots import draw

RESULTS = BENCHMARKS / "results"
DOCUMENT = BENCHMARKS.parent / "docs" / "benchmarks.md"


class MarkersMissing(Exception):
    """The document has no place for the page's tables."""


def publish(
    page: str, report: Report, *, results: Path = RESULTS, document: Path = DOCUMENT
) -> None:
    """Write the page's JSON and plots, and put its tables between its markers in the document."""
    results.mkdir(parents=True, exist_ok=True)
    parts = [report.markdown]
    for stem, chart in report.charts.items():
        link = os.path.relpath(results / f"{stem}.svg", document.parent)
        parts.append(f"![{chart.title}]({link})")
    text = between_markers(document.read_text(), page, "\n\n".join(parts))
    for stem, chart in report.charts.items():
        draw(chart, results / f"{stem}.svg")
    write_json(results / f"{page}.json", report)
    replace_file(document, text)


def write_json(path: Path, report: Report) -> None:
    """Write the results as JSON, whole or not at all."""
    replace_file(path, json.dumps(report.results, indent=1, ensure_ascii=False) + "\n")


def between_markers(document: str, page: str, tables: str) -> str:
    """The document with ``tables`` between the page's two markers, the rest untouched.

    Raises:
        MarkersMissing: if one of the markers is not there.
    """
    begin, end = f"<!-- {page}: measured -->", f"<!-- {page}: end -->"
    head, found_begin, rest = document.partition(begin)
    _, found_end, tail = rest.partition(end)
    if not found_begin or not found_end:
        raise MarkersMissing(f"docs/benchmarks.md needs the lines '{begin}' and '{end}'")
    return f"{head}{begin}\n{tables.strip()}\n{end}{tail}"


def replace_file(path: Path, text: str) -> None:
    """Replace a file's content, so that no reader ever sees half of it."""
    beside = path.with_name(path.name + ".new")
    beside.write_text(text)
    os.replace(beside, path)
