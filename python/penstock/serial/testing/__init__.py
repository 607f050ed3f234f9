"""Simulated serial hardware, for tests of programs that use a port.

* :func:`serial_port_pair`: two connected ports in memory; :func:`faults_of` makes one fail
* :class:`MockBackend`, :class:`FaultPlan`: their parts
* :class:`PtyBench`: two connected ttys, for programs that open a path
* :class:`EmulatedDriver`: modem lines, error counters and errors of a driver, at the ioctl
"""

from __future__ import annotations

from penstock._public_names import claim as _claim
from penstock.serial.testing._bench import EmulatedDriver, PtyBench, PtyEnd, tty0tty_pairs
from penstock.serial.testing._mock import FaultPlan, MockBackend, faults_of, serial_port_pair

__all__ = [
    "EmulatedDriver",
    "FaultPlan",
    "MockBackend",
    "PtyBench",
    "PtyEnd",
    "faults_of",
    "serial_port_pair",
    "tty0tty_pairs",
]

_claim(globals())
