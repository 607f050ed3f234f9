"""What is published of a measurement: tables, pages, their first sentence, the summary."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from benchmarks.measure.in_short import sentence
from benchmarks.measure.page import Report
from benchmarks.measure.plots import Chart, Panel
from benchmarks.measure.publish import (
    DOCUMENTS,
    RESULTS,
    MarkersMissing,
    between_markers,
    publish,
    with_sentence,
)
from benchmarks.measure.reproduced import TABLES, plain_number, reproduced_text
from benchmarks.measure.reproduced import lacking_rows as lacking_published_rows
from benchmarks.measure.spread import Spread
from benchmarks.measure.summary import ROWS, lacking_rows, summary_table, summary_text
from benchmarks.measure.tables import SCREEN, figure, markdown_table
from benchmarks.measure.verdicts import lost_figures
from benchmarks.run import load_pages


def test_a_table_is_markdown_with_right_aligned_figures() -> None:
    table = markdown_table(["loop", "k/s"], [["penstock", figure(Spread(2e3, 1e3, 3e3), 1, 1e3)]])
    assert table.splitlines() == [
        "| loop     |           k/s |",
        "| -------- | ------------: |",
        "| penstock | 2.0 (1.0–3.0) |",
    ]


def test_tables_replace_only_what_is_between_the_pages_markers() -> None:
    document = "a\n<!-- echo: measured -->\nold\n<!-- echo: end -->\nb\n"
    once = between_markers(document, "echo", "new\n")
    assert once == "a\n<!-- echo: measured -->\nnew\n<!-- echo: end -->\nb\n"
    assert between_markers(once, "echo", "new") == once
    with pytest.raises(MarkersMissing, match="start: measured"):
        between_markers(document, "start", "new")


SUMMARY = "<!-- summary: measured -->\n<!-- summary: end -->\n"


REPRODUCED = "<!-- reproduced: measured -->\n<!-- reproduced: end -->\n"


ECHO = (
    "<!-- echo in short: measured -->\n<!-- echo in short: end -->\n"
    "<!-- echo: measured -->\n<!-- echo: end -->\n"
)


def test_a_published_page_has_its_results_plots_and_tables(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    documents = tmp_path / "docs" / "pages"
    documents.mkdir(parents=True)
    document = documents / "echo.md"
    document.write_text(ECHO)
    (documents / "index.md").write_text(SUMMARY)
    (documents / "reproduced.md").write_text(REPRODUCED)
    panel = Panel("1 KiB", ["protocol", "sock"], {"zloop": [Spread(2.0, 1.0, 3.0), None]})
    report = Report({"page": "echo"}, "| table |", {"echo": Chart("Echo", "k/s", [panel])})
    results = tmp_path / "benchmarks" / "results"
    publish("echo", report, results=results, documents=documents)
    drawn = (results / "echo.svg").read_bytes()
    assert b"<svg" in drawn
    assert json.loads((results / "echo.json").read_text()) == {"page": "echo"}
    shown = document.read_text()
    assert shown == (
        "<!-- echo in short: measured -->\n![Echo](../../benchmarks/results/echo.svg)\n"
        "<!-- echo in short: end -->\n<!-- echo: measured -->\n| table |\n<!-- echo: end -->\n"
    )
    publish("echo", report, results=results, documents=documents)
    assert document.read_text() == shown
    assert (results / "echo.svg").read_bytes() == drawn


def test_a_page_begins_with_its_result(tmp_path: Path) -> None:
    rows = [row for row in ROWS if row.page == "echo"][:3]
    ratios = {"median": 0.5, "low": 0.4, "high": 0.6}, {"median": 0.8, "low": 0.7, "high": 0.9}
    lost = {"median": 2.0, "low": 1.9, "high": 2.1}
    cells = [
        {
            "labels": list(row.labels),
            "best_peer": {row.metric: "zloop"},
            "penstock_to": {row.metric: {"zloop": ratio}},
        }
        for row, ratio in zip(rows, (*ratios, lost), strict=True)
    ]
    result = tmp_path / "echo.json"
    result.write_text(json.dumps({"cells": cells}))
    assert sentence(tmp_path, "echo") == (
        "**Against the best peer of each row: 2 won, 1 lost.** "
        f"{rows[0].title}: 2.00 times as cheap as zloop; "
        f"{rows[2].title}: 0.50 times as cheap as zloop."
    )
    assert sentence(tmp_path, "start") == ""
    result.write_text(json.dumps({"cells": cells[:1]}))
    assert sentence(tmp_path, "echo") == (
        f"**{rows[0].title}: Penstock is 2.00 times as cheap as zloop, the best peer: won.**"
    )
    picture = "![Echo](echo.svg)"
    document = ECHO.replace("measured -->\n", f"measured -->\nold\n\n{picture}\n", 1)
    assert f"-->\nnew\n\n{picture}\n<!--" in with_sentence(document, "echo", "new")


@pytest.mark.parametrize("without", ["echo", "index", "reproduced"])
def test_a_page_without_a_place_in_the_documents_publishes_nothing(
    without: str, tmp_path: Path
) -> None:
    texts = {
        "echo": ECHO,
        "index": SUMMARY,
        "reproduced": REPRODUCED,
    }
    for name, text in texts.items():
        (tmp_path / f"{name}.md").write_text("no markers" if name == without else text)
    before = {path.name: path.read_text() for path in tmp_path.iterdir()}
    with pytest.raises(MarkersMissing):
        publish("echo", Report({}, ""), results=tmp_path / "results", documents=tmp_path)
    assert list((tmp_path / "results").iterdir()) == []
    assert {path.name: path.read_text() for path in tmp_path.glob("*.md")} == before


def test_the_summary_inverts_costs_and_names_losses(tmp_path: Path) -> None:
    row = next(each for each in ROWS if each.metric.startswith("server_cpu"))
    cell = {
        "labels": list(row.labels),
        "best_peer": {row.metric: "zloop"},
        "penstock_to": {
            row.metric: {
                "zloop": {"median": 2.0, "low": 1.6, "high": 2.5},
                "floor": {"median": 4.0, "low": 4.0, "high": 4.0},
            }
        },
    }
    (tmp_path / f"{row.page}.json").write_text(json.dumps({row.cells: [cell]}))
    [_, _, line] = summary_table(tmp_path).splitlines()
    assert [each.strip() for each in line.strip("|").split("|")] == [
        f"[{row.title}]({row.page}.md)",
        "**lost**",
        "0.50 (0.40–0.62)",
        "zloop",
        "CPU",
        "0.25 (0.25–0.25)",
    ]


def test_every_lost_figure_is_listed_and_nothing_else(tmp_path: Path) -> None:
    def ratio(median: float, spread: float) -> dict[str, float]:
        return {"median": median, "low": median - spread, "high": median + spread}

    metrics = {
        "wall_us_per_file": ratio(1.5, 0.1),
        "cpu_us_per_file": ratio(1.5, 0.6),
        "requests_per_second": ratio(0.5, 0.1),
        "operations_per_second": ratio(1.5, 0.1),
        "p99_us": ratio(0.0, 0.0),
    }
    cell = {
        "labels": ["8 × 2 MiB", "whole"],
        "best_peer": dict.fromkeys(metrics, "os"),
        "penstock_to": {metric: {"os": each} for metric, each in metrics.items()},
    }
    (tmp_path / "files.json").write_text(json.dumps({"page": "files", "together": [cell]}))
    name, _, _, _, *lines = lost_figures(tmp_path).splitlines()
    assert name == "**[files](files.md)**"
    assert [[each.strip() for each in line.strip("|").split("|")] for line in lines] == [
        ["together, 8 × 2 MiB, whole", figure, "os", shown]
        for figure, shown in (("wall time", "0.67 (0.62–0.71)"), ("rate", "0.50 (0.40–0.60)"))
    ]


def test_the_summary_counts_its_rows_and_names_machines_and_missing_pages(tmp_path: Path) -> None:
    row = next(each for each in ROWS if each.metric == "rows_per_s")
    ratios = {"alicatlib": {"median": 2.0, "low": 1.6, "high": 2.5}}
    cell = {
        "labels": list(row.labels),
        "best_peer": {row.metric: "alicatlib"},
        "penstock_to": {row.metric: ratios},
    }
    machine = {
        "cpu": "Z80",
        "cores": 2,
        "kernel": "6.1",
        "system": "Debian",
        "python": "CPython 3.13.0",
        "compiler": "GCC 12.2.0",
        "date": "2026-11-22T01:25:36+00:00",
    }
    results = {"machine": machine, row.cells: [cell]}
    (tmp_path / f"{row.page}.json").write_text(json.dumps(results))
    text = summary_text(tmp_path, [row.page, "echo"])
    assert text.startswith("Rows: 1 won, 0 level, 0 lost.\n")
    assert "2.00 (1.60–2.50)" in text
    place = "Z80, 2 cores, Linux 6.1, Debian, CPython 3.13.0, GCC 12.2.0"
    assert f"Measured on {place}: {row.page} (2026-11-22).\n" in text
    assert text.endswith("Not published yet: echo.")


def test_every_row_of_the_summary_names_a_page_and_is_shown_or_said_to_be_lacking() -> None:
    assert len({row.title for row in ROWS}) == len(ROWS)
    assert {row.page for row in ROWS} <= set(load_pages())
    published = {path.stem for path in RESULTS.glob("*.json")}
    expected = {f"{row.title} ({row.page})" for row in ROWS if row.page in published}
    text = summary_table(RESULTS)
    shown = {f"{row.title} ({row.page})" for row in ROWS if f"[{row.title}](" in text}
    assert shown | set(lacking_rows(RESULTS)) == expected
    assert not shown & set(lacking_rows(RESULTS))


def test_every_row_of_a_peers_published_tables_has_a_page_or_a_reason() -> None:
    rows = [row for table in TABLES for row in table.rows]
    assert {table.peer for table in TABLES} == {
        *("zloop", "asyncio for C++", "pyuring", "anyserial", "alicatlib")
    }
    assert all(bool(row.page) != bool(row.reason) for row in rows)
    assert {row.page for row in rows} - {""} <= set(load_pages())
    names = [(table.peer, table.heading, row.name) for table in TABLES for row in table.rows]
    assert len(set(names)) == len(names)


def test_a_published_row_shows_its_own_contender_and_one_without_results_says_so(
    tmp_path: Path,
) -> None:
    def contender(median: float) -> dict[str, Any]:
        return {"p50_us": {"median": median, "low": median, "high": median}}

    cell = {
        "labels": ["ve", "off"],
        "contenders": {"penstock": contender(20.0), "alicatlib": contender(30.0)},
        "best_peer": {"p50_us": "alicat"},
        "penstock_to": {"p50_us": {"alicatlib": {"median": 0.8, "low": 0.5, "high": 1.0}}},
    }
    (tmp_path / "alicat.json").write_text(json.dumps({"query": [cell]}))
    lines = reproduced_text(tmp_path).splitlines()
    (shown,) = [line for line in lines if line.startswith("| VE, eager off ")]
    assert [each.strip() for each in shown.strip("|").split("|")] == [
        *("VE, eager off", "[p50, µs](alicat.md)", "20", "30 alicatlib", "1.25 (1.00–2.00)", "")
    ]
    (other,) = [line for line in lines if line.startswith("| VE, eager on ")]
    assert "| [not yet](alicat.md)" in other
    lacking = lacking_published_rows(tmp_path, {"alicat"})
    assert lacking == ["alicatlib, Single-line query, n = 1000: VE, eager on (alicat)"]


@pytest.mark.parametrize("document", sorted(DOCUMENTS.glob("*.md")), ids=lambda path: path.stem)
def test_no_table_of_a_page_is_wider_than_a_screen(document: Path) -> None:
    # A link takes as much room as its text.
    text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", document.read_text())
    for table in re.findall(r"(?:^\|.*\|\n)+", text, re.MULTILINE):
        rows = [[cell.strip() for cell in line[1:-1].split("|")] for line in table.splitlines()]
        shown = [row for row in rows if not set("".join(row)) <= set("-:")]
        widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
        assert 1 + sum(width + 3 for width in widths) <= SCREEN, table


def test_a_table_wider_than_a_screen_is_split_and_repeats_its_labels() -> None:
    header = ["row", *(f"contender {number}" for number in range(9))]
    rows = [[f"r{n}", *("123456789 (1–9)" for _ in range(9))] for n in range(12)]
    tables = markdown_table(header, rows).split("\n\n")
    assert [table.splitlines()[0].count("|") for table in tables] == [8, 5]
    assert all(table.splitlines()[2].startswith("| r0 ") for table in tables)
    assert max(len(line) for table in tables for line in table.splitlines()) <= 120
    assert len(markdown_table(header, rows, width=None).splitlines()) == 14


def test_a_table_of_few_rows_is_transposed_before_it_is_split() -> None:
    header = ["row", "kind", *(f"contender {number}" for number in range(9))]
    rows = [
        ["1 KiB", "read", *("1" for _ in range(9))],
        ["2 KiB", "read", *("2" for _ in range(9))],
    ]
    lines = markdown_table(header, rows, labels=2).splitlines()
    assert len(lines) == 11
    assert [each.strip() for each in lines[0].strip("|").split("|")] == [
        "",
        "1 KiB, read",
        "2 KiB, read",
    ]


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (68572.4, "68,570"),
        (0.0012344, "0.001234"),
        (130.26, "130.3"),
        (9.99951e9, "10,000,000,000"),
    ],
)
def test_a_number_of_a_table_has_no_exponent(value: float, written: str) -> None:
    assert plain_number(value) == written
