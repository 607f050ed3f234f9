"""What a page of results begins with: a sentence; in the index, a picture of the summary."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from benchmarks.measure.plots import RatioDot, draw_ratios
from benchmarks.measure.summary import SUBJECTS, Compared, compared_rows
from benchmarks.measure.verdicts import LEVEL_TEXT, LOST, WON

SUMMARY_CHART = "summary.svg"
COLOUR_OF = {WON: "#0b6e99", LEVEL_TEXT: "#9aa0a6", LOST: "#c0392b"}
CHEAP = ("CPU", "bytes")
"""The kinds of figures of which less is cheaper, not faster."""


def sentence(results: Path, page: str) -> str:
    """How the page's rows of the summary came out; empty if the summary has none of them.

    The best and the worst row are named with their ratio to the best peer, and each lost one.
    """
    rows = [row for row in compared_rows(results) if row.page == page]
    if not rows:
        return ""
    if len(rows) == 1:
        [row] = rows
        verdict = row.verdict.strip("*")
        return f"**{row.title}: Penstock is {_times(row)}, the best peer: {verdict}.**"
    worst, best = (pick(rows, key=lambda row: row.ratio.median) for pick in (min, max))
    verdicts = Counter(row.verdict for row in rows)
    counts = [
        f"{verdicts[each]} {each.strip('*')}" for each in (WON, LEVEL_TEXT, LOST) if verdicts[each]
    ]
    lost = [row for row in rows if row.verdict == LOST]
    named = list(dict.fromkeys([best, *lost, worst]))
    return (
        f"**Against the best peer of each row: {', '.join(counts)}.** "
        + "; ".join(f"{row.title}: {_times(row)}" for row in named)
        + "."
    )


def draw_summary(results: Path) -> None:
    """Draw the ratios of the summary's rows into ``summary.svg`` beside the results."""
    subjects = {
        subject: [
            RatioDot(
                row.title,
                row.peer,
                row.ratio,
                COLOUR_OF[row.verdict],
                None if row.to_floor is None else row.to_floor.median,
            )
            for row in compared_rows(results, rows)
        ]
        for subject, rows in SUBJECTS
    }
    subjects = {subject: dots for subject, dots in subjects.items() if dots}
    if not subjects:
        return
    draw_ratios(
        "How many times as fast or as cheap as the best peer, and as the floor",
        subjects,
        {each.strip("*"): colour for each, colour in COLOUR_OF.items()},
        results / SUMMARY_CHART,
    )


def _times(row: Compared) -> str:
    word = "cheap" if row.kind in CHEAP else "fast"
    return f"{row.ratio.median:.2f} times as {word} as {row.peer}"
