"""Whether the machine is quiet enough for a result that is published."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

WATCH_S = 5.0
PATIENCE_S = 60.0
FOREIGN_LIMIT = 0.05
"""Most CPU time of other programs, as a share of one processor."""


class MachineBusy(Exception):
    """Other programs use the processors."""


def wait_until_quiet(
    say: Callable[[str], None],
    *,
    watch: float = WATCH_S,
    patience: float = PATIENCE_S,
    limit: float = FOREIGN_LIMIT,
) -> float:
    """Return when other programs used at most ``limit`` of a processor for ``watch`` seconds.

    Returns:
        What they used, as a share of one processor.

    Raises:
        MachineBusy: if that does not come within ``patience`` seconds.
    """
    give_up_at = time.monotonic() + patience
    while True:
        share = foreign_share(watch)
        if share <= limit:
            return share
        if time.monotonic() >= give_up_at:
            raise MachineBusy(
                f"other programs use {share:.0%} of a processor (at most {limit:.0%}): stop them, "
                "or pass --busy to measure without publishing"
            )
        say(f"other programs use {share:.0%} of a processor: waiting for a quiet machine")


def foreign_share(seconds: float) -> float:
    """CPU time of all other processes and of the kernel, as a share of one processor."""
    began, busy, own = time.monotonic(), _busy_seconds(), time.process_time()
    time.sleep(seconds)
    took = time.monotonic() - began
    return max(0.0, (_busy_seconds() - busy - (time.process_time() - own)) / took)


class ForeignTime:
    """The CPU time that other programs take while a page is measured.

    It is what all programs took, less this process's and its ended children's. The kernel's own
    time in interrupts is in neither. The kernel's threads, which move the bytes of a
    pseudo-terminal, count as foreign.
    """

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._before = _program_seconds()

    def share(self) -> float:
        """As a share of one processor, since the object was made."""
        return max(0.0, (_program_seconds() - self._before) / (time.monotonic() - self._began))


def _program_seconds() -> float:
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:4]
    own = os.times()
    ticks = sum(map(int, fields)) / os.sysconf("SC_CLK_TCK")
    return ticks - (own.user + own.system + own.children_user + own.children_system)


def _busy_seconds() -> float:
    # What the host takes (steal, the eighth field) is no program on this machine.
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:8]
    user, nice, system, _, _, irq, softirq = map(int, fields)
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")
