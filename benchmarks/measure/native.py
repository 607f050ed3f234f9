"""Builds the C++ ends of the benchmarks, always optimised and always from the sources beside."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

BENCHMARKS = Path(__file__).resolve().parent.parent
SOURCE = BENCHMARKS / "cpp"
BUILD = BENCHMARKS.parent / "build" / "bench"
LIBRARIES_BUILD = BENCHMARKS.parent / "build" / "bench-cpp"


class BuildFailed(Exception):
    """The native programs could not be built; the message holds the tool's output."""


def build_native(build: Path = BUILD) -> Path:
    """Configure if needed, build what is stale, and return the folder of the programs."""
    _build(build, "-S", str(SOURCE), target="all")
    return build


def build_libraries(build: Path = LIBRARIES_BUILD) -> Path:
    """The same for the C++ libraries that the C++ pages compare, and for their floor and load.

    All of them by clang 19, with which penstock::penstock is built.
    """
    options = ["PYTHON=OFF", "TESTS=OFF", "BENCH=ON", "CPP=ON"]
    _build(
        build,
        *("-S", str(BENCHMARKS.parent), "-DCMAKE_CXX_COMPILER=clang++-19"),
        *(f"-DPENSTOCK_BUILD_{option}" for option in options),
        target="penstock_bench_libraries",
    )
    return build / "benchmarks" / "cpp"


def _build(build: Path, *arguments: str, target: str) -> None:
    if shutil.which("cmake") is None:
        raise BuildFailed("cmake is not installed; scripts/setup bench installs it")
    configure = ["cmake", "-B", str(build), "-DCMAKE_BUILD_TYPE=Release", *arguments]
    with _alone_in(build):
        for command in (configure, ["cmake", "--build", str(build), "--target", target]):
            result = subprocess.run(command, capture_output=True, text=True, check=False)
            if result.returncode != 0:
                raise BuildFailed(f"{' '.join(command)} failed:\n{result.stdout}{result.stderr}")


@contextmanager
def _alone_in(build: Path) -> Iterator[None]:
    """Hold the folder against other processes: two of cmake in one folder break each other's files.

    The tests of two Pythons, run beside each other, ask for the same programs at the same moment.
    """
    build.mkdir(parents=True, exist_ok=True)
    with (build / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
