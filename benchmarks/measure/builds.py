"""Comparison of two builds: from which checkout the measured programs start.

A page starts the programs of its own checkout. During a comparison, :func:`builds_of` returns both
builds for each of Penstock's contenders, and inside :func:`programs_of` the same command starts the
program of the other checkout, without a change to the page. Loads and floors are always those of
the running checkout, so both builds meet the same ones.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measure.contenders import is_own

ROOT = Path(__file__).resolve().parent.parent.parent
OLD, NEW = "old", "new"
# Folders of a checkout: the Python programs, and the C++ servers of the coroutine library.
PROGRAMS = ("benchmarks", "build/bench-cpp")


@dataclass(frozen=True)
class Build:
    """A checkout with its extension module built for the running interpreter.

    Attributes:
        name: ``old`` or ``new``.
        folder: the root of the checkout.
    """

    name: str
    folder: Path

    def command(self, argv: Sequence[str]) -> list[str]:
        """*argv* with each program of the running checkout replaced by this build's."""
        return [self._moved(part) for part in argv]

    def environment(self) -> dict[str, str]:
        """The variables that make a program import this build."""
        # PYTHONPATH precedes the folder in the virtual environment's .pth file, which belongs to
        # the checkout that the environment was created for.
        return {"PYTHONPATH": str(self.folder / "python")}

    def _moved(self, part: str) -> str:
        path = Path(part)
        for programs in PROGRAMS:
            if path.is_relative_to(ROOT / programs):
                return str(self.folder / path.relative_to(ROOT))
        return part


_compared: ContextVar[tuple[Build, Build] | None] = ContextVar("compared", default=None)
_current: ContextVar[Build | None] = ContextVar("current", default=None)


@contextmanager
def comparing(old: Build, new: Build) -> Iterator[None]:
    """Measure both builds side by side with every page that is measured in the block."""
    token = _compared.set((old, new))
    try:
        yield
    finally:
        _compared.reset(token)


def compared_builds() -> tuple[Build, ...]:
    """The old and the new build; empty outside a comparison."""
    return _compared.get() or ()


def builds_of(contender: str) -> tuple[Build | None, ...]:
    """The builds that a contender is measured with, in turn; None means the running checkout.

    During a comparison: both for Penstock (``penstock``, ``penstock-threads``, ``penstock@trio``),
    none for the floor and peers, which are left out.
    """
    builds = _compared.get()
    if builds is None:
        return (None,)
    return builds if is_own(contender) else ()


@contextmanager
def programs_of(build: Build | None) -> Iterator[None]:
    """Start the programs of *build* in the block; None means those of the running checkout."""
    token = _current.set(build)
    try:
        yield
    finally:
        _current.reset(token)


def placed(argv: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """The command and environment of *argv* for the build of :func:`programs_of`."""
    build = _current.get()
    if build is None:
        return list(argv), dict(os.environ)
    return build.command(argv), {**os.environ, **build.environment()}
