"""Simulated instruments: mass-flow controllers that answer on a pty, a TCP port or in memory.

    async with open_pty(Bus([MassFlowController("A", full_scale=500.0)])) as path:
        ...  # open `path` with any serial program

`python -m penstock.sim` runs them in a process of its own.
"""

from penstock.sim.bus import Bus
from penstock.sim.faults import FaultPlan
from penstock.sim.firmware import (
    FIRMWARE_5V12,
    FIRMWARE_8V17,
    FIRMWARE_10V20,
    Firmware,
    Refusal,
)
from penstock.sim.gases import GASES, Gas
from penstock.sim.mass_flow_controller import MassFlowController
from penstock.sim.memory import MemoryStream, open_memory
from penstock.sim.pty import PtyPort, open_pty
from penstock.sim.tcp import open_tcp

__all__ = [
    "FIRMWARE_5V12",
    "FIRMWARE_8V17",
    "FIRMWARE_10V20",
    "GASES",
    "Bus",
    "FaultPlan",
    "Firmware",
    "Gas",
    "MassFlowController",
    "MemoryStream",
    "PtyPort",
    "Refusal",
    "open_memory",
    "open_pty",
    "open_tcp",
]
