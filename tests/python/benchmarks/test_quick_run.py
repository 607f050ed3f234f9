"""The quick run of all pages: it marks its results, ends in time, and publishes nothing."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest

from benchmarks.measure.page import Report
from benchmarks.measure.sanity import Impossible
from benchmarks.quick_run import run_all
from benchmarks.run import load_pages, main, make_parser, quick_options


def test_results_are_marked_as_quick_and_the_summary_follows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines: list[str] = []
    folder = tmp_path / "quick"
    code = run_all(["start"], lambda name: Report({"page": name}, ""), lines.append, folder=folder)
    assert code == 0
    assert json.loads((folder / "start.json").read_text()) == {"quick": True, "page": "start"}
    printed = capsys.readouterr().out
    assert printed.startswith("# Quick run: a first impression, not a result")
    assert "| to the floor |" in printed


def test_a_page_that_cannot_be_measured_does_not_end_the_run(tmp_path: Path) -> None:
    def measure(name: str) -> Report:
        if name == "echo":
            raise Impossible("cheaper than the kernel")
        return Report({}, "", failures=["the floor is missing"] if name == "udp" else [])

    lines: list[str] = []
    code = run_all(["echo", "udp", "tls"], measure, lines.append, folder=tmp_path / "quick")
    assert code == 1
    assert {path.stem for path in (tmp_path / "quick").iterdir()} == {"udp", "tls"}
    assert "benchmarks/run.py --quick: echo: cheaper than the kernel" in lines
    assert "benchmarks/run.py --quick: udp: the floor is missing" in lines


def test_a_page_without_a_row_of_the_summary_fails_the_run(tmp_path: Path) -> None:
    lines: list[str] = []
    folder = tmp_path / "quick"
    code = run_all(["alicat"], lambda name: Report({"query": []}, ""), lines.append, folder=folder)
    assert code == 1
    said = "benchmarks/run.py --quick: without a row that is promised:"
    assert f"{said} Alicat, poll (alicat)" in lines
    assert f"{said} alicatlib, Single-line query, n = 1000: VE, eager off (alicat)" in lines


def test_pages_beyond_the_time_are_named(tmp_path: Path) -> None:
    lines: list[str] = []
    hours = itertools.count(0, 400.0)
    code = run_all(
        ["echo", "udp", "tls"],
        lambda name: Report({}, ""),
        lines.append,
        folder=tmp_path / "quick",
        seconds=540,
        clock=lambda: next(hours),
    )
    assert code == 1
    assert lines[-1] == "benchmarks/run.py --quick: left out after 540 s: udp, tls"


@pytest.mark.parametrize("page", sorted(load_pages()))
def test_every_page_has_a_quick_form(page: str) -> None:
    options = quick_options(make_parser(load_pages()), page)
    assert options.quick
    assert getattr(options, "rounds", 1) == 1


def test_quick_before_a_page_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--quick", "echo"])
    assert ended.value.code == 2
    assert "write it after the page" in capsys.readouterr().err
