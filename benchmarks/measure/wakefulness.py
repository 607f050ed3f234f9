"""Processors that do not sleep while something is measured.

A sleeping processor costs its waker the exit from that sleep. On a virtual machine a halted
processor is woken by its host, which takes 20 to 30 microseconds: more than the whole of a byte's
way through a pseudo-terminal, or of an echo. Whether the other core happens to sleep then decides
a figure, and rounds of one contender differ by a factor of two.

The kernel's interface for this is PM QoS (Documentation/power/pm_qos_interface.rst): while
``/dev/cpu_dma_latency`` is held open with a wake-up time of 0 written to it, idle processors poll
for work instead of sleeping. It holds for every contender alike, and ends with the descriptor.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

QOS_DEVICE = Path("/dev/cpu_dma_latency")


@contextmanager
def processors_awake(wanted: bool = True) -> Iterator[bool]:
    """Keep idle processors polling for the block; whether that could be had.

    Wants root and a kernel with cpuidle: elsewhere the block runs on processors that sleep.
    """
    descriptor = _hold() if wanted else None
    try:
        yield descriptor is not None
    finally:
        if descriptor is not None:
            os.close(descriptor)


def are_processors_awake() -> bool:
    """Whether some process keeps idle processors from sleeping now."""
    try:
        descriptor = os.open(QOS_DEVICE, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return bool(struct.unpack("=i", os.read(descriptor, 4)) == (0,))
    finally:
        os.close(descriptor)


def _hold() -> int | None:
    try:
        descriptor = os.open(QOS_DEVICE, os.O_WRONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        os.write(descriptor, struct.pack("=i", 0))
    except OSError:
        os.close(descriptor)
        return None
    return descriptor
