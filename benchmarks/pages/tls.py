"""TLS echo: the echo page's servers with TLS 1.3, beside an OpenSSL epoll server in C++."""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import dataclass
from pathlib import Path

from benchmarks.echo_server import STYLES
from benchmarks.measure.affinity import Cores
from benchmarks.measure.certificate import make_certificate
from benchmarks.measure.closed_loop import CPU, RATE, Sample, protocol_facts, protocol_sentence
from benchmarks.measure.comparison import (
    metric_panel,
    metric_tables,
    missing_list,
    own_failures,
)
from benchmarks.measure.compilers import SYSTEM
from benchmarks.measure.contenders import FASTNET_LOOPS, FLOOR, PACKAGES
from benchmarks.measure.cost_ratios import Cost
from benchmarks.measure.echo_stand import LABELS, Cell, EchoStand
from benchmarks.measure.machine import describe, machine_facts
from benchmarks.measure.native import BuildFailed, build_native
from benchmarks.measure.options import add_loops, add_turns, choices, numbers, shorten_if_quick
from benchmarks.measure.page import Report, Say
from benchmarks.measure.plots import Chart

SUMMARY = "TLS echo, closed loop"

METRICS = [RATE, CPU]
COSTS = [Cost(CPU, Sample)]
COMPARISON_OPTIONS = ["--turns", "4"]


@dataclass(frozen=True)
class TlsStand(EchoStand):
    """The echo stand with a certificate; the load does not check it."""

    certificate: Path = Path("certificate.pem")
    key: Path = Path("key.pem")

    def server_command(self, name: str, style: str, *options: str) -> list[str]:
        """The command of the server called ``name``, the floor or a loop."""
        files = [str(self.certificate), str(self.key)]
        if name == FLOOR:
            return [str(self.native / "tls_echo_floor"), *files]
        command = super().server_command(name, style, *options)
        return [*command, "--certificate", files[0], "--key", files[1]]


def add_options(parser: argparse.ArgumentParser) -> None:
    """The page's own options."""
    add_loops(parser, FASTNET_LOOPS)
    styles = [style for style in STYLES if style != "sock"]
    parser.add_argument(
        "--styles",
        type=choices("style", styles),
        default=["protocol", "streams"],
        help=f"of {','.join(styles)}",
    )
    parser.add_argument("--sizes", type=numbers, default=[1024, 16384], help="in bytes")
    parser.add_argument("--connections", type=numbers, default=[32], help="e.g. 3,32")
    add_turns(parser)


def measure(options: argparse.Namespace, cores: Cores, say: Say) -> Report:
    """Measure every style and size, its contenders in turn."""
    facts = machine_facts(PACKAGES, libraries=["libssl-dev"], compiler=SYSTEM)
    shorten_if_quick(options)
    native = build_native()
    if not (native / "tls_echo_floor").exists():
        raise BuildFailed("OpenSSL's headers are missing (libssl-dev); scripts/setup bench")
    contenders = [FLOOR, *options.loops]
    with tempfile.TemporaryDirectory() as folder:
        certificate, key = make_certificate(Path(folder))
        stand = TlsStand(native, cores, load="tls_echo_client", certificate=certificate, key=key)
        comparisons = [
            stand.compare(Cell(style, size, connections), contenders, options, say)
            for style in options.styles
            for size in options.sizes
            for connections in options.connections
        ]
    parts = [
        describe(facts),
        protocol_sentence(options),
        *metric_tables(comparisons, LABELS, contenders, METRICS),
        *missing_list(comparisons),
    ]
    panel = metric_panel("", comparisons, CPU, lambda comparison: ", ".join(comparison.labels[:2]))
    return Report(
        results={
            "page": "tls",
            "machine": facts,
            "protocol": protocol_facts(options, cores),
            "cells": [comparison.as_json(METRICS) for comparison in comparisons],
        },
        markdown="\n\n".join(parts),
        charts={
            "tls-cpu": Chart(
                "TLS echo: server CPU per request (less is better)", "µs / request", [panel]
            )
        },
        failures=own_failures(comparisons),
    )
