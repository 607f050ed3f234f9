"""Sinks alone: rows that are ready, into files; beside alicatlib and the bulk writers.

Each contender is a process of its own (``benchmarks/sinks``), in turn, round after round.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.measure.affinity import Cores
from benchmarks.measure.comparison import (
    Comparison,
    Metric,
    metric_panel,
    metric_tables,
    missing_list,
    own_failures,
)
from benchmarks.measure.contenders import FLOOR, OURS
from benchmarks.measure.cost_ratios import Cost
from benchmarks.measure.machine import describe, machine_facts
from benchmarks.measure.native import BENCHMARKS
from benchmarks.measure.options import choices
from benchmarks.measure.page import Report, Say
from benchmarks.measure.plots import Chart
from benchmarks.measure.processes import run
from benchmarks.measure.rounds import alternate

SUMMARY = "Recording: rows that are ready, into CSV, JSON Lines, SQLite, Parquet, PostgreSQL"

PROGRAM = BENCHMARKS / "sinks" / "sink_alone.py"
PACKAGES = ["penstock", "alicatlib", "pyarrow", "psycopg", "anyio"]
PEER = "alicatlib"
MANY = ["csv", "jsonl", "sqlite"]
CODECS = ["parquet-zstd", "parquet-snappy", "parquet-gzip", "parquet-none"]
BATCH = ["csv", "sqlite", "parquet", "folder", "arrow"]
PARTS = ["many", "batch", "postgres"]
BATCH_FACTOR = 10


@dataclass(frozen=True)
class Sample:
    """One round: rows in a second, bytes of a row in the file, CPU time of a row."""

    rows_per_s: float
    bytes_per_row: float
    cpu_us: float


RATE: Metric[Sample] = Metric(
    "rows_per_s", "Thousand rows a second (more is better):", lambda each: each.rows_per_s, 0, 1e3
)
SIZE: Metric[Sample] = Metric(
    "bytes_per_row",
    "Bytes of a row in the file (less is better):",
    lambda each: each.bytes_per_row,
    1,
    more_is_better=False,
)
CPU: Metric[Sample] = Metric(
    "cpu_us",
    "CPU of the process, µs a row (less is better):",
    lambda each: each.cpu_us,
    2,
    more_is_better=False,
)
METRICS = [RATE, SIZE, CPU]
COSTS = [Cost(CPU, Sample)]
COMPARISON_OPTIONS = ["--part", "many", "--contenders", OURS]


def add_options(parser: argparse.ArgumentParser) -> None:
    """The page's own options."""
    contenders = [FLOOR, OURS, PEER]
    parser.add_argument("--rounds", type=int, default=4, help="rounds of each (4)")
    parser.add_argument("--n", type=int, default=100_000, help="rows of a round (100000)")
    parser.add_argument("--folder", help="where the files are written")
    parser.add_argument("--postgres-dsn", help="a server; without one that row is left out")
    parser.add_argument(
        "--part", type=choices("part", PARTS), default=PARTS, help=f"of {','.join(PARTS)}"
    )
    parser.add_argument(
        "--contenders",
        type=choices("contender", contenders),
        default=contenders,
        help=f"of {','.join(contenders)}",
    )
    parser.add_argument("--quick", action="store_true", help="1 round of 5000 rows")


def measure(options: argparse.Namespace, cores: Cores, say: Say) -> Report:
    """Measure the chosen parts."""
    if options.quick:
        options.rounds, options.n = 1, 5_000
    facts = machine_facts(PACKAGES)
    report = Report(
        results={
            "page": "sinks",
            "machine": facts,
            "protocol": {"rounds": options.rounds, "rows": options.n},
        },
        markdown=describe(facts),
    )
    if "many" in options.part:
        comparisons = [
            _compare(options, say, "many", sink, options.n, [OURS, PEER])
            for sink in (*MANY, *CODECS)
        ]
        _add(
            report,
            "many",
            f"## Samples, 64 at a time\n\n{options.n} samples of alicatlib's synthetic workload"
            " are ready as objects of each library; `write_many` takes 64 of them. The time ends"
            " with the closed file. Penstock syncs the file to the disk; alicatlib does not.",
            comparisons,
        )
        report.charts["sinks"] = Chart(
            "Samples into a file (more is better)",
            "thousand rows a second",
            [metric_panel("", comparisons, RATE, lambda each: each.labels[0])],
        )
    if "batch" in options.part:
        rows = BATCH_FACTOR * options.n
        comparisons = [_compare(options, say, "batch", sink, rows, [FLOOR, OURS]) for sink in BATCH]
        _add(
            report,
            "batch",
            f"## Columns, 64 Ki rows at a time\n\n{rows} rows by `write_batch`. The floor is the"
            " bulk writer of pyarrow, or sqlite3's `executemany`, with the same rows: no sync, no"
            " journal, no parts. `folder` is Parquet in parts, `parquet` one file of them.",
            comparisons,
        )
    if "postgres" in options.part and options.postgres_dsn:
        comparisons = [_compare(options, say, "batch", "postgres", options.n, [OURS])]
        _add(report, "postgres", "## PostgreSQL\n\nBinary COPY by `write_batch`.", comparisons)
    return report


def _compare(
    options: argparse.Namespace,
    say: Say,
    task: str,
    sink: str,
    rows: int,
    contenders: Sequence[str],
) -> Comparison[Sample]:
    def measure_round(name: str) -> Sample:
        command = [sys.executable, str(PROGRAM), "--contender", name, "--task", task]
        command += ["--sink", sink, "--rows", str(rows)]
        command += [] if options.folder is None else ["--folder", options.folder]
        command += ["--dsn", options.postgres_dsn] if options.postgres_dsn else []
        return Sample(**json.loads(run(command, None, timeout=120)))

    chosen = [name for name in contenders if name in options.contenders]
    outcomes = alternate(
        chosen, options.rounds, measure_round, report=lambda line: say(f"{task} {sink}: {line}")
    )
    return Comparison((sink,), outcomes)


def _add(
    report: Report, part: str, heading: str, comparisons: Sequence[Comparison[Sample]]
) -> None:
    names = list(dict.fromkeys(name for each in comparisons for name in each.outcomes))
    tables = metric_tables(comparisons, ["sink"], names, METRICS)
    report.markdown = "\n\n".join([report.markdown, heading, *tables, *missing_list(comparisons)])
    report.results[part] = [comparison.as_json(METRICS) for comparison in comparisons]
    report.failures += own_failures(comparisons)
