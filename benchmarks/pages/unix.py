"""Unix-socket echo: the echo page's servers, load and floor on Unix sockets."""

from __future__ import annotations

import argparse

from benchmarks.echo_server import STYLES
from benchmarks.measure.affinity import Cores
from benchmarks.measure.closed_loop import CPU, RATE, Sample, turns_method
from benchmarks.measure.closed_loop_page import add_cells, bars_of, cells_of
from benchmarks.measure.compilers import SYSTEM
from benchmarks.measure.contenders import FLOOR, PACKAGES, PYTHON_FLOOR
from benchmarks.measure.cost_ratios import Cost
from benchmarks.measure.declared_page import DeclaredPage
from benchmarks.measure.echo_stand import LABELS, EchoStand
from benchmarks.measure.machine import machine_facts
from benchmarks.measure.native import build_native
from benchmarks.measure.options import shorten_if_quick
from benchmarks.measure.page import Report, Say

SUMMARY = "Unix-socket echo, closed loop"

COSTS = [Cost(CPU, Sample)]
COMPARISON_OPTIONS = ["--turns", "4"]
PAGE = DeclaredPage(
    name="unix",
    labels=LABELS,
    metrics=[RATE, CPU],
    charts={"unix": bars_of("Unix-socket echo", RATE)},
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """The page's own options."""
    add_cells(parser, list(STYLES), ["protocol", "streams", "native-streams"], [1024], [32])


def measure(options: argparse.Namespace, cores: Cores, say: Say) -> Report:
    """Measure every style, its contenders in turn."""
    facts = machine_facts(PACKAGES, compiler=SYSTEM)
    shorten_if_quick(options)
    stand = EchoStand(build_native(), cores, unix=True)
    contenders = [FLOOR, PYTHON_FLOOR, *options.loops]
    comparisons = [stand.compare(cell, contenders, options, say) for cell in cells_of(options)]
    return PAGE.report(comparisons, facts, turns_method(options, cores))
