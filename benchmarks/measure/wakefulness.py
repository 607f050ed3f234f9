"""Keeps idle processors awake during a measurement.

Waking a sleeping processor takes time. On a virtual machine the host wakes it, in 20 to 30
microseconds: more than an echo takes, or a byte's whole way through a pseudo-terminal. The figure
then depends on whether the other core sleeps, and rounds of one contender differ by a factor of
two.

The kernel's interface for this is PM QoS (Documentation/power/pm_qos_interface.rst): while
``/dev/cpu_dma_latency`` is held open with a wake-up time of 0 written to it, idle processors poll
for work instead of sleeping. It applies to all contenders and ends when the descriptor is closed.
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
    """Keep idle processors polling in the block; yields whether that worked.

    Needs root and a kernel with cpuidle; without them, processors sleep as usual.
    """
    descriptor = _hold() if wanted else None
    try:
        yield descriptor is not None
    finally:
        if descriptor is not None:
            os.close(descriptor)


def are_processors_awake() -> bool:
    """Whether a process currently keeps idle processors from sleeping."""
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
