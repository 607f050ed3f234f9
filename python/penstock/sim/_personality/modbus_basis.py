"""The registers of a BASIS instrument, as the operating manual of BASIS 2 lists them."""

from __future__ import annotations

import struct
from typing import Final

from penstock.sim._personality.arguments import RefusedError
from penstock.sim._personality.basis_unit import BASIS_GASES, BasisController
from penstock.sim._personality.modbus_standard import Numbered, measured, taken
from penstock.sim._physics.gases import GASES_BY_NUMBER
from penstock.sim._physics.instrument import MASS_FLOW, TEMPERATURE

__all__ = ["BASIS_DECIMALS", "BasisRegisters"]

#: Decimals of flow, setpoint and total: set in the factory; no register holds them.
BASIS_DECIMALS: Final = 1
_MAGIC: Final = 0xAA55
_SERIAL, _SERIAL_WORDS = 26, 6
_TARE, _NUMBER, _LETTER, _RESET, _GAS = 39, 45, 46, 53, 2100
_STATUS_BITS: Final = {"MOV": 1, "TOV": 2, "OVR": 4, "HLD": 8, "VTM": 16}


class BasisRegisters:
    """Identity, readings, gas, tare and reset. The register of a setpoint is not in the manual."""

    def __init__(self, unit: BasisController, numbered: Numbered) -> None:
        self._unit = unit
        self._numbered = numbered

    def read(self, first: int, count: int) -> list[int] | None:
        """The words from a register on; None where one of them is not there."""
        unit, instrument = self._unit, self._unit.instrument
        a, b, c = (int(part) for part in unit.firmware.name.split("."))
        serial = unit.serial_number.encode("ascii").ljust(2 * _SERIAL_WORDS, b"\0")
        sccm = round(unit.full_scale * instrument.delivered_unit.size)
        thousandths = round(unit.full_scale * 1000)
        words = {
            25: 256 * a + 16 * b + c,
            35: sccm >> 16,
            36: sccm & 0xFFFF,
            _NUMBER: int(self._numbered.unit_id),
            _LETTER: ord(unit.unit_id),
            47: thousandths >> 16,
            48: thousandths & 0xFFFF,
            _GAS: unit.basis_gas,
        }
        halves = struct.unpack(f">{_SERIAL_WORDS}H", serial[: 2 * _SERIAL_WORDS])
        words |= {_SERIAL + place: half for place, half in enumerate(halves)}
        if first <= 2107 and first + count > _GAS:
            unit.polls += 1
            words |= self._measured()
        return taken(words, first, count)

    def _measured(self) -> dict[int, int]:
        unit, instrument = self._unit, self._unit.instrument
        shown = unit.statuses()
        values = measured(unit)
        scale = 10**BASIS_DECIMALS
        total = _word(round(instrument.total * scale), 32)
        words = {
            2101: sum(bit for code, bit in _STATUS_BITS.items() if code in shown),
            2102: _word(round(values[TEMPERATURE] * 100), 16),
            2103: _word(round(values[MASS_FLOW] * scale), 16),
            2104: total >> 16,
            2105: total & 0xFFFF,
        }
        if instrument.controls:
            active = instrument.to_shown(instrument.loop.active)
            words[2106] = _word(round(active * scale), 16)
            words[2107] = round(unit.valve_drive() * 100)
        return words

    def write(self, first: int, words: tuple[int, ...]) -> bool:
        """Write words; False if they cannot be written there."""
        if len(words) != 1:
            return False
        (word,) = words
        unit = self._unit
        if first == _TARE and word == _MAGIC:
            unit.instrument.tare_flow()
        elif first == _RESET and word == _MAGIC:
            unit.instrument.reset_total()
        elif first in (_TARE, _RESET):
            raise RefusedError
        elif first == _NUMBER:
            # The manual: a value that is no number makes it 1.
            self._numbered.change_number(word if 1 <= word <= 247 else 1)
        elif first == _GAS:
            # The manual: a gas that it does not have changes nothing.
            if word in BASIS_GASES:
                unit.instrument.choose_gas(GASES_BY_NUMBER[BASIS_GASES[word]])
        else:
            return False
        return True


def _word(value: int, bits: int) -> int:
    """A signed number as the bits of a register; one that does not fit is the limit."""
    limit = 1 << (bits - 1)
    return min(max(value, -limit), limit - 1) & ((1 << bits) - 1)
