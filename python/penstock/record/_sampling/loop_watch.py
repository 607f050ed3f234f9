"""Why slots have passed: whether the event loop ran meanwhile, and if not, what kept it from it.

A task that wakes ten times a second notices when it cannot. For a time in which the loop did not
run, Linux tells for how long its thread was on a processor (CLOCK_THREAD_CPUTIME_ID) and for how
long it could have run and had none (the second number of /proc/thread-self/schedstat, see the
kernel's Documentation/scheduler/sched-stats.rst). In the rest it was stopped (SIGSTOP, a debugger,
a frozen control group), or held in a system call.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import anyio

_BEAT_S = 0.1
_LATE_NS = 50_000_000
_GAPS = 64


@dataclass(frozen=True, slots=True)
class Gap:
    """A time in which the event loop did not run; all in nanoseconds.

    ``cpu_ns`` is what its thread ran itself, ``waited_ns`` what it waited for a processor.
    """

    start_ns: int
    end_ns: int
    cpu_ns: int
    waited_ns: int

    def __str__(self) -> str:
        length = self.end_ns - self.start_ns
        held = length - self.cpu_ns - self.waited_ns
        most = max(self.cpu_ns, self.waited_ns, held)
        seconds = f"{most / 1e9:.1f} of {length / 1e9:.1f} s"
        if most == self.cpu_ns:
            return f"this program was busy with something else for {seconds}"
        if most == self.waited_ns:
            return f"other programs had the processor for {seconds}"
        return f"the process was stopped, or held in a system call, for {seconds}"


class LoopWatch:
    """Watches the event loop of :meth:`run`. For the thread of that loop.

    Args:
        now: the monotonic clock, in nanoseconds.
        cpu: what the thread has run, in nanoseconds.
        waited: for how long it has waited for a processor, in nanoseconds.
    """

    def __init__(
        self,
        now: Callable[[], int] = time.monotonic_ns,
        cpu: Callable[[], int] = time.thread_time_ns,
        waited: Callable[[], int] | None = None,
    ) -> None:
        self._now, self._cpu = now, cpu
        self._waited = _waited_for_a_processor if waited is None else waited
        self._gaps: deque[Gap] = deque(maxlen=_GAPS)
        self._last = (now(), cpu(), self._waited())

    async def run(self) -> None:
        """Watch until cancelled."""
        while True:
            await anyio.sleep(_BEAT_S)
            self.beat()

    def beat(self) -> None:
        """Note that the loop runs now."""
        before, self._last = self._last, (self._now(), self._cpu(), self._waited())
        if self._last[0] - before[0] > _BEAT_S * 1e9 + _LATE_NS:
            self._gaps.append(
                Gap(
                    before[0],
                    self._last[0],
                    self._last[1] - before[1],
                    self._last[2] - before[2],
                )
            )

    def cause(self, since_ns: int, until_ns: int) -> Gap | None:
        """The gap that takes most of a time; None where the loop ran for half of it.

        The loop runs now, so a gap that has just ended counts.
        """
        self.beat()

        def overlap(gap: Gap) -> int:
            return min(gap.end_ns, until_ns) - max(gap.start_ns, since_ns)

        longest = max(self._gaps, key=overlap, default=None)
        if longest is None or overlap(longest) * 2 < until_ns - since_ns:
            return None
        return longest


def _waited_for_a_processor() -> int:
    """Zero where the kernel does not tell (CONFIG_SCHED_INFO)."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        descriptor = os.open("/proc/thread-self/schedstat", os.O_RDONLY | os.O_CLOEXEC)
        try:
            return int(os.read(descriptor, 200).split()[1])
        finally:
            os.close(descriptor)
    return 0
