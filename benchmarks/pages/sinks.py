"""Sinks alone: rows that are ready, into files; beside alicatlib and the bulk writers.

Each contender is a process of its own (``benchmarks/sinks``), in turn, round after round.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.measure.affinity import Cores
from benchmarks.measure.comparison import Comparison, Metric, compare_in_rounds
from benchmarks.measure.contenders import FLOOR, OURS
from benchmarks.measure.cost_ratios import Cost
from benchmarks.measure.declared_page import Bars
from benchmarks.measure.machine import machine_facts
from benchmarks.measure.native import BENCHMARKS
from benchmarks.measure.options import add_choices
from benchmarks.measure.page import Method, Report, Say
from benchmarks.measure.processes import figures_of

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
CHART = Bars("Samples into a file (more is better)", "thousand rows a second", RATE)


def add_options(parser: argparse.ArgumentParser) -> None:
    """The page's own options."""
    parser.add_argument("--rounds", type=int, default=4, help="rounds of each (4)")
    parser.add_argument("--n", type=int, default=100_000, help="rows of a round (100000)")
    parser.add_argument("--folder", help="where the files are written")
    parser.add_argument("--postgres-dsn", help="a server; without one that row is left out")
    add_choices(parser, "--part", "part", PARTS)
    add_choices(parser, "--contenders", "contender", [FLOOR, OURS, PEER])
    parser.add_argument("--quick", action="store_true", help="1 round of 5000 rows")


def measure(options: argparse.Namespace, cores: Cores, say: Say) -> Report:
    """Measure the chosen parts."""
    if options.quick:
        options.rounds, options.n = 1, 5_000
    method = Method({"rounds": options.rounds, "rows": options.n})
    report = Report.begin("sinks", machine_facts(PACKAGES), method)

    def add(part: str, text: str, comparisons: Sequence[Comparison[Sample]]) -> None:
        report.add_part(part, comparisons, ["sink"], METRICS, text)

    def compare(
        task: str, sinks: Sequence[str], rows: int, contenders: Sequence[str]
    ) -> list[Comparison[Sample]]:
        def measure_round(sink: str, name: str) -> Sample:
            command = [sys.executable, str(PROGRAM), "--contender", name, "--task", task]
            command += ["--sink", sink, "--rows", str(rows)]
            command += [] if options.folder is None else ["--folder", options.folder]
            command += ["--dsn", options.postgres_dsn] if options.postgres_dsn else []
            return Sample(**figures_of(command, None, timeout=120))

        return compare_in_rounds(
            {(sink,): sink for sink in sinks},
            [name for name in contenders if name in options.contenders],
            options.rounds,
            measure_round,
            lambda line: say(f"{task} {line}"),
        )

    if "many" in options.part:
        comparisons = compare("many", [*MANY, *CODECS], options.n, [OURS, PEER])
        add(
            "many",
            f"## Samples, 64 at a time\n\n{options.n} samples of alicatlib's synthetic workload"
            " are ready as objects of each library; `write_many` takes 64 of them. The time ends"
            " with the closed file. Penstock syncs the file to the disk; alicatlib does not.",
            comparisons,
        )
        report.charts["sinks"] = CHART.drawn(comparisons)
    if "batch" in options.part:
        rows = BATCH_FACTOR * options.n
        add(
            "batch",
            f"## Columns, 64 Ki rows at a time\n\n{rows} rows by `write_batch`. The floor is the"
            " bulk writer of pyarrow, or sqlite3's `executemany`, with the same rows: no sync, no"
            " journal, no parts. `folder` is Parquet in parts, `parquet` one file of them.",
            compare("batch", BATCH, rows, [FLOOR, OURS]),
        )
    if "postgres" in options.part and options.postgres_dsn:
        comparisons = compare("batch", ["postgres"], options.n, [OURS])
        add("postgres", "## PostgreSQL\n\nBinary COPY by `write_batch`.", comparisons)
    return report
