"""The Modbus personality: the registers of one simulated instrument.

Register numbers are those that the maker's manuals print, counted from 1; a request carries the
number minus 1. Sources: "Operating Manual for Standard Flow and Pressure Devices", January 2023,
chapter "Modbus RTU"; the operating manuals of CODA KM and of BASIS 2. Nothing was captured.
:data:`MODBUS_NOTES` lists the guesses for what these manuals leave open.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from enum import IntEnum
from typing import Final, Protocol

from penstock.sim._personality.ascii_unit import AsciiUnit
from penstock.sim._personality.basis_unit import BasisController, BasisMeter
from penstock.sim._personality.modbus_registers import (
    BasisRegisters,
    CodaRegisters,
    StandardRegisters,
)
from penstock.sim._physics.firmware import Provenance
from penstock.sim._physics.instrument import Measurand
from penstock.sim._physics.settings import RefusedError

MODBUS_PROVENANCE: Final = Provenance.MANUAL
MODBUS_NOTES: Final = (
    "Registers and special commands are those of the manuals. Guesses: that the value of a gain "
    "stands in the argument register after it was read, that the setpoint in use is in 1211 and "
    "1212, the exceptions for registers that a family does not have and for writing a register "
    "that cannot be written, and that BASIS counts its registers from 1."
)


class _Function(IntEnum):
    READ_HOLDING = 3
    READ_INPUT = 4
    WRITE_ONE = 6
    WRITE_SEVERAL = 16


class _Exception(IntEnum):
    FUNCTION = 1
    ADDRESS = 2
    VALUE = 3


_MOST_READ: Final = 125
_MOST_WRITTEN: Final = 123


class Registers(Protocol):
    """The registers of one family."""

    def read(self, first: int, count: int) -> list[int] | None:
        """The words from a register on; None where one of them is not there."""
        ...

    def write(self, first: int, words: tuple[int, ...]) -> bool:
        """Write words from a register on. False where they cannot be written there.

        Raises:
            RefusedError: the value is none that the register takes.
        """
        ...


class ModbusUnit:
    """An instrument that answers Modbus requests to a unit number, 1 to 247.

    ``unit`` is the instrument with its ASCII personality: gas, setpoint, holds, mixes, gains and
    units are those of both. A bus has one protocol, so ``unit`` itself is not put on it. Requests
    to number 0 are for all units and are not answered.

    Not thread-safe. Raises ValueError for a number outside 1 to 247.
    """

    def __init__(self, unit: AsciiUnit, number: int = 1) -> None:
        if not 1 <= number <= 247:
            raise ValueError(f"Modbus unit number {number} is not between 1 and 247")
        self.unit: Final = unit
        self.unit_id: str = str(number)
        self.stream_interval_ms = 50
        self.wanted_baudrate: int | None = None
        self._registers = self._registers_of(unit)

    # -- what a bus needs ---------------------------------------------------------------------

    @property
    def clock(self) -> Callable[[], float] | None:
        """The clock of the unit, in seconds."""
        return self.unit.clock

    @clock.setter
    def clock(self, clock: Callable[[], float] | None) -> None:
        self.unit.clock = clock

    @property
    def streaming(self) -> bool:
        """Never: Modbus instruments only answer requests."""
        return False

    def listens_to(self, address: str) -> bool:
        """Whether a request with this address is for the unit."""
        return address in (self.unit_id, "0")

    def stream_frame(self, at: float) -> str:
        """Nothing; see ``streaming``."""
        return ""

    def start_streaming(self, at: float) -> None:
        """Nothing; see ``streaming``."""

    def reboot(self, at: float, seconds: float) -> None:
        """Lose power at ``at``, and send nothing for ``seconds``."""
        self.unit.reboot(at, seconds)

    def change_unit_at_panel(self) -> str:
        """Show the process value in the next unit; returns that unit's label."""
        return self.unit.change_unit_at_panel()

    def respond(self, body: bytes, at: float) -> list[bytes]:
        """Return the answer to a request that ended at ``at``; no messages mean silence."""
        if at < self.unit.silent_until or not body:
            return []
        self.unit.instrument.advance(at)
        # The answer to a change of the number carries the old number.
        return [self._answer(body)]

    # -- requests -----------------------------------------------------------------------------

    def _answer(self, body: bytes) -> bytes:
        function = body[0]
        if function in (_Function.READ_HOLDING, _Function.READ_INPUT):
            return self._read(function, body)
        if function == _Function.WRITE_ONE:
            if len(body) != 5:
                return _refusal(function, _Exception.VALUE)
            first, word = struct.unpack(">HH", body[1:])
            return self._write(function, first, (word,)) or body
        if function == _Function.WRITE_SEVERAL:
            if len(body) < 6:
                return _refusal(function, _Exception.VALUE)
            first, count, size = struct.unpack_from(">HHB", body, 1)
            words = body[6:]
            if not 1 <= count <= _MOST_WRITTEN or size != 2 * count or len(words) != size:
                return _refusal(function, _Exception.VALUE)
            return self._write(function, first, struct.unpack(f">{count}H", words)) or body[:5]
        return _refusal(function, _Exception.FUNCTION)

    def _read(self, function: int, body: bytes) -> bytes:
        if len(body) != 5:
            return _refusal(function, _Exception.VALUE)
        first, count = struct.unpack(">HH", body[1:])
        if not 1 <= count <= _MOST_READ:
            return _refusal(function, _Exception.VALUE)
        words = self._registers.read(first + 1, count)
        if words is None:
            return _refusal(function, _Exception.ADDRESS)
        return bytes([function, 2 * count]) + struct.pack(f">{count}H", *words)

    def _write(self, function: int, first: int, words: tuple[int, ...]) -> bytes | None:
        """The refusal, or None if it was written."""
        try:
            if self._registers.write(first + 1, words):
                return None
        except RefusedError:
            return _refusal(function, _Exception.VALUE)
        return _refusal(function, _Exception.ADDRESS)

    def change_number(self, number: int) -> bool:
        """Change the number that it answers to. False if the number is invalid."""
        if not 1 <= number <= 247:
            return False
        self.unit_id = str(number)
        return True

    def _registers_of(self, unit: AsciiUnit) -> Registers:
        if isinstance(unit, BasisController | BasisMeter):
            return BasisRegisters(unit, self)
        if unit.instrument.measurand is Measurand.CORIOLIS_FLOW:
            return CodaRegisters(unit, self)
        return StandardRegisters(unit, self)


def _refusal(function: int, exception: _Exception) -> bytes:
    return bytes([function | 0x80, exception])
