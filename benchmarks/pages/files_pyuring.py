"""The table of pyuring's benchmark page, like for like: N files written, then read back.

That page compares one operation for a whole file, into pages of C's, with plain calls of 64 KiB
that copy. Here every contender has the same block size and fresh files, and its reads are bytes;
``pyuring-page`` alone is that page's way, shown beside them. CPU time and system calls stand beside
the wall time.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.measure.affinity import Cores
from benchmarks.measure.comparison import (
    Comparison,
    metric_panel,
    metric_tables,
    missing_list,
    own_failures,
)
from benchmarks.measure.file_stand import (
    FLOORS,
    FileStand,
    Sample,
    add_stand_options,
    time_metrics,
    working_folder,
)
from benchmarks.measure.machine import describe, machine_facts
from benchmarks.measure.native import build_native
from benchmarks.measure.options import add_rounds, shorten_if_quick
from benchmarks.measure.page import Report, Say
from benchmarks.measure.plots import Chart
from benchmarks.measure.processes import Failed, Unavailable
from benchmarks.measure.rounds import alternate
from benchmarks.measure.tables import markdown_table

SUMMARY = "Files, pyuring's table: write N files and read them back"

PACKAGES = ["penstock", "pyuring", "uringio", "aiofiles", "anyio", "caio"]
LABELS = ["files", "blocks", "phase"]
BLOCK = 64 << 10
DEFAULT_SETS = ((8, 2), (100, 10))  # files and MiB of each, as that page has them
PHASES = ("write", "read")


@dataclass(frozen=True)
class Cell:
    """One row of the table."""

    files: int
    mib: int
    block: int
    phase: str

    @property
    def labels(self) -> tuple[str, ...]:
        """As the table shows it."""
        blocks = f"{self.block >> 10} KiB" if self.block else "whole"
        return (f"{self.files} × {self.mib} MiB", blocks, self.phase)

    @property
    def arguments(self) -> list[str]:
        """For the measured program."""
        sizes = ["--files", str(self.files), "--size", str(self.mib << 20)]
        return [*sizes, "--block", str(self.block)]


METRICS = time_metrics("file", "a file", digits=0)
WALL = METRICS[0]


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
        help="past the page cache (no)",
    )
    parser.add_argument(
        "--clear-cache", action="store_true", help="read files that are not in the page cache"
    )
    parser.add_argument("--keep-files", action="store_true", help="do not remove the folder")
    parser.add_argument(
        "--syscalls",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="count system calls, in a pass of its own under strace (yes)",
    )
    add_rounds(parser, rounds=3, seconds=0.5, warmup=0.1)


def measure(options: argparse.Namespace, cores: Cores, say: Say) -> Report:
    """Measure every cell, the contenders in turn."""
    facts = machine_facts(PACKAGES)
    shorten_if_quick(options)
    contenders = [*FLOORS, *options.peers]
    cells = _cells(options)
    common = ["--depth", str(options.qd)]
    common += ["--direct"] if options.odirect else []
    common += ["--clear-cache"] if options.clear_cache else []
    with working_folder(options.folder, keep=options.keep_files) as folder:
        stand = FileStand(folder, build_native(), options)
        comparisons = []
        calls: list[dict[str, dict[str, int]]] = []
        for cell in cells:
            arguments = [*cell.arguments, *common]
            comparison = _compare(cell, contenders, arguments, stand, options, say)
            comparisons.append(comparison)
            if options.syscalls:
                calls.append(_count_calls(cell, comparison, arguments, stand, say))
        if options.keep_files:
            say(f"the files are in {folder}")
    parts = [
        describe(facts),
        f"Median of {options.rounds} rounds of at least {options.seconds:g} s with the lowest and"
        f" highest round, contenders in turn, on all cores; {_conditions(options)}.",
        *metric_tables(comparisons, LABELS, contenders, METRICS),
    ]
    if calls:
        parts += ["System calls a file, all threads (of a pass under strace):"]
        parts += [_call_table(comparisons, calls, contenders)]
    parts += missing_list(comparisons)
    panels = [
        metric_panel(
            f"{files} × {mib} MiB",
            [each for each, cell in zip(comparisons, cells, strict=True) if cell.files == files],
            WALL,
            lambda each: f"{each.labels[2]}, {each.labels[1]}",
        )
        for files, mib in _sets(options)
    ]
    return Report(
        results={
            "page": "files_pyuring",
            "machine": facts,
            "protocol": {
                "rounds": options.rounds,
                "seconds": options.seconds,
                "warmup_seconds": options.warmup,
                "queue_depth": options.qd,
                "o_direct": options.odirect,
                "clear_cache": options.clear_cache,
            },
            "cells": [comparison.as_json(METRICS) for comparison in comparisons],
            "syscalls": calls,
        },
        markdown="\n\n".join(parts),
        charts={"files_pyuring": Chart("Files (less is better)", "µs a file", panels)},
        failures=own_failures(comparisons),
    )


def _sets(options: argparse.Namespace) -> Sequence[tuple[int, int]]:
    if options.num_files is None and options.file_size_mb is None:
        return DEFAULT_SETS[:1] if options.quick else DEFAULT_SETS
    return ((options.num_files or 100, options.file_size_mb or 10),)


def _cells(options: argparse.Namespace) -> list[Cell]:
    return [
        Cell(files, mib, block, phase)
        for files, mib in _sets(options)
        for block in (BLOCK, 0)
        for phase in PHASES
    ]


def _conditions(options: argparse.Namespace) -> str:
    if options.odirect:
        return "past the page cache (O_DIRECT)"
    return "read from the disk" if options.clear_cache else "through the page cache"


def _compare(
    cell: Cell,
    contenders: Sequence[str],
    arguments: Sequence[str],
    stand: FileStand,
    options: argparse.Namespace,
    say: Say,
) -> Comparison[Sample]:
    outcomes = alternate(
        contenders,
        options.rounds,
        lambda name: stand.measure(name, cell.phase, *arguments),
        report=lambda line: say(f"{', '.join(cell.labels)}: {line}"),
    )
    return Comparison(cell.labels, outcomes)


def _count_calls(
    cell: Cell,
    comparison: Comparison[Sample],
    arguments: Sequence[str],
    stand: FileStand,
    say: Say,
) -> dict[str, dict[str, int]]:
    counts: dict[str, dict[str, int]] = {}
    for name in comparison.outcomes:
        if not comparison.samples(name):
            continue
        try:
            counts[name] = dict(stand.syscalls(name, cell.phase, *arguments))
        except (Unavailable, Failed) as error:
            say(f"{comparison}: {name} under strace: {error}")
    return counts


def _call_table(
    comparisons: Sequence[Comparison[Sample]],
    calls: Sequence[dict[str, dict[str, int]]],
    contenders: Sequence[str],
) -> str:
    def cell(labels: tuple[str, ...], counts: dict[str, int] | None) -> str:
        if counts is None:
            return "n/a"
        files = int(labels[0].split()[0])
        total = Counter(counts).total() / files
        return f"{total:.1f}"

    rows = [
        [*comparison.labels, *(cell(comparison.labels, counts.get(name)) for name in contenders)]
        for comparison, counts in zip(comparisons, calls, strict=True)
    ]
    return markdown_table([*LABELS, *contenders], rows, labels=len(LABELS))
