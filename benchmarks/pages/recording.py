"""Recordings: many instruments into files, and samples through ``pipe()`` beside alicatlib.

The instruments answer at once, on ptys, from a process on another core. Each run is a process of
its own (``benchmarks/recording``).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.measure.affinity import Cores
from benchmarks.measure.comparison import Metric, compare_in_rounds
from benchmarks.measure.contenders import OURS
from benchmarks.measure.cost_ratios import Cost
from benchmarks.measure.declared_page import Bars
from benchmarks.measure.machine import machine_facts
from benchmarks.measure.native import BENCHMARKS
from benchmarks.measure.options import add_choices
from benchmarks.measure.page import Method, Report, Say
from benchmarks.measure.processes import figures_of
from benchmarks.measure.rounds import about

SUMMARY = "Recordings: 32 devices at 50 Hz, 8 at 200 Hz, samples through pipe()"

PROGRAMS = BENCHMARKS / "recording"
PACKAGES = ["penstock", "alicatlib", "pyarrow", "anyio"]
PARTS = ["many", "fast", "pipe"]
SINKS = ["csv", "jsonl", "sqlite", "parquet"]
ALL_SINKS = "csv,jsonl,sqlite,arrow,parquet"
FAST_SINKS = "parquet,csv"
WITH_NULL, WITH_ALL = "null sink", "penstock"
"""The contenders of many devices: the same recording into nothing, and into all sinks."""
ALIGNMENTS = {"start": "together", "spread": "spread"}
GRACE = 60.0


@dataclass(frozen=True)
class Recorded:
    """One recording."""

    rows: int
    errors: int
    late_percent: float
    skipped_percent: float
    cpu_percent: float
    cpu_us: float
    growth_bytes: int
    resident_bytes: int
    bytes_a_row: float


@dataclass(frozen=True)
class Piped:
    """Samples through ``pipe()`` into a sink."""

    samples_a_second: float
    cpu_us: float
    bytes_a_sample: float


LATE: Metric[Recorded] = Metric(
    "late_percent",
    "Polls that came more than half a period after their slot, or not at all, % (less is better):",
    lambda each: each.late_percent,
    3,
    more_is_better=False,
)
SKIPPED: Metric[Recorded] = Metric(
    "skipped_percent",
    "Slots that the recorder skipped, % of all:",
    lambda each: each.skipped_percent,
    3,
    more_is_better=False,
)
SHARE: Metric[Recorded] = Metric(
    "cpu_percent",
    "CPU of the process with all its threads, % of a core:",
    lambda each: each.cpu_percent,
    1,
    more_is_better=False,
)
ROW_CPU: Metric[Recorded] = Metric(
    "cpu_us",
    "CPU, µs a row, from the question to the file:",
    lambda each: each.cpu_us,
    1,
    more_is_better=False,
)
GROWTH: Metric[Recorded] = Metric(
    "growth_kib",
    "Growth of the memory after the first tenth of the run, KiB:",
    lambda each: each.growth_bytes,
    0,
    1024,
    more_is_better=False,
)
RECORDED_METRICS = [LATE, SKIPPED, SHARE, ROW_CPU, GROWTH]
SPEED: Metric[Piped] = Metric(
    "samples_a_second",
    "Thousands of samples a second, making them included (more is better):",
    lambda each: each.samples_a_second,
    1,
    1000.0,
)
SAMPLE_CPU: Metric[Piped] = Metric(
    "cpu_us",
    "CPU, µs a sample:",
    lambda each: each.cpu_us,
    2,
    more_is_better=False,
)
SIZE: Metric[Piped] = Metric(
    "bytes_a_sample",
    "Bytes a sample on disk (less is better):",
    lambda each: each.bytes_a_sample,
    1,
    more_is_better=False,
)
PIPED_METRICS = [SPEED, SAMPLE_CPU, SIZE]
COSTS: list[Cost[Any]] = [Cost(ROW_CPU, Recorded), Cost(SAMPLE_CPU, Piped)]
COMPARISON_OPTIONS = ["--part", "pipe", "--contenders", "penstock", "--samples", "50000"]
CHART = Bars("Samples through pipe() (more is better)", "thousand samples a second", SPEED)


def add_options(parser: argparse.ArgumentParser) -> None:
    """The page's own options."""
    parser.add_argument("--rounds", type=int, default=3, help="rounds of each (3)")
    add_choices(parser, "--part", "part", PARTS)
    parser.add_argument("--ports", type=int, default=32, help="devices of part many (32)")
    parser.add_argument("--rate", type=float, default=50.0, help="their polls a second (50)")
    parser.add_argument("--seconds", type=float, default=30.0, help="of each run of many (30)")
    parser.add_argument("--fast-ports", type=int, default=8, help="devices of part fast (8)")
    parser.add_argument("--fast-rate", type=float, default=200.0, help="their rate (200)")
    parser.add_argument("--fast-seconds", type=float, default=60.0, help="of one run (60)")
    parser.add_argument("--fast-rounds", type=int, default=2, help="rounds of part fast (2)")
    parser.add_argument("--samples", type=int, default=100_000, help="of part pipe (100000)")
    add_choices(parser, "--sinks", "sink", SINKS)
    contenders = [OURS, "alicatlib"]
    described = "of part pipe: penstock,alicatlib"
    add_choices(parser, "--contenders", "contender", contenders, described=described)
    parser.add_argument("--quick", action="store_true", help="1 round, 2 seconds, 2000 samples")


