"""The test stand of the echo pages: their servers, their load, their floor."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measure.contenders import FLOOR
from benchmarks.measure.native import BENCHMARKS


@dataclass(frozen=True)
class Cell:
    """The conditions of a comparison: how the server is written, message size, connections."""

    style: str
    size: int
    connections: int

    @property
    def labels(self) -> tuple[str, ...]:
        return (self.style, size_name(self.size), str(self.connections))

    def __str__(self) -> str:
        return f"{self.style}, {size_name(self.size)}, {self.connections} connections"


LABELS = ["style", "message", "connections"]


def size_name(size: int) -> str:
    """``1 KiB``, ``10 KiB``, ``1000 B``."""
    return f"{size // 1024} KiB" if size % 1024 == 0 else f"{size} B"


def echo_server(native: Path, name: str, style: str, *options: str) -> list[str]:
    """The command of the server called ``name``, the floor or a loop."""
    if name == FLOOR:
        return [str(native / "echo_floor"), *options]
    script = str(BENCHMARKS / "echo_server.py")
    return [sys.executable, script, "--loop", name, "--style", style, *options]


def echo_load(native: Path, cell: Cell, address: str, program: str = "echo_client") -> list[str]:
    """The command of the load on a server's address: a port, or the path of a Unix socket."""
    option = "--port" if address.isdigit() else "--unix"
    command = [str(native / program), option, address, "--size", str(cell.size)]
    return [*command, "--connections", str(cell.connections)]
