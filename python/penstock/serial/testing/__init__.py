"""Stand-ins for serial hardware, for tests of programs that use a port.

* :func:`serial_port_pair`: two open ports in memory; :func:`faults_of` makes one fail
* :class:`MockBackend`, :class:`FaultPlan`: what they are made of
* :class:`PtyBench`: two real ttys with a cable between them, for programs that open a path
* :class:`EmulatedDriver`: modem lines, error counters and errors of a driver, at the ioctl seam
"""

from __future__ import annotations

from penstock.serial.testing.bench import PtyBench, PtyEnd, tty0tty_pairs
from penstock.serial.testing.driver import EmulatedDriver
from penstock.serial.testing.faults import FaultPlan
from penstock.serial.testing.mock import MockBackend, faults_of, serial_port_pair

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
