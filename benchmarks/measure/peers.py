"""Where the peers that are no library of this machine are."""

from __future__ import annotations

import shutil

from benchmarks.measure.compilers import output
from benchmarks.measure.native import BENCHMARKS
from benchmarks.measure.processes import Unavailable


def bun_command(script: str, *options: str) -> list[str]:
    """The command that runs a script of ``benchmarks/bun`` with Bun.

    Raises:
        Unavailable: if Bun is not there.
    """
    bun = _bun()
    if bun is None:
        raise Unavailable("not installed (npm install --prefix build/bun bun)")
    return [bun, str(BENCHMARKS / "bun" / script), *options]


def bun_version() -> str | None:
    """The version of that Bun, None without it."""
    bun = _bun()
    return None if bun is None else output(bun, "--version")


def _bun() -> str | None:
    local = BENCHMARKS.parent / "build" / "bun" / "node_modules" / ".bin" / "bun"
    return shutil.which("bun", path=str(local.parent)) or shutil.which("bun")
