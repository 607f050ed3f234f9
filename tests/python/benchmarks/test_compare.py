"""``benchmarks/run.py compare``: two builds side by side, and two result files."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import os
import pkgutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import benchmarks.pages
from benchmarks.measure.builds import ROOT, Build, builds_of, comparing, placed, programs_of
from benchmarks.measure.closed_loop import CPU, Sample, in_turns
from benchmarks.measure.comparison import Comparison
from benchmarks.measure.cost_ratios import (
    Cost,
    RowName,
    costs_by_row,
    missing_rows,
    ratio_rows,
    result_file_rows,
    side_by_side_rows,
)
from benchmarks.measure.processes import Failed, run
from benchmarks.measure.rounds import alternate

OLD, NEW = Build("old", Path("/checkouts/old")), Build("new", ROOT)
COSTS = [Cost(CPU, Sample)]


def a_sample(cpu_us: float) -> Sample:
    return Sample(1000, 1.0, cpu_us * 1e-3, 0.5, 10.0, 20.0)


def a_result(*cpu_us: float, page: str = "echo", turns: int = 1, **old: Any) -> dict[str, Any]:
    """The results of a page with one cell, by costs of Penstock's rounds."""
    unmeasured = alternate(["penstock", "uvloop"], 0, lambda name: a_sample(0.0))
    comparison = Comparison(("protocol", "1 KiB"), unmeasured)
    comparison.outcomes["penstock"].samples = [a_sample(each) for each in cpu_us]
    comparison.outcomes["penstock"].old_samples = [a_sample(each) for each in old.get("old", [])]
    comparison.outcomes["uvloop"].samples = [a_sample(9.0) for _ in cpu_us]
    return {
        "page": page,
        "machine": {"cores": 2},
        "protocol": {"turns": turns},
        "cells": [comparison.as_json([CPU])],
        "syscalls_per_request": [{"penstock": 2.0}],
    }


