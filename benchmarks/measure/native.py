"""Builds the C++ ends of the benchmarks, always optimised and always from the sources beside."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

BENCHMARKS = Path(__file__).resolve().parent.parent
SOURCE = BENCHMARKS / "cpp"
BUILD = BENCHMARKS.parent / "build" / "bench"


class BuildFailed(Exception):
    """The native programs could not be built; the message holds the tool's output."""


def build_native(build: Path = BUILD) -> Path:
    """Configure if needed, build what is stale, and return the folder of the programs."""
    if shutil.which("cmake") is None:
        raise BuildFailed("cmake is not installed; scripts/setup bench installs it")
    configure = ["cmake", "-S", str(SOURCE), "-B", str(build), "-DCMAKE_BUILD_TYPE=Release"]
    for command in (configure, ["cmake", "--build", str(build)]):
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode != 0:
            raise BuildFailed(f"{' '.join(command)} failed:\n{result.stdout}{result.stderr}")
    return build
