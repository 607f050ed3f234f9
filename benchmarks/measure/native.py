"""Builds the C++ programs of the benchmarks, optimised, from the sources of this checkout."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.measure.builds import compared_builds

BENCHMARKS = Path(__file__).resolve().parent.parent
SOURCE = BENCHMARKS / "cpp"
BUILD = BENCHMARKS.parent / "build" / "bench"
LIBRARIES_BUILD = BENCHMARKS.parent / "build" / "bench-cpp"


class BuildFailed(Exception):
    """The C++ programs could not be built; the message holds the tool's output."""


def build_native(build: Path = BUILD) -> Path:
    """Configure if needed, build what is stale, and return the folder of the programs."""
    _build(build, "-S", str(SOURCE), target="all")
    _build_python_floor(build)
    return build


def python_floor_in(build: Path) -> Path:
    """Where the extension of the row ``floor-python`` is, for the running Python."""
    return build / f"python_floor{sysconfig.get_config_var('EXT_SUFFIX')}"


def _build_python_floor(build: Path) -> None:
    """Build it if it is stale. Without a C compiler or Python's headers its row is n/a."""
    source, target = SOURCE / "python_floor.c", python_floor_in(build)
    headers = Path(sysconfig.get_path("include"))
    if shutil.which("cc") is None or not (headers / "Python.h").exists():
        return
    with _alone_in(build):
        if target.exists() and target.stat().st_mtime >= source.stat().st_mtime:
            return
        command = ["cc", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
        _run([*command, f"-isystem{headers}", str(source), "-o", str(target)])


def build_libraries(build: Path = LIBRARIES_BUILD) -> Path:
    """The same for the servers of the C++ pages, their floor and their load.

    clang 19 compiles all of them, because penstock::penstock needs it. During a comparison of
    builds, their checkouts are built too, each in its own folder of the same name.
    """
    _build_libraries(BENCHMARKS.parent, build)
    for compared in compared_builds():
        if compared.folder != BENCHMARKS.parent:
            _build_libraries(compared.folder, compared.folder / "build" / "bench-cpp")
    return build / "benchmarks" / "cpp"


def _build_libraries(checkout: Path, build: Path) -> None:
    options = ["PYTHON=OFF", "TESTS=OFF", "BENCH=ON", "CPP=ON"]
    _build(
        build,
        *("-S", str(checkout), "-DCMAKE_CXX_COMPILER=clang++-19"),
        *(f"-DPENSTOCK_BUILD_{option}" for option in options),
        target="penstock_bench_libraries",
    )


def _build(build: Path, *arguments: str, target: str) -> None:
    if shutil.which("cmake") is None:
        raise BuildFailed("cmake is not installed; scripts/setup bench installs it")
    configure = ["cmake", "-B", str(build), "-DCMAKE_BUILD_TYPE=Release", *arguments]
    with _alone_in(build):
        for command in (configure, ["cmake", "--build", str(build), "--target", target]):
            _run(command)


def _run(command: list[str]) -> None:
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise BuildFailed(f"{' '.join(command)} failed:\n{result.stdout}{result.stderr}")


@contextmanager
def _alone_in(build: Path) -> Iterator[None]:
    """Lock the folder: two cmake processes in the same folder break each other's files.

    The tests of two Python versions may run concurrently and need the same programs.
    """
    build.mkdir(parents=True, exist_ok=True)
    with (build / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