def compare(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "benchmarks" / "run.py"), "compare"]
    command += [str(argument) for argument in arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


# ---- whose programs are started ---------------------------------------------------------------


def test_a_command_starts_the_programs_of_the_build() -> None:
    command = [sys.executable, str(ROOT / "benchmarks" / "echo_server.py"), "--loop", "penstock"]
    server = str(ROOT / "build" / "bench-cpp" / "benchmarks" / "cpp" / "server_penstock")
    load = str(ROOT / "build" / "bench" / "echo_client")
    assert OLD.command(command) == [
        sys.executable,
        "/checkouts/old/benchmarks/echo_server.py",
        "--loop",
        "penstock",
    ]
    assert OLD.command([server, "echo"]) == [
        "/checkouts/old/build/bench-cpp/benchmarks/cpp/server_penstock",
        "echo",
    ]
    assert OLD.command([load, "--port", "1"]) == [load, "--port", "1"]
    assert NEW.command(command) == command


def test_a_program_imports_the_package_of_its_build(tmp_path: Path) -> None:
    package = tmp_path / "python" / "penstock"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    command = [sys.executable, "-P", "-c", "import penstock; print(penstock.__file__)"]
    with programs_of(Build("old", tmp_path)):
        assert run(command, None, timeout=60).strip() == str(package / "__init__.py")
    assert str(tmp_path) not in run(command, None, timeout=60)


def test_only_contenders_of_penstock_are_measured_with_both_builds() -> None:
    assert builds_of("uvloop") == builds_of("penstock") == (None,)
    with comparing(OLD, NEW):
        for name in ("penstock", "penstock-threads", "penstock@trio"):
            assert builds_of(name) == (OLD, NEW)
        for name in ("floor", "uvloop", "penstocks"):
            assert builds_of(name) == ()
    assert builds_of("penstock") == (None,)


def test_builds_are_measured_in_turn_each_with_its_programs() -> None:
    started: list[str] = []

    def measure(name: str) -> int:
        (program,) = placed([str(ROOT / "benchmarks" / name)])[0]
        started.append(program)
        return len(started)

    with comparing(OLD, NEW):
        outcomes = alternate(["floor", "penstock"], 2, measure)
    own = str(ROOT / "benchmarks" / "penstock")
    assert started == ["/checkouts/old/benchmarks/penstock", own] * 2
    assert list(outcomes) == ["penstock"]
    assert outcomes["penstock"].old_samples == [1, 3]
    assert outcomes["penstock"].samples == [2, 4]
    assert placed(["x"])[1] == dict(os.environ)


def test_a_build_that_breaks_is_named_and_leaves_no_half_of_a_pair() -> None:
    def measure(name: str) -> int:
        if placed([str(ROOT / "benchmarks")])[0] != [str(ROOT / "benchmarks")]:
            raise Failed("it fell over")
        return 1

    with comparing(OLD, NEW):
        outcome = alternate(["penstock"], 2, measure)["penstock"]
    assert (outcome.samples, outcome.old_samples) == ([], [])
    assert outcome.missing == "old: it fell over"


def test_servers_of_both_builds_are_up_together_and_loaded_in_turn() -> None:
    happened: list[str] = []

    class Up:
        def __init__(self, program: str) -> None:
            self.program = program

        def turn(self, options: argparse.Namespace) -> Sample:
            happened.append(self.program)
            return a_sample(len(happened))

    @contextmanager
    def serve(name: str) -> Iterator[Any]:
        (program,) = placed([str(ROOT / "benchmarks" / name)])[0]
        happened.append(f"+{program}")
        yield Up(program)

    options = argparse.Namespace(rounds=1, turns=2)
    with comparing(OLD, NEW):
        outcomes = in_turns(["floor", "penstock"], options, serve, lambda line: None)
    old, new = "/checkouts/old/benchmarks/penstock", str(ROOT / "benchmarks" / "penstock")
    assert happened == [f"+{old}", f"+{new}", old, new, old, new]
    assert [len(outcomes["penstock"].of(build)) for build in (OLD, NEW)] == [2, 2]


# ---- the arithmetic ---------------------------------------------------------------------------

ROW = RowName(("protocol", "1 KiB"), "penstock", "server_cpu_us_per_request")


def test_a_row_is_the_median_of_its_paired_ratios() -> None:
    (row,) = ratio_rows({ROW: [2.0, 10.0, 4.0]}, {ROW: [3.0, 10.0, 8.0]})
    assert row.pairs == (1.5, 1.0, 2.0)
    assert (row.ratio.median, row.ratio.low, row.ratio.high) == (1.5, 1.0, 2.0)
    assert row.is_beyond(49.9)
    assert not row.is_beyond(50)


def test_the_turns_of_a_round_make_one_pair() -> None:
    old, new = [1.0, 1.0, 1.0, 2.0, 2.0, 2.0], [1.0, 3.0, 2.0, 2.0, 2.0, 8.0]
    (row,) = ratio_rows({ROW: old}, {ROW: new}, turns=3)
    assert row.pairs == (2.0, 1.0)


def test_rounds_without_a_partner_are_left_out() -> None:
    (row,) = ratio_rows({ROW: [1.0, 2.0, 4.0]}, {ROW: [2.0, 4.0]})
    assert row.pairs == (2.0, 2.0)


def test_a_cost_of_nothing_has_no_ratio() -> None:
    with pytest.raises(ValueError, match="protocol, 1 KiB: penstock: a cost of 0 was measured"):
        ratio_rows({ROW: [0.0]}, {ROW: [1.0]})


def test_costs_are_computed_from_the_rounds_of_penstocks_contenders() -> None:
    costs = costs_by_row(a_result(5.0, 6.0), COSTS)
    assert list(costs) == [ROW]
    assert costs[ROW] == pytest.approx([5.0, 6.0])
    assert costs_by_row(a_result(5.0), []) == {}


def test_two_builds_of_one_run_are_compared_by_their_rounds() -> None:
    (row,) = side_by_side_rows(a_result(6.0, 5.0, old=[3.0, 5.0]), COSTS)
    assert row.pairs == pytest.approx((2.0, 1.0))


def test_what_could_not_be_measured_is_named() -> None:
    results = a_result(5.0)
    results["cells"][0]["contenders"] |= {
        "penstock": {"missing": "old: it fell over"},
        "zloop": {"missing": "not installed"},
    }
    assert list(missing_rows(results)) == ["protocol, 1 KiB: penstock: old: it fell over"]
    assert side_by_side_rows(results, COSTS) == []


def test_results_of_different_turns_are_refused() -> None:
    with pytest.raises(ValueError, match=r"old rounds have 1 turns and the new ones 4"):
        result_file_rows(a_result(1.0), a_result(1.0, turns=4), COSTS)


# ---- two result files -------------------------------------------------------------------------


def files(folder: Path, old: dict[str, Any], new: dict[str, Any]) -> tuple[Path, Path]:
    paths = folder / "old.json", folder / "new.json"
    for path, results in zip(paths, (old, new), strict=True):
        path.write_text(json.dumps(results))
    return paths


def test_two_result_files_are_compared_against_the_threshold(tmp_path: Path) -> None:
    paths = files(tmp_path, a_result(5.0, 5.0, 5.0), a_result(5.2, 5.6, 5.4))
    within = compare(*paths, "--json", tmp_path / "ratios.json")
    assert within.returncode == 0, within.stderr
    assert "1.080 (1.040–1.120)" in within.stdout
    beyond = compare(*paths, "--threshold", 7.5)
    assert beyond.returncode == 1
    assert "beyond 7.5 %" in beyond.stdout
    ratios = json.loads((tmp_path / "ratios.json").read_text())
    (row,) = ratios["pages"]["echo"]
    assert row["labels"] == ["protocol", "1 KiB"]
    assert row["contender"] == "penstock"
    assert row["cost"] == "server_cpu_us_per_request"
    assert row["new_to_old"]["median"] == pytest.approx(1.08)
    assert row["pairs"] == pytest.approx([1.04, 1.12, 1.08])
    assert row["beyond"] is False
    assert ratios["old"]["path"] == str(paths[0])


@pytest.mark.parametrize("page", ["echo", "scheduling", "files", "serial", "cpp_echo", "memory"])
def test_a_published_result_equals_itself(page: str) -> None:
    file = ROOT / "benchmarks" / "results" / f"{page}.json"
    done = compare(file, file, "--threshold", 0)
    assert done.returncode == 0, done.stderr
    rows = done.stdout.splitlines()[2:]
    assert rows
    assert all("1.000 (1.000–1.000)" in row for row in rows)


# ---- what is refused --------------------------------------------------------------------------


def test_results_of_different_pages_are_refused(tmp_path: Path) -> None:
    done = compare(*files(tmp_path, a_result(1.0), a_result(1.0, page="tls")))
    assert done.returncode == 2
    assert "is of the page 'echo' and" in done.stderr


@pytest.mark.parametrize(
    ("content", "said"),
    [("not json", "is not JSON"), ("[1]", "holds no results"), ("{}", "holds no results")],
)
def test_a_file_that_holds_no_results_is_refused(tmp_path: Path, content: str, said: str) -> None:
    path = tmp_path / "old.json"
    path.write_text(content)
    done = compare(path, path)
    assert done.returncode == 2
    assert said in done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere", "."], "nowhere does not exist; name a checkout or a result file"),
        ([".", "pyproject.toml"], "are a folder and a file"),
        ([".", "."], "name one with --page"),
        ([".", ".", "--page", "nothing"], "there is no page 'nothing'; choose from"),
        ([".", ".", "--page", "echo,idle"], "the page 'idle' has no cost of an operation"),
        ([".", ".", "--page", "echo", "--pairs", "0"], "--pairs must be at least 1, not 0"),
        (["pyproject.toml", "pyproject.toml", "--page", "echo"], "leave out --page"),
        (["pyproject.toml", "pyproject.toml"], "pyproject.toml is not JSON"),
    ],
)
def test_arguments_that_cannot_be_compared_are_refused_with_the_remedy(
    arguments: list[str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    done = compare(*arguments)
    assert done.returncode == 2
    assert said in done.stderr


def test_a_checkout_without_its_extension_module_is_refused(tmp_path: Path) -> None:
    done = compare(tmp_path, tmp_path, "--page", "scheduling")
    assert done.returncode == 2
    assert f"{tmp_path} has no extension module for {sys.executable}" in done.stderr
    assert "scripts/setup build" in done.stderr


@pytest.mark.skipif(
    importlib.util.find_spec("penstock._core") is None, reason="the extension is not built"
)
def test_a_build_is_compared_with_itself_side_by_side(tmp_path: Path) -> None:
    file = tmp_path / "ratios.json"
    done = compare(
        *(ROOT, ROOT, "--page", "scheduling", "--pairs", 3, "--threshold", 1e6, "--json", file),
        *("--", "--shared-core", "--workload", "call_soon", "--seconds", 0.02, "--warmup", 0),
    )
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(file.read_text())["pages"]["scheduling"]
    assert row["labels"] == ["call_soon"]
    assert row["cost"] == "cpu_ns_per_operation"
    assert len(row["pairs"]) == 3
    assert "call_soon: penstock (old): round 1 of 3" in done.stderr
    assert "call_soon: penstock (new): round 3 of 3" in done.stderr


PAGES = [module.name for module in pkgutil.iter_modules(benchmarks.pages.__path__)]


@pytest.mark.parametrize("name", PAGES)
def test_a_page_takes_its_options_for_a_comparison(name: str) -> None:
    page = importlib.import_module(f"benchmarks.pages.{name}")
    parser = argparse.ArgumentParser()
    page.add_options(parser)
    options = parser.parse_args(page.COMPARISON_OPTIONS)
    assert not page.COSTS or options.rounds >= 1
    assert not any(cost.metric.more_is_better for cost in page.COSTS)
