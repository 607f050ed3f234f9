"""TLS echo: the echo page's servers with TLS 1.3, beside an OpenSSL epoll server in C++."""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import dataclass
from pathlib import Path

from benchmarks.echo_server import STYLES
from benchmarks.measure.affinity import Cores
from benchmarks.measure.certificate import make_certificate
from benchmarks.measure.closed_loop import CPU, RATE, Sample, turns_method
from benchmarks.measure.closed_loop_page import add_cells, bars_of, cells_of
from benchmarks.measure.compilers import SYSTEM
from benchmarks.measure.contenders import FASTNET_LOOPS, FLOOR, PACKAGES
from benchmarks.measure.cost_ratios import Cost
from benchmarks.measure.declared_page import DeclaredPage, in_panels
from benchmarks.measure.echo_stand import LABELS, EchoStand
from benchmarks.measure.machine import machine_facts
from benchmarks.measure.native import BuildFailed, build_native
from benchmarks.measure.options import shorten_if_quick
from benchmarks.measure.page import Report, Say

SUMMARY = "TLS echo, closed loop"

COSTS = [Cost(CPU, Sample)]
COMPARISON_OPTIONS = ["--turns", "4"]
_BARS = in_panels(lambda each: ", ".join(each.labels[:2]))
PAGE = DeclaredPage(
    name="tls",
    labels=LABELS,
    metrics=[RATE, CPU],
    charts={
        "tls-cpu": bars_of("TLS echo", CPU, in_panels(lambda each: ", ".join(each.labels[:2])))
    },
)


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
    add_cells(
        parser,
        [style for style in STYLES if style != "sock"],
        ["protocol", "streams"],
        [1024, 16384, 65536],
        [32],
        further_loops=FASTNET_LOOPS,
        sizes_are="in bytes",
    )


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
        comparisons = [stand.compare(cell, contenders, options, say) for cell in cells_of(options)]
    return PAGE.report(comparisons, facts, turns_method(options, cores))
