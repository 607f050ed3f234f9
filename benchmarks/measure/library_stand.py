"""The test stand of the C++ pages: the libraries' servers under the loads of the echo pages."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measure.closed_loop import CPU, RATE, Sample
from benchmarks.measure.closed_loop_page import bars_of
from benchmarks.measure.comparison import Comparison
from benchmarks.measure.compilers import CLANG
from benchmarks.measure.contenders import FLOOR, OURS
from benchmarks.measure.declared_page import DeclaredPage, in_panels
from benchmarks.measure.echo_stand import Cell, EchoStand
from benchmarks.measure.machine import machine_facts
from benchmarks.measure.native import BENCHMARKS
from benchmarks.measure.options import add_choices, add_turns, numbers
from benchmarks.measure.page import Say

LIBRARIES = [
    OURS,
    "asio_coroutines",
    "asio_callbacks",
    "asio_newest_coroutines",
    "asio_newest_callbacks",
    "libuv",
]
ECHO_LIBRARIES = [*LIBRARIES, "libuv_newest", "libuv_newest_uring", "trantor"]
BLOCKING = "asio_blocking"
"""Asio's blocking calls, which take a thread for each connection."""
DEBIAN_PACKAGES = ["libasio-dev", "libuv1-dev"]
NEWEST = BENCHMARKS.parent / "build" / "peers"
"""Where ``scripts/setup bench`` puts the newest Asio, Drogon, Trantor, libuv and uWebSockets."""
ECHO = "echo"
SOURCE = "source"


def library_facts(
    contenders: Sequence[str], libraries: Sequence[str] = DEBIAN_PACKAGES
) -> dict[str, object]:
    """The machine, the compiler, and the versions of the libraries, the fetched ones among them.

    Args:
        contenders: the libraries that take part: of those that are fetched, only these are named.
        libraries: the Debian packages.
    """
    versions = (
        ("asio_newest", "newest Asio", newest_asio_version),
        ("libuv_newest", "newest libuv", newest_libuv_version),
        ("trantor", "Trantor", trantor_version),
    )
    fetched = {
        name: version()
        for beginning, name, version in versions
        if any(each.startswith(beginning) for each in contenders)
    }
    return machine_facts([], libraries=libraries, further=fetched, compiler=CLANG)


def newest_asio_version() -> str | None:
    """The version of the Asio that ``scripts/setup bench`` fetches, None without it."""
    found = _found(NEWEST / "usr/include/asio/version.hpp", r"^#define ASIO_VERSION (\d+)")
    if not found:
        return None
    number = int(found[0])
    return f"{number // 100_000}.{number // 100 % 1000}.{number % 100}"


def newest_libuv_version() -> str | None:
    """The same for libuv."""
    parts = _found(
        NEWEST / "libuv/include/uv/version.h", r"^#define UV_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)"
    )
    return ".".join(parts) or None


def trantor_version() -> str | None:
    """The same for Trantor."""
    parts = _found(NEWEST / "drogon/trantor/CMakeLists.txt", r"^set\(TRANTOR_\w+_VERSION (\d+)\)")
    return ".".join(parts) or None


def drogon_version() -> str | None:
    """The same for Drogon."""
    parts = _found(NEWEST / "drogon/CMakeLists.txt", r"^set\(DROGON_\w+_VERSION (\d+)\)")
    return ".".join(parts) or None


def uwebsockets_version() -> str | None:
    """The major version of the uWebSockets there, which states no other, and of its package."""
    major = _found(NEWEST / "uwebsockets/uWebSockets/src/HttpResponse.h", r'"uWebSockets", "(\d+)"')
    package = _found(NEWEST / "uwebsockets/Cargo.toml", r'^version = "([\d.]+)"$')
    return f"{major[0]} (libuwebsockets-sys {package[0]})" if major and package else None


def _found(file: Path, pattern: str) -> list[str]:
    return re.findall(pattern, file.read_text(), re.MULTILINE) if file.exists() else []


def add_libraries(parser: argparse.ArgumentParser, known: Sequence[str] = LIBRARIES) -> None:
    """``--libraries``: the libraries to compare."""
    add_choices(parser, "--libraries", "library", known)


@dataclass(frozen=True)
class LibraryStand(EchoStand):
    """An echo stand in which a cell's style is the server's task, ``echo`` or ``source``."""

    def server_command(self, name: str, style: str, *options: str) -> list[str]:
        """The command of a library's server, or of the floor's."""
        if name == FLOOR:
            program = "echo_floor" if style == ECHO else "source_floor"
            return [str(self.native / program), *([] if style == ECHO else [style]), *options]
        return [str(self.native / f"server_{name}"), style, *options]

    def source_command(self, name: str, cell: Cell) -> list[str]:
        """The command of a server that sends messages of the cell's size."""
        return self.server_command(name, SOURCE, str(cell.size))


def add_library_cells(
    parser: argparse.ArgumentParser,
    libraries: Sequence[str],
    sizes: Sequence[int],
    connections: Sequence[int],
) -> None:
    """The options of a page whose cells are sizes and numbers of connections."""
    add_libraries(parser, libraries)
    parser.add_argument("--sizes", type=numbers, default=sizes, help="message sizes in bytes")
    parser.add_argument("--connections", type=numbers, default=connections, help="e.g. 32,512")
    add_turns(parser)


def compare_library_cells(
    stand: EchoStand, style: str, options: argparse.Namespace, say: Say
) -> list[Comparison[Sample]]:
    """Measure every size and number of connections, the libraries in turn."""
    cells = [
        Cell(style, size, connections)
        for connections in options.connections
        for size in options.sizes
    ]
    return stand.compare_rows(
        {cell.labels[1:]: cell for cell in cells},
        [FLOOR, *options.libraries],
        options,
        say,
    )


def library_page(name: str, subject: str) -> DeclaredPage:
    """The page of these cells; ``subject`` begins the title of its chart."""
    return DeclaredPage(
        name=name,
        labels=["message", "connections"],
        metrics=[RATE, CPU],
        charts={name: bars_of(subject, CPU, in_panels(str))},
    )
