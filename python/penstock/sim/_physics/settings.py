"""The settings of a controller (registers, mixes, batches, ramps), and what they accept."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from penstock.sim._physics.code_tables import GASES_BY_NUMBER, SimulatedGas
from penstock.sim._physics.flow import LimitMode, Totalizer, TotalMode

if TYPE_CHECKING:
    from penstock.sim._personality.ascii_unit import AsciiUnit

_DECIMAL: Final = re.compile(r"[+-]?(?:\d{1,12}(?:\.\d{0,12})?|\.\d{1,12})", re.ASCII)
_INTEGER: Final = re.compile(r"\d{1,6}", re.ASCII)


class RefusedError(Exception):
    """The instrument knows the command and does not accept its arguments."""


def decimal_argument(text: str) -> float:
    """Return the value of a decimal number.

    float() also accepts nan, inf, 1e5 and 1_0. An instrument accepts none of them.

    Raises:
        RefusedError: ``text`` is not such a number.
    """
    if not _DECIMAL.fullmatch(text):
        raise RefusedError
    return float(text)


def integer_argument(text: str) -> int:
    """Return the value of a whole number without a sign, of at most six digits.

    Raises:
        RefusedError: ``text`` is not such a number.
    """
    if not _INTEGER.fullmatch(text):
        raise RefusedError
    return int(text)


_REGISTER: Final = re.compile(r"(\d{1,3})(?:=(\d{1,10}))?", re.ASCII)
_PERCENTAGE: Final = re.compile(r"\d{1,3}(?:\.\d{1,2})?", re.ASCII)
_VOLUME: Final = re.compile(r"\d{1,9}(?:\.\d{1,9})?", re.ASCII)
_GAS_REGISTER: Final = 46
_VARIABLE_REGISTER: Final = 122
_NUMBER: Final = re.compile(r"\d{1,6}(?:\.\d{1,6})?", re.ASCII)
_AVERAGED: Final = frozenset({1, 2, 4, 5, 6, 7, 17, 344, 352, 360})
_BAUD_RATES: Final = frozenset({2400, 9600, 19200, 38400, 57600, 115200})
#: Statistic, mode, limit mode, digits, decimals of a totalizer that is off.
_NO_TOTAL: Final = ("1", "-1", "-1", "7", "2")
_MIXES: Final = range(236, 256)


class Settings:
    """The settings of one unit, and the commands that read and write them.

    The answers have the forms that published clients expect; they were not captured.
    """

    def __init__(self, unit: AsciiUnit) -> None:
        self._unit = unit
        self.mixes: dict[int, SimulatedGas] = {}
        # As delivered: PD/PDF with gains in the middle of what is usual.
        self.registers: dict[int, int] = {21: 200, 22: 20, 23: 100, 85: 1}
        self._ramps = ["1", "1", "0", "0"]
        self._batches = {1: 0.0, 2: 0.0}
        self._flags = {"TCR": "0", "ZCP": "0"}
        self._zero_band = "0.0"
        self._averages: dict[int, int] = {}
        self._standards = {"P": {"S": "14.696", "N": "14.696"}, "T": {"S": "25.000", "N": "0.000"}}
        self._outputs = {"0": 5, "1": 5}
        self._blink = "0"
        self._texts = ["", "", "", ""]
        self._totals = {1: list(_NO_TOTAL), 2: list(_NO_TOTAL)}
        self._auto_tare = ("0", "1.0")
        self._deadband = "0.0"

    def handlers(self) -> dict[str, Callable[[list[str]], list[str]]]:
        """The commands by name."""
        return {
            "R": self._register,
            "W": self._register,
            "GM": self._create_mix,
            "GD": self._delete_mix,
            "TB": self._batch,
            "LSRC": self._ramp_options,
            "TCR": partial(self._flag, "TCR"),
            "ZCP": partial(self._flag, "ZCP"),
            "ZCA": self._tare_automatically,
            "DCZ": self._zero_band_of_display,
            "DCA": self._average,
            "DCFRP": partial(self._standard, "P"),
            "DCFRT": partial(self._standard, "T"),
            "ASOCV": self._analog_output,
            "FFP": self._blink_display,
            "UD": self._user_data,
            "TC": self._totalizer,
            "LCDB": self._deadband_limit,
            "NCB": self._baud_rate,
        }

    def gas(self, number: int) -> SimulatedGas | None:
        """The gas or mix with a number."""
        return GASES_BY_NUMBER.get(number) or self.mixes.get(number)

    def _register(self, arguments: list[str]) -> list[str]:
        match = _REGISTER.fullmatch("".join(arguments))
        if match is None:
            raise RefusedError
        number, unit = int(match[1]), self._unit
        if match[2] is not None:
            value = int(match[2])
            if number == _GAS_REGISTER:
                unit.choose_gas(value)
            elif number == _VARIABLE_REGISTER:
                unit.choose_variable(value)
            self.registers[number] = value
        held = self.registers.get(number, 0)
        if number == _GAS_REGISTER:
            held = unit.gas.number
        elif number == _VARIABLE_REGISTER:
            held = unit.control_variable
        return [f"{unit.unit_id}   {number:03} = {held}"]

    def _create_mix(self, arguments: list[str]) -> list[str]:
        if len(arguments) < 6 or len(arguments) % 2:
            raise RefusedError
        name, number = arguments[0], _whole(arguments[1])
        parts = arguments[2::2]
        if not all(_PERCENTAGE.fullmatch(part) for part in parts) or number not in _MIXES:
            raise RefusedError
        gases = [GASES_BY_NUMBER.get(_whole(code)) for code in arguments[3::2]]
        if None in gases or len(gases) > 5 or abs(sum(map(float, parts)) - 100) > 1e-6:
            raise RefusedError
        composition = ", ".join(
            f"{part}% {gas.short}" for part, gas in zip(parts, gases, strict=True) if gas
        )
        self.mixes[number] = SimulatedGas(number, name[:6], composition)
        return [f"{self._unit.unit_id} {number} {composition}"]

    def _delete_mix(self, arguments: list[str]) -> list[str]:
        if len(arguments) != 1 or self.mixes.pop(_whole(arguments[0]), None) is None:
            raise RefusedError
        return [f"{self._unit.unit_id} {arguments[0]}"]

    def _batch(self, arguments: list[str]) -> list[str]:
        if not 1 <= len(arguments) <= 3 or (number := _whole(arguments[0])) not in self._batches:
            raise RefusedError
        if len(arguments) > 1:
            if not _VOLUME.fullmatch(arguments[1]):
                raise RefusedError
            self._batches[number] = float(arguments[1])
            self._unit.instrument.begin_batch(self._batches[number], number)
        code, label = self._unit.instrument.total_unit(number)
        return [f"{self._unit.unit_id} {number} {self._batches[number]:.2f} {code} {label}"]

    def _ramp_options(self, arguments: list[str]) -> list[str]:
        if arguments:
            if len(arguments) != 4 or not set(arguments) <= {"0", "1"}:
                raise RefusedError
            self._ramps = arguments
        return [f"{self._unit.unit_id} {' '.join(self._ramps)}"]

    def _flag(self, name: str, arguments: list[str]) -> list[str]:
        if arguments:
            if len(arguments) > 2 or arguments[0] not in ("0", "1"):
                raise RefusedError
            self._flags[name] = arguments[0]
            if name == "TCR":
                self._unit.instrument.saves_totals = arguments[0] == "1"
        return [f"{self._unit.unit_id} {self._flags[name]}"]

    def _tare_automatically(self, arguments: list[str]) -> list[str]:
        if arguments == ["0"]:
            self._auto_tare = ("0", self._auto_tare[1])
        elif arguments:
            if len(arguments) != 2 or arguments[0] != "1" or not _NUMBER.fullmatch(arguments[1]):
                raise RefusedError
            self._auto_tare = ("1", arguments[1])
        return [f"{self._unit.unit_id} {' '.join(self._auto_tare)}"]

    def _zero_band_of_display(self, arguments: list[str]) -> list[str]:
        if arguments:
            if len(arguments) != 2 or arguments[0] != "0" or not _NUMBER.fullmatch(arguments[1]):
                raise RefusedError
            if float(arguments[1]) > 6.38:
                raise RefusedError
            self._zero_band = arguments[1]
        return [f"{self._unit.unit_id} 0 {self._zero_band}"]

    def _average(self, arguments: list[str]) -> list[str]:
        if not 1 <= len(arguments) <= 2 or (code := _whole(arguments[0])) not in _AVERAGED:
            raise RefusedError
        if len(arguments) > 1:
            if (milliseconds := _whole(arguments[1])) > 9999:
                raise RefusedError
            self._averages[code] = milliseconds
        return [f"{self._unit.unit_id} {self._averages.get(code, 100)}"]

    def _standard(self, quantity: str, arguments: list[str]) -> list[str]:
        if len(arguments) not in (1, 3) or arguments[0] not in ("S", "N"):
            raise RefusedError
        held = self._standards[quantity]
        unit = "10 PSIA" if quantity == "P" else "2 `C"
        if len(arguments) == 3:
            # Only the unit in force is taken here: 0 keeps it.
            if arguments[1] not in ("0", unit.split()[0]) or not _NUMBER.fullmatch(arguments[2]):
                raise RefusedError
            held[arguments[0]] = arguments[2]
        return [f"{self._unit.unit_id} {held[arguments[0]]} {unit}"]

    def _analog_output(self, arguments: list[str]) -> list[str]:
        if not 1 <= len(arguments) <= 3 or arguments[0] not in self._outputs:
            raise RefusedError
        if len(arguments) > 1:
            self._outputs[arguments[0]] = _whole(arguments[1])
        source = self._outputs[arguments[0]]
        unit = self._unit.instrument.unit_of(source)
        shown = "1 ---" if unit is None else f"{unit.code} {unit.label}"
        return [f"{self._unit.unit_id} {source} {shown}"]

    def _blink_display(self, arguments: list[str]) -> list[str]:
        if arguments:
            if len(arguments) > 1 or (arguments[0] != "-1" and _whole(arguments[0]) > 65535):
                raise RefusedError
            self._blink = arguments[0]
        return [f"{self._unit.unit_id} {0 if self._blink == '0' else 1}"]

    def _user_data(self, arguments: list[str]) -> list[str]:
        if not arguments or (slot := _whole(arguments[0])) > 3:
            raise RefusedError
        if len(arguments) > 1:
            text = " ".join(arguments[1:])
            if len(text) > 32 or not text.isascii() or not text.isprintable():
                raise RefusedError
            self._texts[slot] = text
        if not self._texts[slot]:
            return [f"{self._unit.unit_id} "]
        return [f"{self._unit.unit_id} {slot} {self._texts[slot]}"]

    def _totalizer(self, arguments: list[str]) -> list[str]:
        if not arguments or (number := _whole(arguments[0])) not in self._totals:
            raise RefusedError
        instrument = self._unit.instrument
        if arguments[1:] == ["1"]:
            self._totals[number] = list(_NO_TOTAL)
            instrument.totalize(number, None)
        elif len(arguments) > 1:
            settings = self._totalizer_of(number, arguments[1:])
            self._totals[number] = arguments[1:]
            instrument.totalize(number, settings)
        return [f"{self._unit.unit_id} {number} {' '.join(self._totals[number])}"]

    def _totalizer_of(self, number: int, arguments: list[str]) -> Totalizer:
        statistic, *rest = arguments
        held = self._unit.instrument.totalizers[number - 1]
        if len(rest) != 4 or _whole(statistic) not in (4, 5):
            raise RefusedError
        if self._unit.instrument.unit_of(_whole(statistic)) is None:
            raise RefusedError
        if not set(rest[:2]) <= {"-1", "0", "1", "2", "3"}:
            raise RefusedError
        digits, decimals = _whole(rest[2]), _whole(rest[3])
        if not 7 <= digits <= 10 or not 0 <= decimals <= 9 or decimals >= digits:
            raise RefusedError
        return Totalizer(
            _whole(statistic),
            held.mode if rest[0] == "-1" else TotalMode(int(rest[0])),
            held.limit_mode if rest[1] == "-1" else LimitMode(int(rest[1])),
            digits,
            decimals,
        )

    def _deadband_limit(self, arguments: list[str]) -> list[str]:
        if arguments:
            if len(arguments) != 2 or arguments[0] not in ("0", "1"):
                raise RefusedError
            if not _NUMBER.fullmatch(arguments[1]):
                raise RefusedError
            self._deadband = arguments[1]
        unit = self._unit.instrument.unit_of(self._unit.control_variable)
        assert unit is not None  # only controllers have this command
        return [f"{self._unit.unit_id} {self._deadband} {unit.code} {unit.label}"]

    def _baud_rate(self, arguments: list[str]) -> list[str]:
        if len(arguments) != 1 or (rate := _whole(arguments[0])) not in _BAUD_RATES:
            raise RefusedError
        self._unit.wanted_baudrate = rate
        return [f"{self._unit.unit_id} {rate}"]


def _whole(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 6:
        raise RefusedError
    return int(text)
