"""CPU time of another process, to the nanosecond.

``/proc/<pid>/stat`` counts clock ticks of 10 ms; the process CPU clock of POSIX counts what the
scheduler accounts for all threads, including the running time slice.
"""

from __future__ import annotations

import ctypes
import os
import time


def process_cpu_clock(pid: int) -> int:
    """The clock id of a process's CPU time, for :func:`time.clock_gettime_ns`.

    Raises:
        OSError: if there is no such process.
    """
    clock = ctypes.c_int()
    error = ctypes.CDLL(None).clock_getcpuclockid(ctypes.c_int(pid), ctypes.byref(clock))
    if error:
        raise OSError(error, f"{os.strerror(error)}: no CPU clock of process {pid}")
    return clock.value


def cpu_time_ns(pid: int) -> int:
    """User and system CPU time of the process since its start."""
    return time.clock_gettime_ns(process_cpu_clock(pid))
