"""Publishes a page's results: JSON and SVG in ``results``, tables in ``docs/benchmarks``."""

from __future__ import annotations

import json
import os
from pathlib import Path

from benchmarks.measure.in_short import draw_summary, sentence
from benchmarks.measure.native import BENCHMARKS
from benchmarks.measure.page import Report
from benchmarks.measure.plots import draw
from benchmarks.measure.reproduced import reproduced_text
from benchmarks.measure.summary import summary_text

RESULTS = BENCHMARKS / "results"
DOCUMENTS = BENCHMARKS.parent / "docs" / "benchmarks"
INDEX = "index"
SUMMARY = "summary"
REPRODUCED = "reproduced"
IN_SHORT = "in short"


class MarkersMissing(Exception):
    """The document has no place for the page's tables."""


def publish(
    page: str, report: Report, *, results: Path = RESULTS, documents: Path = DOCUMENTS
) -> None:
    """Write the page's JSON and plots, its tables into its document, and the summary anew.

    Raises:
        MarkersMissing: if the page's document, the summary or the page of published tables has no
            place for the tables. Nothing is written then.
    """
    results.mkdir(parents=True, exist_ok=True)
    document = documents / f"{page}.md"
    index = documents / f"{INDEX}.md"
    # Raises before anything is written.
    between_markers(index.read_text(), SUMMARY, "")
    between_markers((documents / f"{REPRODUCED}.md").read_text(), REPRODUCED, "")
    pictures = []
    for stem, chart in report.charts.items():
        link = os.path.relpath(results / f"{stem}.svg", document.parent)
        pictures.append(f"![{chart.title}]({link})")
    text = between_markers(document.read_text(), page, report.markdown)
    text = between_markers(text, f"{page} {IN_SHORT}", "\n\n".join(pictures))
    for stem, chart in report.charts.items():
        draw(chart, results / f"{stem}.svg")
    write_json(results / f"{page}.json", report)
    replace_file(document, text)
    write_summary(results=results, documents=documents)


def write_summary(*, results: Path = RESULTS, documents: Path = DOCUMENTS) -> None:
    """Put the summary of the published results into the index, and fill the published tables."""
    index, reproduced = documents / f"{INDEX}.md", documents / f"{REPRODUCED}.md"
    pages = [path.stem for path in documents.glob("*.md") if path not in (index, reproduced)]
    for document, name, text in (
        (index, SUMMARY, summary_text(results, pages)),
        (reproduced, REPRODUCED, reproduced_text(results)),
    ):
        replace_file(document, between_markers(document.read_text(), name, text))
    draw_summary(results)
    for page in pages:
        document = documents / f"{page}.md"
        replace_file(document, with_sentence(document.read_text(), page, sentence(results, page)))


def with_sentence(document: str, page: str, sentence: str) -> str:
    """The document with a new sentence before the pictures at its beginning.

    Raises:
        MarkersMissing: if the document has no such place.
    """
    name = f"{page} {IN_SHORT}"
    begin = document.find("\n![", document.find(f"<!-- {name}: measured -->"))
    end = document.find(f"<!-- {name}: end -->")
    pictures = document[begin:end] if 0 <= begin < end else ""
    return between_markers(document, name, f"{sentence}\n{pictures}")


def write_json(path: Path, report: Report) -> None:
    """Write the results as JSON, atomically."""
    replace_file(path, json.dumps(report.results, indent=1, ensure_ascii=False) + "\n")


def between_markers(document: str, page: str, tables: str) -> str:
    """The document with ``tables`` between the page's two markers.

    Raises:
        MarkersMissing: if one of the markers is not there.
    """
    begin, end = f"<!-- {page}: measured -->", f"<!-- {page}: end -->"
    head, found_begin, rest = document.partition(begin)
    _, found_end, tail = rest.partition(end)
    if not found_begin or not found_end:
        raise MarkersMissing(f"the document needs the lines '{begin}' and '{end}'")
    return f"{head}{begin}\n{tables.strip()}\n{end}{tail}"


def replace_file(path: Path, text: str) -> None:
    """Replace a file's content atomically."""
    beside = path.with_name(path.name + ".new")
    beside.write_text(text)
    os.replace(beside, path)
