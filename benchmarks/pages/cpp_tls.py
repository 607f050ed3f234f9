"""TLS echo in C++: penstock::tls and two versions of Asio beside an OpenSSL server on bare epoll.

The client is that of the TLS page: TLS 1.3, N connections, one message in flight on each, every
reply compared byte for byte. All have the same cipher, and no session is resumed. Server and client
have one core each. One compiler builds all programs.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measure.affinity import Cores
from benchmarks.measure.certificate import make_certificate
from benchmarks.measure.closed_loop import CPU, Sample, turns_method
from benchmarks.measure.contenders import FLOOR, OURS
from benchmarks.measure.cost_ratios import Cost
from benchmarks.measure.echo_stand import EchoStand
from benchmarks.measure.library_stand import (
    add_library_cells,
    compare_library_cells,
    library_facts,
    library_page,
)
from benchmarks.measure.native import BuildFailed, build_libraries
from benchmarks.measure.options import shorten_if_quick
from benchmarks.measure.page import Report, Say

SUMMARY = "C++ libraries: TLS echo, closed loop"

LIBRARIES = [OURS, "asio", "asio_newest"]
SIZES = [1024, 16384]
CONNECTIONS = [32]
COSTS = [Cost(CPU, Sample)]
COMPARISON_OPTIONS = ["--turns", "6"]
PAGE = library_page("cpp_tls", "C++ TLS echo")


@dataclass(frozen=True)
class TlsLibraryStand(EchoStand):
    """The echo stand with the libraries' TLS servers; the load does not check the certificate."""

    certificate: Path = Path("certificate.pem")
    key: Path = Path("key.pem")

    def server_command(self, name: str, style: str, *options: str) -> list[str]:
        """The command of a library's server, or of the floor's."""
        program = "tls_echo_floor" if name == FLOOR else f"server_{name}_tls"
        return [str(self.native / program), str(self.certificate), str(self.key), *options]


def add_options(parser: argparse.ArgumentParser) -> None:
    """The page's own options."""
    add_library_cells(parser, LIBRARIES, SIZES, CONNECTIONS)


def measure(options: argparse.Namespace, cores: Cores, say: Say) -> Report:
    """Measure every size and number of connections, the libraries in turn."""
    facts = library_facts(options.libraries, ["libasio-dev", "libssl-dev"])
    shorten_if_quick(options)
    native = build_libraries()
    if not (native / f"server_{OURS}_tls").exists():
        raise BuildFailed("OpenSSL's headers are missing (libssl-dev); scripts/setup bench")
    with tempfile.TemporaryDirectory() as folder:
        certificate, key = make_certificate(Path(folder))
        stand = TlsLibraryStand(
            native, cores, load="tls_echo_client", certificate=certificate, key=key
        )
        comparisons = compare_library_cells(stand, "", options, say)
    return PAGE.report(comparisons, facts, turns_method(options, cores))
