"""The table of pyuring's benchmark page with equal work: N files written, then read back.

That page compares one operation for a whole file, into C pages, with plain calls of 64 KiB that
copy. Here every contender has the same block size, new files, and reads that return bytes.
``pyuring-page`` reproduces that page's method for reference. CPU time and system calls are shown
beside the wall time.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks.measure.affinity import Cores
from benchmarks.measure.comparison import Comparison
from benchmarks.measure.compilers import SYSTEM
from benchmarks.measure.cost_ratios import Cost
from benchmarks.measure.declared_page import Bars, DeclaredPage, first_label, in_panels
from benchmarks.measure.file_stand import (
    FLOORS,
    FileStand,
    Phases,
    Sample,
    add_stand_options,
    both,
    time_metrics,
    working_folder,
)
from benchmarks.measure.machine import machine_facts
from benchmarks.measure.native import build_native
from benchmarks.measure.options import add_rounds, shorten_if_quick
from benchmarks.measure.page import Method, Report, Say
from benchmarks.measure.processes import Failed, Unavailable
from benchmarks.measure.rounds import Outcome, alternate
from benchmarks.measure.spread import paired_ratio
from benchmarks.measure.tables import figure, markdown_table

SUMMARY = "Files, pyuring's table: write N files and read them back"

PACKAGES = ["penstock", "pyuring", "uringio", "aiofiles", "anyio", "caio"]
BLOCK = 64 << 10
DEFAULT_SETS = ((8, 2), (100, 10))  # number of files and MiB of each, as on that page
DIRECT_SET = (50, 20)  # with O_DIRECT and this many in flight, as on that page
DIRECT_DEPTH = 64
OS = "os"
PHASES = ("write", "read")
# A set of more MiB than this is measured in fewer rounds, because each takes seconds.
LARGE, LARGE_ROUNDS = 256, 2
TRACED_FILES = 32  # the default number in flight; strace makes each call slow


@dataclass(frozen=True)
class Cell:
    """Two rows of the table, one for each phase: files that are written and read back."""

    files: int
    mib: int
    block: int
    direct: bool = False
    depth: int = 32

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels in the table, without the phase."""
        blocks = f"{self.block >> 10} KiB" if self.block else "whole"
        direct = f", O_DIRECT, {self.depth} in flight" if self.direct else ""
        return (f"{self.files} × {self.mib} MiB{direct}", blocks)

    @property
    def traced_files(self) -> int:
        """The number of files that are written and read under strace."""
        return min(self.files, TRACED_FILES)

    def rounds(self, asked: int) -> int:
        """The number of rounds."""
        return min(asked, LARGE_ROUNDS) if self.files * self.mib > LARGE else asked

    def arguments(self, files: int) -> list[str]:
        """Arguments of the measured program for a number of files."""
        sizes = ["--files", str(files), "--size", str(self.mib << 20)]
        depth = ["--depth", str(self.depth)]
        return [*sizes, "--block", str(self.block), *depth, *(["--direct"] if self.direct else [])]


METRICS = time_metrics("file", "per file", digits=0)
WALL = METRICS[0]
COSTS = [Cost(WALL, Sample)]
COMPARISON_OPTIONS = [
    *("--peers", "penstock"),
    *("--num-files", "8", "--file-size-mb", "2"),
    "--no-syscalls",
]
PAGE = DeclaredPage(
    name="files_pyuring",
    labels=["files", "blocks", "phase"],
    metrics=METRICS,
    charts={
        "files_pyuring": Bars(
            "Files (less is better)",
            "µs per file",
            WALL,
            in_panels(lambda each: f"{each.labels[2]}, {each.labels[1]}", title=first_label),
        )
    },
)

