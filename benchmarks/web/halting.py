"""Servers that stand still while another one is measured.

All servers of a row run at once, and some use a processor while they are idle.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator, Sequence

__all__ = ["go_on", "going_on", "stop"]


def stop(processes: Sequence[int]) -> None:
    """Let the processes stand still."""
    _send(processes, signal.SIGSTOP)


def go_on(processes: Sequence[int]) -> None:
    """Let them go on."""
    _send(processes, signal.SIGCONT)


@contextlib.contextmanager
def going_on(processes: Sequence[int]) -> Iterator[None]:
    """Let them run in the block only."""
    go_on(processes)
    try:
        yield
    finally:
        stop(processes)


def _send(processes: Sequence[int], signum: signal.Signals) -> None:
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signum)
