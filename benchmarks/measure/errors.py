"""The errors that end the measurement of a page, and the sentence that reports each."""

from __future__ import annotations

from benchmarks.measure.native import BuildFailed
from benchmarks.measure.publish import MarkersMissing
from benchmarks.measure.quietness import MachineBusy
from benchmarks.measure.sanity import Impossible
from benchmarks.measure.syscalls import StraceMissing

MEASURING_ERRORS = (
    ValueError,
    OSError,
    ModuleNotFoundError,
    BuildFailed,
    Impossible,
    MachineBusy,
    MarkersMissing,
    StraceMissing,
)


def reason(error: Exception) -> str:
    """The error's sentence, with the remedy for a package that is missing."""
    if isinstance(error, ModuleNotFoundError):
        return f"{error}; pip install 'penstock[bench]'"
    return str(error)