def measure(options: argparse.Namespace, cores: Cores, say: Say) -> Report:
    """Measure the chosen parts."""
    if options.quick:
        options.rounds = options.fast_rounds = 1
        options.seconds = options.fast_seconds = 2.0
        options.samples = 2000
    method = Method(
        {
            "rounds": options.rounds,
            "ports": options.ports,
            "rate_hz": options.rate,
            "seconds": options.seconds,
            "fast_ports": options.fast_ports,
            "fast_rate_hz": options.fast_rate,
            "fast_seconds": options.fast_seconds,
            "samples": options.samples,
        }
    )
    report = Report.begin("recording", machine_facts(PACKAGES), method)
    parts = {"many": _measure_many, "fast": _measure_fast, "pipe": _measure_pipe}
    for part in options.part:
        parts[part](options, cores, about([part], say), report)
    return report


def _measure_many(options: argparse.Namespace, cores: Cores, say: Say, report: Report) -> None:
    sinks = {WITH_NULL: "null", WITH_ALL: ALL_SINKS}
    ports, rate, seconds = options.ports, options.rate, options.seconds
    comparisons = compare_in_rounds(
        {(f"{ports} at {rate:g} Hz",): sinks},
        list(sinks),
        options.rounds,
        lambda into, name: _record(ports, rate, seconds, into[name], cores),
        say,
    )
    report.add_part(
        "many",
        comparisons,
        ["devices"],
        RECORDED_METRICS,
        "## Many devices into all sinks",
        f"Each device on a port of its own, for {seconds:g} s; into"
        f" {ALL_SINKS.replace(',', ', ')} at once, and into a sink that keeps nothing.",
    )


def _measure_fast(options: argparse.Namespace, cores: Cores, say: Say, report: Report) -> None:
    sinks = {WITH_NULL: "null", WITH_ALL: FAST_SINKS}
    ports, rate, seconds = options.fast_ports, options.fast_rate, options.fast_seconds
    comparisons = compare_in_rounds(
        {(f"{ports} at {rate:g} Hz", slots): alignment for alignment, slots in ALIGNMENTS.items()},
        list(sinks),
        options.fast_rounds,
        lambda alignment, name: _record(ports, rate, seconds, sinks[name], cores, alignment),
        say,
    )
    report.add_part(
        "fast",
        comparisons,
        ["devices", "slots"],
        RECORDED_METRICS,
        "## Fast devices into Parquet and CSV",
        f"Each device on a port of its own, for {seconds:g} s; into"
        f" {FAST_SINKS.replace(',', ' and ')}, and into a sink that keeps nothing. The slots of all"
        " devices lie together, which is the default, or are spread over the period.",
    )


def _measure_pipe(options: argparse.Namespace, cores: Cores, say: Say, report: Report) -> None:
    def measure_round(sink: str, name: str) -> Piped:
        arguments = ["--contender", name, "--sink", sink, "--samples", str(options.samples)]
        # The work on the other core is that of the sinks' threads.
        return Piped(**_output("synthetic.py", arguments, None, GRACE))

    comparisons = compare_in_rounds(
        {(sink,): sink for sink in options.sinks},
        options.contenders,
        options.rounds,
        measure_round,
        say,
    )
    report.add_part(
        "pipe",
        comparisons,
        ["sink"],
        PIPED_METRICS,
        "## Samples through pipe()",
        f"{options.samples} samples of one device with one value, which each library makes itself,"
        " in batches of 64 through its `pipe()`. Penstock's rows have more columns: the exact times"
        " of both ends on both clocks, the error, lateness and events.",
    )
    report.charts["recording"] = CHART.drawn(comparisons)


def _record(
    ports: int, rate: float, seconds: float, sinks: str, cores: Cores, alignment: str = "start"
) -> Recorded:
    arguments = ["--ports", str(ports), "--rate", str(rate), "--alignment", alignment]
    arguments += ["--seconds", str(seconds), "--sinks", sinks]
    return Recorded(**_output("fleet.py", arguments, cores.server, seconds + GRACE))


def _output(program: str, arguments: Sequence[str], core: int | None, timeout: float) -> Any:
    command = [sys.executable, str(PROGRAMS / program), *arguments]
    return figures_of(command, core, timeout=timeout)
