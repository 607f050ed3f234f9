"""What a line of a file costs: iterated, all at once, and written, by the built-in and by Penstock.

    python benchmarks/file_lines.py [--lines 200000] [--rounds 7]

Figures are CPU nanoseconds a line, medians of the rounds, in which the contenders take turns.
aiofiles takes part where it is installed. The files are cached.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parent.parent))

import penstock
from penstock import files

Work = Callable[[Any, Path, list[Any], str], Awaitable[None]]


class BuiltIn:
    """The built-in ``open`` under asynchronous names, for one set of loads."""

    @contextlib.asynccontextmanager
    async def open(self, path: Path, mode: str) -> Any:
        with open(path, mode) as file:
            yield file


async def iterate(module: Any, path: Path, lines: list[Any], mode: str) -> None:
    async with module.open(path, "r" + mode) as file:
        if isinstance(module, BuiltIn):
            for _ in file:
                pass
        else:
            async for _ in file:
                pass


async def read_lines(module: Any, path: Path, lines: list[Any], mode: str) -> None:
    async with module.open(path, "r" + mode) as file:
        read = file.readlines()
        read = read if isinstance(module, BuiltIn) else await read
    assert len(read) == len(lines)


async def write_lines(module: Any, path: Path, lines: list[Any], mode: str) -> None:
    async with module.open(path.with_suffix(".out"), "w" + mode) as file:
        writing = file.writelines(lines)
        if not isinstance(module, BuiltIn):
            await writing


WORKS: dict[str, Work] = {
    "iterate": iterate,
    "readlines": read_lines,
    "writelines": write_lines,
}


def contenders() -> dict[str, tuple[Any, Callable[[Any], Any]]]:
    """The module to open with, and what runs a coroutine, by name."""
    found: dict[str, tuple[Any, Callable[[Any], Any]]] = {
        "built-in": (BuiltIn(), asyncio.run),
        "penstock": (files, penstock.run),
        "penstock on asyncio": (files, asyncio.run),
    }
    with contextlib.suppress(ImportError):
        found["aiofiles on asyncio"] = (importlib.import_module("aiofiles"), asyncio.run)
    return found


def measure(work: Work, module: Any, run: Callable[[Any], Any], *arguments: Any) -> float:
    """CPU nanoseconds a line."""

    async def timed() -> float:
        begin = time.process_time_ns()
        await work(module, *arguments)
        return (time.process_time_ns() - begin) / len(arguments[1])

    return float(run(timed()))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lines", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    everyone = contenders()
    print(f"{'':<18}" + "".join(f"{name:>22}" for name in everyone))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "lines"
        for mode in ("", "b"):
            text = [f"sample {number:>9}, 21.50\n" for number in range(options.lines)]
            lines: list[Any] = [line.encode() for line in text] if mode else list(text)
            path.write_text("".join(text))
            for name, work in WORKS.items():
                costs: dict[str, list[float]] = {each: [] for each in everyone}
                for _ in range(options.rounds):
                    for each, (module, run) in everyone.items():
                        costs[each].append(measure(work, module, run, path, lines, mode))
                row = "".join(f"{statistics.median(cost):>22.0f}" for cost in costs.values())
                print(f"{('bytes ' if mode else 'text ') + name:<18}" + row)


if __name__ == "__main__":
    main()
