"""The test stand of the C++ pages: the libraries' servers, under the loads of the other pages."""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from benchmarks.measure.contenders import FLOOR, OURS
from benchmarks.measure.echo_stand import Cell, EchoStand
from benchmarks.measure.options import choices

LIBRARIES = [OURS, "asio_coroutines", "asio_callbacks", "libuv"]
ECHO = "echo"
SOURCE = "source"


def add_libraries(parser: argparse.ArgumentParser) -> None:
    """``--libraries``: which are compared."""
    parser.add_argument(
        "--libraries",
        type=choices("library", LIBRARIES),
        default=LIBRARIES,
        help=f"of {','.join(LIBRARIES)}",
    )


@dataclass(frozen=True)
class LibraryStand(EchoStand):
    """As an echo stand; a cell's style is what the server does, ``echo`` or ``source``."""

    def server_command(self, name: str, style: str, *options: str) -> list[str]:
        """The command of a library's server, or of the floor's."""
        if name == FLOOR:
            program = "echo_floor" if style == ECHO else "source_floor"
            return [str(self.native / program), *([] if style == ECHO else [style]), *options]
        return [str(self.native / f"server_{name}"), style, *options]

    def source_command(self, name: str, cell: Cell) -> list[str]:
        """The command of a server that sends messages of the cell's size."""
        return self.server_command(name, SOURCE, str(cell.size))
