"""A page that declares itself: what its report holds, in which order, and what is left out."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.measure.comparison import Comparison, Metric, compare_in_rounds, contenders_of
from benchmarks.measure.declared_page import Bars, DeclaredPage, in_panels
from benchmarks.measure.page import Method, Report
from benchmarks.measure.processes import Unavailable
from benchmarks.measure.sequential import longest

MACHINE: dict[str, object] = {
    "date": "2026-11-28",
    "commit": "abc",
    "cpu": "a processor",
    "cores": 2,
    "kernel": "6.1",
    "system": "Debian",
    "python": "CPython 3.13",
    "compiler": "GCC",
    "python_build": "with PGO",
    "packages": {},
    "package_compilers": {},
    "native_compiler": None,
    "processors_awake": True,
}
METHOD = Method({"rounds": 2}, "Median of 2 rounds.")


@dataclass(frozen=True)
class Sample:
    """One round."""

    seconds: float


WALL: Metric[Sample] = Metric(
    "wall_s", "Wall time, s:", lambda sample: sample.seconds, 1, more_is_better=False
)
TWICE: Metric[Sample] = Metric("twice", "Twice that:", lambda sample: 2 * sample.seconds, 1)
PAGE = DeclaredPage(
    name="trial",
    labels=["size", "count"],
    metrics=[WALL, TWICE],
    shown=[WALL],
    charts={
        "trial": Bars(
            "A trial",
            "s",
            WALL,
            in_panels(lambda each: each.labels[1], title=lambda each: each.labels[0]),
        )
    },
)


def measured(lines: list[str]) -> list[Comparison[Sample]]:
    def measure(row: float, name: str) -> Sample:
        if name == "lacking":
            raise Unavailable("no such library")
        return Sample(row * (1 if name == "penstock" else 2))

    return compare_in_rounds(
        {("64 B", "10"): 1.0, ("64 B", "100"): 2.0, ("1 KiB", "100"): 3.0},
        ["penstock", "peer", "lacking"],
        2,
        measure,
        lines.append,
    )


def test_each_row_is_measured_in_rounds_and_progress_names_it() -> None:
    lines: list[str] = []
    comparisons = measured(lines)
    assert [each.labels for each in comparisons] == [
        ("64 B", "10"),
        ("64 B", "100"),
        ("1 KiB", "100"),
    ]
    assert [sample.seconds for sample in comparisons[2].samples("peer")] == [6.0, 6.0]
    assert lines[0].startswith("64 B, 10: penstock: round 1 of 2: ")
    assert "1 KiB, 100: lacking: n/a, no such library" in lines
    assert contenders_of(comparisons) == ["penstock", "peer", "lacking"]


def test_a_report_holds_all_figures_and_shows_those_that_are_declared() -> None:
    comparisons = measured([])
    report = PAGE.report(
        comparisons, MACHINE, METHOD, further=["And further."], conditions={"connections": 3}
    )
    assert list(report.results) == ["page", "machine", "protocol", "connections", "cells"]
    assert report.results["cells"] == [each.as_json([WALL, TWICE]) for each in comparisons]
    paragraphs = report.markdown.split("\n\n")
    assert paragraphs[1:3] == ["Median of 2 rounds.", "Wall time, s:"]
    assert "Twice that:" not in paragraphs
    assert paragraphs[-3:] == [
        "And further.",
        "Not measured (n/a):",
        "- lacking, 1 KiB: no such library\n- lacking, 64 B: no such library",
    ]
    assert report.failures == []


def test_a_chart_has_a_panel_for_each_title() -> None:
    chart = PAGE.report(measured([]), MACHINE, METHOD).charts["trial"]
    assert [(panel.title, panel.groups) for panel in chart.panels] == [
        ("64 B", ["10", "100"]),
        ("1 KiB", ["100"]),
    ]


def test_without_rows_there_is_neither_table_nor_chart() -> None:
    report = PAGE.report([], MACHINE, METHOD)
    assert report.markdown.endswith("\n\nMedian of 2 rounds.")
    assert report.charts == {}
    assert report.results["cells"] == []


def test_rows_that_are_kept_later_follow_those_that_are_there() -> None:
    one, two, three = measured([])
    report = Report.begin("trial", MACHINE, Method({}))
    report.add_part("cells", [one], ["size", "count"], [WALL], "The first:", contenders=["peer"])
    report.keep("cells", [two, three], [TWICE])
    cells = report.results["cells"]
    assert cells == [one.as_json([WALL]), two.as_json([TWICE]), three.as_json([TWICE])]
    header = report.markdown.split("\n\n")[3].splitlines()[0]
    assert [cell.strip() for cell in header.strip("|").split("|")][3:] == ["peer"]


def test_the_longest_rows_are_those_with_the_most_messages() -> None:
    assert [each.labels[0] for each in longest(measured([]))] == ["64 B", "1 KiB"]
    assert longest([]) == []