Calls = dict[str, dict[str, float]]
"""System calls per file, by contender and by name."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """The page's own options: pyuring's page has the same, with its names."""
    add_stand_options(parser)
    parser.add_argument("--num-files", type=int, help="files (8 and 100)")
    parser.add_argument("--file-size-mb", type=int, help="MiB of each (2 and 10)")
    parser.add_argument("--qd", type=int, default=32, help="operations a ring has in flight (32)")
    parser.add_argument(
        "--odirect",
        action=argparse.BooleanOptionalAction,
        default=False,
        help="bypass the page cache (no)",
    )
    parser.add_argument(
        "--clear-cache", action="store_true", help="read files that are not in the page cache"
    )
    parser.add_argument("--keep-files", action="store_true", help="do not remove the folder")
    parser.add_argument(
        "--syscalls",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="count system calls, in a separate pass under strace (yes)",
    )
    add_rounds(parser, rounds=3, seconds=0.5, warmup=0.1)


def measure(options: argparse.Namespace, cores: Cores, say: Say) -> Report:
    """Measure every cell, the contenders in turn."""
    facts = machine_facts(PACKAGES, libraries=["liburing-dev"], compiler=SYSTEM)
    shorten_if_quick(options)
    contenders = [*FLOORS, *options.peers]
    cells = _cells(options)
    common = ["--clear-cache"] if options.clear_cache else []
    comparisons: list[Comparison[Sample]] = []
    together: list[Comparison[Sample]] = []
    calls: list[Calls] = []
    with working_folder(options.folder, keep=options.keep_files) as folder:
        stand = FileStand(folder, build_native(), options)
        for cell in cells:
            # The floor's program knows the page cache only.
            floors = () if cell.direct or options.clear_cache else FLOORS
            compared_here = [*floors, *options.peers]
            *compared, combined = _compare(cell, compared_here, common, stand, options, say)
            comparisons += compared
            together.append(combined)
            if options.syscalls:
                calls += _count_calls(cell, compared[0], common, stand, say)
        if options.keep_files:
            say(f"the files are in {folder}")
    further = [
        "Writing and reading together, as that page counts: how many times as fast as `os`:",
        _times_as_fast(together, [name for name in contenders if name != OS]),
    ]
    if calls:
        further += [
            "System calls per file, all threads (from a pass under strace, over at most"
            f" {TRACED_FILES} of the files):",
            _call_table(comparisons, calls, contenders),
        ]
    report = PAGE.report(
        comparisons, facts, _method(cells, options), contenders=contenders, further=further
    )
    report.results["together"] = [comparison.as_json(METRICS) for comparison in together]
    report.results["syscalls"] = calls
    return report


def _method(cells: Sequence[Cell], options: argparse.Namespace) -> Method:
    return Method(
        {
            "rounds": {cell.labels[0]: cell.rounds(options.rounds) for cell in cells},
            "traced_files": {cell.labels[0]: cell.traced_files for cell in cells},
            "seconds": options.seconds,
            "warmup_seconds": options.warmup,
            "queue_depth": options.qd,
            "o_direct": options.odirect,
            "clear_cache": options.clear_cache,
        },
        f"Median of {options.rounds} rounds of at least {options.seconds:g} s with the lowest and"
        f" highest round{_fewer_rounds(cells, options)}, contenders in turn, on all cores;"
        f" {_conditions(options)}.",
    )


def _sets(options: argparse.Namespace) -> Sequence[tuple[int, int]]:
    if options.num_files is None and options.file_size_mb is None:
        return DEFAULT_SETS[:1] if options.quick else DEFAULT_SETS
    return ((options.num_files or 100, options.file_size_mb or 10),)


def _cells(options: argparse.Namespace) -> list[Cell]:
    cells = [
        Cell(files, mib, block, options.odirect, options.qd)
        for files, mib in _sets(options)
        for block in (BLOCK, 0)
    ]
    if _sets(options) == DEFAULT_SETS:
        cells += [Cell(*DIRECT_SET, block, True, DIRECT_DEPTH) for block in (BLOCK, 0)]
    return cells


def _fewer_rounds(cells: Sequence[Cell], options: argparse.Namespace) -> str:
    fewer = {
        f"{cell.labels[0]}: {rounds}"
        for cell in cells
        if (rounds := cell.rounds(options.rounds)) < options.rounds
    }
    return f" ({', '.join(sorted(fewer))})" if fewer else ""


def _conditions(options: argparse.Namespace) -> str:
    if options.odirect:
        return "past the page cache (O_DIRECT)"
    if _sets(options) == DEFAULT_SETS:
        return "through the page cache except with O_DIRECT"
    return "read from the disk" if options.clear_cache else "through the page cache"


def _compare(
    cell: Cell,
    contenders: Sequence[str],
    common: Sequence[str],
    stand: FileStand,
    options: argparse.Namespace,
    say: Say,
) -> list[Comparison[Sample]]:
    """The rows of a cell, the last of both phases. A round reads the files that it has written."""
    outcomes = alternate(
        contenders,
        cell.rounds(options.rounds),
        lambda name: stand.measure_phases(name, *cell.arguments(cell.files), *common),
        report=lambda line: say(f"{', '.join(cell.labels)}: {line}"),
    )

    def phase(which: Callable[[Phases], Sample]) -> dict[str, Outcome[Sample]]:
        return {name: outcome.map(which) for name, outcome in outcomes.items()}

    return [
        Comparison((*cell.labels, "write"), phase(lambda phases: phases.write)),
        Comparison((*cell.labels, "read"), phase(lambda phases: phases.read)),
        Comparison(cell.labels, phase(lambda phases: both([phases.write, phases.read]))),
    ]


def _times_as_fast(comparisons: Sequence[Comparison[Sample]], contenders: Sequence[str]) -> str:
    def cell(comparison: Comparison[Sample], name: str) -> str:
        plain, other = comparison.values(OS, WALL), comparison.values(name, WALL)
        return figure(paired_ratio(plain, other), 2) if plain and other else "n/a"

    rows = [[*each.labels, *(cell(each, name) for name in contenders)] for each in comparisons]
    return markdown_table(["files", "blocks", *contenders], rows, labels=2)


def _count_calls(
    cell: Cell,
    comparison: Comparison[Sample],
    common: Sequence[str],
    stand: FileStand,
    say: Say,
) -> list[Calls]:
    """The system calls per file for the rows of a cell, by contender."""
    counts: dict[str, Calls] = {phase: {} for phase in PHASES}
    files = cell.traced_files
    for name in comparison.outcomes:
        if not comparison.samples(name):
            continue
        try:
            phases = stand.phase_syscalls(name, *cell.arguments(files), *common)
        except (Unavailable, Failed) as error:
            say(f"{', '.join(cell.labels)}: {name} under strace: {error}")
            continue
        for phase, calls in phases.items():
            counts[phase][name] = {call: count / files for call, count in calls.items()}
    return list(counts.values())


def _call_table(
    comparisons: Sequence[Comparison[Sample]], calls: Sequence[Calls], contenders: Sequence[str]
) -> str:
    def cell(counts: dict[str, float] | None) -> str:
        return "n/a" if counts is None else f"{sum(counts.values()):.1f}"

    rows = [
        [*comparison.labels, *(cell(counts.get(name)) for name in contenders)]
        for comparison, counts in zip(comparisons, calls, strict=True)
    ]
    return markdown_table([*PAGE.labels, *contenders], rows, labels=len(PAGE.labels))
