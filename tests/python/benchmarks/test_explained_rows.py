"""The index says of each row of the summary that is not won why it is not."""

from __future__ import annotations

import re
from pathlib import Path

from benchmarks.measure.publish import DOCUMENTS, RESULTS
from benchmarks.measure.summary import compared_rows
from benchmarks.measure.verdicts import WON

HEADING = "## Every row that is level or lost"


def explained_rows(index: Path) -> set[str]:
    """The rows that the section names, in bold at the beginning of an item."""
    _, _, behind = index.read_text(encoding="utf-8").partition(f"\n{HEADING}\n")
    section, _, _ = behind.partition("\n## ")
    items = re.findall(r"^- \*\*(.+?)\*\*:", section, re.MULTILINE | re.DOTALL)
    return {title for item in items for title in " ".join(item.split()).split("; ")}


def test_each_level_or_lost_row_is_explained() -> None:
    explained = explained_rows(DOCUMENTS / "index.md")
    for row in compared_rows(RESULTS):
        assert row.verdict == WON or row.title in explained, f"{row.title} is {row.verdict}"


def test_no_row_is_explained_that_the_summary_lacks() -> None:
    titles = {row.title for row in compared_rows(RESULTS)}
    assert explained_rows(DOCUMENTS / "index.md") <= titles
