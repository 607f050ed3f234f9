"""The report of a page that measures the echo servers of C++ libraries."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from benchmarks.measure.affinity import Cores
from benchmarks.measure.closed_loop import CPU, Sample, protocol_facts, protocol_sentence
from benchmarks.measure.comparison import (
    Comparison,
    Metric,
    metric_panel,
    metric_tables,
    missing_list,
    own_failures,
)
from benchmarks.measure.contenders import FLOOR
from benchmarks.measure.echo_stand import Cell, EchoStand
from benchmarks.measure.machine import describe
from benchmarks.measure.page import Report, Say
from benchmarks.measure.plots import Chart

LABELS = ["message", "connections"]


def compare_cells(
    stand: EchoStand, style: str, options: argparse.Namespace, say: Say
) -> list[Comparison[Sample]]:
    """Measure every size and number of connections, the libraries in turn."""
    contenders = [FLOOR, *options.libraries]
    comparisons = []
    for connections in options.connections:
        for size in options.sizes:
            comparison = stand.compare(Cell(style, size, connections), contenders, options, say)
            comparisons.append(Comparison(comparison.labels[1:], comparison.outcomes))
    return comparisons


def echo_report(
    page: str,
    what: str,
    facts: dict[str, object],
    comparisons: Sequence[Comparison[Sample]],
    metrics: Sequence[Metric[Sample]],
    options: argparse.Namespace,
    cores: Cores,
) -> Report:
    """The tables and the chart of ``page``; ``what`` begins the title of the chart."""
    parts = [
        describe(facts),
        protocol_sentence(options),
        *metric_tables(comparisons, LABELS, [FLOOR, *options.libraries], metrics),
        *missing_list(comparisons),
    ]
    panel = metric_panel("", comparisons, CPU, lambda each: f"{each.labels[0]}, {each.labels[1]}")
    return Report(
        results={
            "page": page,
            "machine": facts,
            "protocol": protocol_facts(options, cores),
            "cells": [comparison.as_json(metrics) for comparison in comparisons],
        },
        markdown="\n\n".join(parts),
        charts={
            page: Chart(f"{what}: server CPU per request (less is better)", "µs / request", [panel])
        },
        failures=own_failures(comparisons),
    )
