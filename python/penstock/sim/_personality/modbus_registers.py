"""The registers of standard instruments, of CODA and of BASIS.

CODA has only those of measured values. Those of BASIS are as the operating manual of BASIS 2 lists
them.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from typing import Final, Protocol

from penstock.sim._personality.ascii_unit import AsciiUnit
from penstock.sim._personality.basis_unit import BASIS_GASES, BasisController
from penstock.sim._physics.code_tables import GASES_BY_NUMBER, SimulatedGas
from penstock.sim._physics.flow import ValveHold
from penstock.sim._physics.instrument import (
    ABSOLUTE_PRESSURE,
    DIFFERENTIAL_PRESSURE,
    GAUGE_PRESSURE,
    MASS_FLOW,
    TEMPERATURE,
    VOLUMETRIC_FLOW,
    Measurand,
)
from penstock.sim._physics.settings import RefusedError

_COMMAND, _SETPOINT, _MIX, _GAS, _STATUS = 1000, 1010, 1050, 1200, 1201
_PRESSURE, _TEMPERATURE, _VOLUMETRIC, _MASS, _IN_USE = 1203, 1205, 1207, 1209, 1211
_MIX_WORDS: Final = 10
_MIXES: Final = range(236, 256)
_STATUS_BITS: Final = {
    "TOV": 0, "VOV": 2, "MOV": 4, "POV": 6, "OVR": 7, "HLD": 8, "ADC": 9, "EXH": 10, "OPL": 11,
    "TMF": 12,
}  # fmt: skip
_DONE = 0
_UNKNOWN_COMMAND, _BAD_SETTING, _NO_FEATURE = 32769, 32770, 32771
_BAD_MIX, _BAD_CONSTITUENT, _BAD_PERCENTAGE = 32772, 32773, 32774
_CHANGE_NUMBER: Final = 32767
_OF_CONTROLLERS: Final = frozenset({6, *range(8, 15)})
_GAIN_REGISTERS: Final = {8: 21, 9: 22, 10: 23}
_READ_GAIN: Final = {0: 21, 1: 22, 2: 23}
_ALGORITHM_REGISTER: Final = 85
_VARIABLES: Final = {0: 37, 1: 36, 2: 39, 3: 34, 4: 38}


class Numbered(Protocol):
    """A unit with a Modbus number."""

    unit_id: str

    def change_number(self, number: int) -> bool:
        """Change the number that it answers to. False if the number is invalid."""
        ...


def float_words(value: float) -> tuple[int, int]:
    """A number in two registers, the high half first."""
    high, low = struct.unpack(">HH", struct.pack(">f", value))
    return high, low


def status_words(unit: AsciiUnit) -> tuple[int, int]:
    """The status bits in two registers."""
    bits = sum(1 << _STATUS_BITS[code] for code in unit.statuses() if code in _STATUS_BITS)
    return bits >> 16, bits & 0xFFFF


def measured(unit: AsciiUnit) -> Mapping[int, float]:
    """The present readings by statistic, as in a data frame."""
    quantities = unit.instrument.quantities
    if unit.readings is not None:
        values = tuple(unit.readings(unit.polls))
    else:
        values = unit.instrument.measure()
    return {quantity.statistic: value for quantity, value in zip(quantities, values, strict=True)}


def taken(words: Mapping[int, int], first: int, count: int) -> list[int] | None:
    """The words from a register on; None where one is not there."""
    found = [words.get(register) for register in range(first, first + count)]
    return None if None in found else [word for word in found if word is not None]


class StandardRegisters:
    """Meters and controllers of gas flow, liquid flow and pressure."""

    def __init__(self, unit: AsciiUnit, numbered: Numbered) -> None:
        self._unit = unit
        self._numbered = numbered
        self._instrument = unit.instrument
        self._gas = unit.instrument.measurand is Measurand.GAS_FLOW
        self._command = (0, 0)
        self._mix: tuple[int, ...] = (0,) * _MIX_WORDS

    def read(self, first: int, count: int) -> list[int] | None:
        """The words from a register on; None where one of them is not there."""
        instrument = self._instrument
        words = {_COMMAND: self._command[0], _COMMAND + 1: self._command[1]}
        if self._gas:
            words |= {_MIX + n: word for n, word in enumerate(self._mix)}
            words[_GAS] = instrument.gas.number
        if instrument.controls:
            _put(words, _SETPOINT, instrument.to_shown(instrument.loop.requested))
        if first <= _IN_USE + 1 and first + count > _STATUS:
            self._unit.polls += 1
            self._put_measured(words)
        return taken(words, first, count)

    def _put_measured(self, words: dict[int, int]) -> None:
        words[_STATUS], words[_STATUS + 1] = status_words(self._unit)
        values = measured(self._unit)
        for statistic in (ABSOLUTE_PRESSURE, GAUGE_PRESSURE, DIFFERENTIAL_PRESSURE):
            if statistic in values:
                _put(words, _PRESSURE, values[statistic])
        places = [(_TEMPERATURE, TEMPERATURE), (_VOLUMETRIC, VOLUMETRIC_FLOW), (_MASS, MASS_FLOW)]
        if self._gas:
            places.append((_IN_USE, self._instrument.setpoint_statistic))
        for register, statistic in places:
            if statistic in values:
                _put(words, register, values[statistic])

    def write(self, first: int, words: tuple[int, ...]) -> bool:
        """Write words; False where they cannot be written there."""
        if first == _COMMAND and len(words) == 2:
            command, argument = words
            self._command = (command, self._execute(command, argument))
            return True
        if first == _SETPOINT and len(words) == 2 and self._instrument.controls:
            (value,) = struct.unpack(">f", struct.pack(">HH", *words))
            if not math.isfinite(value):
                raise RefusedError
            self._unit.request(self._instrument.to_delivered(value))
            return True
        if not self._gas:
            return False
        if first == _GAS and len(words) == 1:
            self._unit.choose_gas(words[0])
            return True
        place = first - _MIX
        if place >= 0 and place + len(words) <= _MIX_WORDS:
            mix = list(self._mix)
            mix[place : place + len(words)] = words
            self._mix = tuple(mix)
            return True
        return False

    def _execute(self, command: int, argument: int) -> int:
        """Execute a special command; its result."""
        instrument, unit = self._instrument, self._unit
        if not instrument.controls and command in _OF_CONTROLLERS:
            return _NO_FEATURE
        if not self._gas and command in (1, 2, 3):
            return _NO_FEATURE
        try:
            if command == 1:
                unit.choose_gas(argument)
            elif command == 2:
                return self._create_mix(argument)
            elif command == 3:
                return _DONE if unit.settings.mixes.pop(argument, None) else _BAD_MIX
            elif command == 4:
                return self._tare(argument)
            elif command == 5:
                if instrument.measurand.is_pressure:
                    return _NO_FEATURE
                if argument != 0:
                    return _BAD_SETTING
                instrument.reset_total()
            elif command == 6:
                return self._set_valve(argument)
            elif command == 7:
                if argument > 1:
                    return _BAD_SETTING
                unit.locked = argument == 1
            elif command in _GAIN_REGISTERS:
                unit.settings.registers[_GAIN_REGISTERS[command]] = argument
            elif command == 11:
                if argument not in _VARIABLES:
                    return _BAD_SETTING
                return _DONE if instrument.choose_variable(_VARIABLES[argument]) else _NO_FEATURE
            elif command == 12:
                if argument != 0:
                    return _BAD_SETTING
                instrument.power_up_setpoint = instrument.loop.requested
            elif command == 13:
                if argument not in (1, 2):
                    return _BAD_SETTING
                unit.settings.registers[_ALGORITHM_REGISTER] = argument
            elif command == 14:
                register = _READ_GAIN.get(argument)
                return _BAD_SETTING if register is None else unit.settings.registers[register]
            elif command == _CHANGE_NUMBER:
                return _DONE if self._numbered.change_number(argument) else _BAD_SETTING
            else:
                return _UNKNOWN_COMMAND
        except RefusedError:
            return _BAD_SETTING
        return _DONE

    def _create_mix(self, number: int) -> int:
        mixes = self._unit.settings.mixes
        if number == 0:
            number = next((n for n in _MIXES if n not in mixes), 0)
        if number not in _MIXES:
            return _BAD_MIX
        pairs = zip(self._mix[::2], self._mix[1::2], strict=True)
        parts = [(gas, hundredths) for gas, hundredths in pairs if hundredths]
        if any(gas not in GASES_BY_NUMBER for gas, _ in parts):
            return _BAD_CONSTITUENT
        if sum(hundredths for _, hundredths in parts) != 10_000:
            return _BAD_PERCENTAGE
        composition = ", ".join(f"{h / 100:g}% {GASES_BY_NUMBER[gas].short}" for gas, h in parts)
        mixes[number] = SimulatedGas(number, f"Mix{number}", composition)
        return number

    def _tare(self, argument: int) -> int:
        if argument > 2:
            return _BAD_SETTING
        pressure = self._instrument.measurand.is_pressure
        if argument == 2 and pressure:
            return _NO_FEATURE
        if (argument == 2) != pressure:
            self._instrument.tare_flow()
        return _DONE

    def _set_valve(self, argument: int) -> int:
        unit = self._unit
        if argument > 3:
            return _BAD_SETTING
        if argument == 3:
            if "EXH" not in unit.firmware.statuses:
                return _NO_FEATURE
            unit.inject_status("EXH")
        else:
            unit.clear_status("EXH")
        held = {0: ValveHold.NONE, 2: ValveHold.HELD}
        self._instrument.loop.hold = held.get(argument, ValveHold.CLOSED)
        return _DONE


class CodaRegisters:
    """A CODA instrument: readings in fixed units, and no register that can be written.

    The manual at hand has no register for a setpoint and no list of commands. The simulated fluid
    has 1000 kg a cubic metre.
    """

    _DENSITY: Final = 1000.0

    def __init__(self, unit: AsciiUnit, numbered: Numbered) -> None:
        self._unit = unit
        self._numbered = numbered

    def read(self, first: int, count: int) -> list[int] | None:
        """The words from a register on; None where one of them is not there."""
        unit, instrument = self._unit, self._unit.instrument
        if first <= _IN_USE + 1 and first + count > _STATUS:
            unit.polls += 1
        delivered = instrument.delivered_unit
        grams_per_minute = instrument.true_flow * delivered.size
        values = (
            self._DENSITY,
            instrument.temperature,
            grams_per_minute * 60.0 / 1000.0 / self._DENSITY,
            grams_per_minute * 60.0,
        )
        words: dict[int, int] = {}
        words[_STATUS], words[_STATUS + 1] = status_words(unit)
        for place, value in enumerate(values):
            _put(words, _PRESSURE + 2 * place, value)
            _put(words, 2041 + 2 * place, value)
        for register in (_IN_USE, 2051):
            _put(words, register, instrument.total * delivered.size)
        shown = unit.statuses()
        words[2053], words[2054] = int(self._numbered.unit_id), 1
        for register, code in ((2055, "VOV"), (2056, "MOV"), (2057, "TOV"), (2058, "OVR")):
            words[register] = int(code in shown)
        return taken(words, first, count)

    def write(self, first: int, words: tuple[int, ...]) -> bool:
        """Never: see the class."""
        return False


def _put(words: dict[int, int], register: int, value: float) -> None:
    words[register], words[register + 1] = float_words(value)


#: Decimals of flow, setpoint and total: set in the factory; no register holds them.
BASIS_DECIMALS: Final = 1
_MAGIC: Final = 0xAA55
_SERIAL, _SERIAL_WORDS = 26, 6
_TARE, _NUMBER, _LETTER, _RESET, _BASIS_GAS = 39, 45, 46, 53, 2100
_BASIS_STATUS_BITS: Final = {"MOV": 1, "TOV": 2, "OVR": 4, "HLD": 8, "VTM": 16}


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
            _BASIS_GAS: unit.basis_gas,
        }
        halves = struct.unpack(f">{_SERIAL_WORDS}H", serial[: 2 * _SERIAL_WORDS])
        words |= {_SERIAL + place: half for place, half in enumerate(halves)}
        if first <= 2107 and first + count > _BASIS_GAS:
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
            2101: sum(bit for code, bit in _BASIS_STATUS_BITS.items() if code in shown),
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
            # The manual: a value that is not a number makes it 1.
            self._numbered.change_number(word if 1 <= word <= 247 else 1)
        elif first == _BASIS_GAS:
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
