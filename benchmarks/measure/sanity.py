"""Rejects impossible figures: they mean that the work was not done."""

from __future__ import annotations

# A request over loopback is at least one send and one receive on each side. The kernel's part alone
# costs several microseconds on the machines of 2026; 1 µs is far below any real figure.
FASTEST_REQUEST = 1e-6
LEAST_CPU = 0.5e-6
CLOCK_TOLERANCE = 1.05
# The two clocks are read one after the other, and the reader may be preempted in between.
READING_SECONDS = 0.01


class Impossible(Exception):
    """A measurement contradicts itself or physics."""


def check_requests(
    *,
    requests: int,
    seconds: float,
    asked_seconds: float,
    outside_seconds: float,
    cpu: float,
    cores: int = 1,
) -> None:
    """Reject impossible figures of a closed-loop run of a server.

    Args:
        requests: replies verified in the timed region.
        seconds: length of the timed region by the client's clock.
        asked_seconds: requested length.
        outside_seconds: wall time of the whole client process, by the runner's own clock.
        cpu: CPU seconds of the server in the timed region.
        cores: those that it may use at once.

    Raises:
        Impossible: naming the two figures that do not fit.
    """
    check_clocks(
        operations=requests,
        seconds=seconds,
        asked_seconds=asked_seconds,
        outside_seconds=outside_seconds,
        cpu=cpu,
        cores=cores,
        least_seconds=FASTEST_REQUEST,
    )
    if cpu < requests * LEAST_CPU:
        raise Impossible(f"{requests} requests for {cpu:g} s of CPU are cheaper than the kernel")


def check_clocks(
    *,
    operations: int,
    seconds: float,
    asked_seconds: float,
    outside_seconds: float,
    cpu: float,
    least_seconds: float,
    cores: int = 1,
) -> None:
    """Reject an impossible timed region of a program.

    Args:
        operations: number of operations completed in it.
        seconds: its length by the program's own clock.
        asked_seconds: requested length.
        outside_seconds: wall time of the whole process, by the runner's own clock.
        cpu: CPU seconds in the timed region.
        least_seconds: lower bound for the time of one operation.
        cores: those that it may use at once; 1 for a program of one thread.

    Raises:
        Impossible: naming the two figures that do not fit.
    """
    if operations <= 0:
        raise Impossible("nothing was completed in the timed region")
    if not asked_seconds <= seconds <= outside_seconds:
        raise Impossible(
            f"the timed region took {seconds:g} s, though {asked_seconds:g} s were asked for"
            f" and the process ran for {outside_seconds:g} s"
        )
    if seconds < operations * least_seconds:
        raise Impossible(f"{operations} in {seconds:g} s are faster than can be")
    if cpu > cores * seconds * CLOCK_TOLERANCE + READING_SECONDS:
        raise Impossible(f"{cpu:g} s of CPU in {seconds:g} s on {cores} processor(s)")
