"""One simulated mass-flow controller: its state, and its answer to each command."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable
from typing import Final

from penstock.sim.firmware import FIRMWARE_10V20, Firmware, Refusal
from penstock.sim.flow import FlowLoop, ValveHold, volumetric_flow
from penstock.sim.gases import GASES, GASES_BY_NUMBER, Gas
from penstock.sim.layout import (
    Column,
    data_format_table,
    flow_column,
    gas_table,
    manufacturing_table,
    number,
)

__all__ = ["STREAMING_ID", "MassFlowController"]

#: The id of a unit that streams; it listens to this one instead of its own.
STREAMING_ID: Final = "@"

_COMMAND = re.compile(r"(\?\?[A-Z]\*?|@|[A-Z]+)? *=? *(.*)", re.DOTALL)
_DECIMAL = re.compile(r"[+-]?(?:\d{1,12}(?:\.\d{0,12})?|\.\d{1,12})", re.ASCII)
_INTEGER = re.compile(r"\d{1,6}", re.ASCII)

#: Code and label of the units that a flow may be in, mass flow first, then volumetric flow.
_FLOW_UNITS: Final = {"SCCM": (12, "SCCM", "CCM"), "SLPM": (7, "SLPM", "LPM")}
_OVER_RANGE: Final = 1.28
_FULL_SCALE_PSIA: Final = 160.0
_FULL_SCALE_CELSIUS: Final = 50.0
_CELSIUS_RANGE: Final = (-10.0, 60.0)
#: Time units of a ramp rate: code, label, seconds.
_RAMP_TIMES: Final = {
    3: ("ms", 0.001),
    4: ("s", 1.0),
    5: ("m", 60.0),
    6: ("h", 3600.0),
    7: ("d", 86400.0),
}

_Reply = list[str]


class _Refused(Exception):
    """The command is known, its arguments are not acceptable."""


class MassFlowController:
    """A controller that answers the Alicat ASCII protocol and follows its setpoint.

    `full_scale` is in `flow_unit` (`"SCCM"` or `"SLPM"`); it decides width and decimals of the
    flow columns. `tau` is the time constant of the flow in seconds (0: at once). `noise` is the
    standard deviation of a flow reading as a fraction of full scale; pressure and temperature
    readings scatter in proportion. `seed` makes the noise repeatable. `unknown` replaces the
    firmware's answer to unknown commands. `pressure` (PSIA) and `temperature` (Celsius) may be
    assigned at any time.

    `clock` counts seconds; without one the unit takes the clock of the bus it is put on, or
    `time.monotonic` when it stands alone. Not thread-safe.

    Raises ValueError for a unit id outside A to Z, a full scale that is not positive, an unknown
    gas or flow unit, and a negative `tau` or `noise`.
    """

    def __init__(
        self,
        unit_id: str = "A",
        *,
        full_scale: float = 500.0,
        flow_unit: str = "SCCM",
        gas: int = 8,
        pressure: float = 14.62,
        temperature: float = 21.89,
        tau: float = 0.3,
        noise: float = 0.0,
        seed: int | None = None,
        firmware: Firmware = FIRMWARE_10V20,
        unknown: Refusal | None = None,
        model: str | None = None,
        serial_number: str = "521641",
        clock: Callable[[], float] | None = None,
    ) -> None:
        unit_id = unit_id.upper()
        if len(unit_id) != 1 or not "A" <= unit_id <= "Z":
            raise ValueError(f"unit id {unit_id!r} is not one letter from A to Z")
        if not 0.0 < full_scale < 1e6:
            raise ValueError(f"full scale {full_scale} is not between 0 and 1000000 {flow_unit}")
        if flow_unit not in _FLOW_UNITS:
            raise ValueError(f"flow unit {flow_unit!r} is not one of {', '.join(_FLOW_UNITS)}")
        if gas not in GASES_BY_NUMBER:
            raise ValueError(f"gas number {gas} is not in the gas table")
        if not tau >= 0.0:
            raise ValueError(f"time constant {tau} s is negative")
        if not noise >= 0.0:
            raise ValueError(f"noise {noise} is negative")
        self.unit_id = unit_id
        self.full_scale: Final = float(full_scale)
        self.flow_unit: Final = flow_unit
        self.pressure = pressure
        self.temperature = temperature
        self.noise = noise
        self.firmware: Final = firmware
        self.unknown = unknown
        self.model = model if model is not None else f"MC-{full_scale:g}{flow_unit}-D"
        self.serial_number = serial_number
        self.clock = clock
        #: Milliseconds between streamed frames; 0 is as fast as the line allows.
        self.stream_interval_ms = 50
        self._loop = FlowLoop(tau=tau)
        # A seed of its own for each unit, so that units made alike do not scatter alike.
        self._random = random.Random(f"{seed}/{unit_id}" if seed is not None else f"0/{unit_id}")
        self._gas = GASES_BY_NUMBER[gas]
        self._locked = False
        self._injected: set[str] = set()
        self._flow_offset = 0.0
        self._source = "S"
        self._loop_variable = 37
        self._ramp_time = 4
        self._ramp_rate = 0.0
        self._columns = self._layout()
        self._known = self._handlers()

    # -- what a test or a script sees and does ------------------------------------------------

    def now(self) -> float:
        """The unit's clock, in seconds."""
        return (self.clock or time.monotonic)()

    @property
    def mass_flow(self) -> float:
        """The true flow at this moment, without noise or tare."""
        self._loop.advance(self.now())
        return self._true_mass_flow()

    @property
    def setpoint(self) -> float:
        """The requested setpoint. Assigning acts like `LS` with a serial source."""
        return self._loop.requested

    @setpoint.setter
    def setpoint(self, value: float) -> None:
        if not 0.0 <= value <= self.full_scale:
            raise ValueError(f"setpoint {value} is not within 0 and {self.full_scale:g}")
        self._loop.advance(self.now())
        self._loop.requested = value

    @property
    def gas(self) -> Gas:
        return self._gas

    @property
    def streaming(self) -> bool:
        return self.unit_id == STREAMING_ID

    def force_flow(self, value: float | None) -> None:
        """Impose a flow from outside, over range if wished; None gives the valve its say back."""
        self._loop.advance(self.now())
        self._loop.forced = value

    def inject_status(self, *codes: str) -> None:
        """Show these status codes until `clear_status`.

        Raises ValueError for a code that this firmware does not list.
        """
        known = ("ADC", *self.firmware.statuses)
        for code in codes:
            if code not in known:
                raise ValueError(f"status {code!r} is not one of {', '.join(known)}")
        self._injected.update(codes)

    def clear_status(self, *codes: str) -> None:
        """Take back injected status codes; without arguments all of them."""
        if codes:
            self._injected.difference_update(codes)
        else:
            self._injected.clear()

    def listens_to(self, address: str) -> bool:
        return address == self.unit_id

    # -- answering ----------------------------------------------------------------------------

    def answer(self, command: str, at: float | None = None) -> list[str]:
        """The lines that answer `command` (unit id and carriage return taken off).

        `at` is the instant of the request on the unit's clock. Never raises for any text; an
        empty list is silence.
        """
        self._loop.advance(self.now() if at is None else at)
        match = _COMMAND.fullmatch(command.strip().upper())
        assert match is not None  # the pattern takes any text
        name, arguments = match[1] or "", match[2].split()
        if self.firmware.locks_on_l and name.startswith("L"):
            self._locked = True
            return [self._frame()]
        handler = self._known.get(name) if name in self.firmware.commands else None
        if handler is None:
            return self._refuse(self._manner_of(name))
        try:
            return handler(arguments)
        except _Refused:
            return self._refuse(Refusal.QUESTION)

    def stream_frame(self, at: float) -> str:
        """The next frame of a streaming unit."""
        self._loop.advance(at)
        return self.firmware.stream_prefix + self._frame()[1:]

    def _manner_of(self, name: str) -> Refusal:
        if self.unknown is not None:
            return self.unknown
        return self.firmware.refusals.get(name, self.firmware.unknown)

    def _refuse(self, manner: Refusal) -> _Reply:
        match manner:
            case Refusal.QUESTION:
                return ["?"]
            case Refusal.UNIT_QUESTION:
                return [f"{self.unit_id} ?"]
            case Refusal.SILENCE:
                return []
            case Refusal.FRAME:
                return [self._frame()]
            case Refusal.PLACEHOLDER:
                return [f"{self.unit_id}   1 ---"]
            case Refusal.NOT_ENABLED:
                return [f"{self.unit_id}   Feature Not Enabled"]

    def _handlers(self) -> dict[str, Callable[[list[str]], _Reply]]:
        return {
            "": self._poll,
            "@": self._change_unit_id,
            "VE": self._version,
            "??M*": self._manufacturing,
            "??D*": self._data_format,
            "??G*": self._gases,
            "GS": self._gas_select,
            "G": self._gas_select_legacy,
            "LS": self._setpoint,
            "S": self._setpoint_legacy,
            "LSS": self._setpoint_source,
            "LV": self._control_variable,
            "FPF": self._full_scale_of,
            "DCU": self._unit_of,
            "DV": self._values_of,
            "HP": self._hold_valve,
            "HC": self._close_valve,
            "C": self._cancel_hold,
            "L": self._lock,
            "U": self._unlock,
            "T": self._tare_flow,
            "V": self._tare_flow,
            "TP": self._tare_pressure,
            "P": self._tare_pressure,
            "NCS": self._stream_interval,
            "SR": self._ramp,
            "VD": self._valve_drive,
        }

    # -- identity -----------------------------------------------------------------------------

    def _version(self, arguments: list[str]) -> _Reply:
        return [f"{self.unit_id}   {self.firmware.name} {self.firmware.built}"]

    def _manufacturing(self, arguments: list[str]) -> _Reply:
        return manufacturing_table(
            self.unit_id, self.firmware, model=self.model, serial_number=self.serial_number
        )

    def _data_format(self, arguments: list[str]) -> _Reply:
        gases = (GASES[0].short, GASES[-1].short.replace("-", ""))
        return data_format_table(self.unit_id, self.firmware, self._columns, gases)

    def _gases(self, arguments: list[str]) -> _Reply:
        return gas_table(self.unit_id)

    def _change_unit_id(self, arguments: list[str]) -> _Reply:
        if len(arguments) != 1 or not re.fullmatch(r"[@A-Z]", arguments[0]):
            raise _Refused
        self.unit_id = arguments[0]
        # A unit that begins to stream says nothing but its frames.
        return [] if self.streaming else [self._frame()]

    # -- readings -----------------------------------------------------------------------------

    def _layout(self) -> tuple[Column, ...]:
        code, mass_label, volumetric_label = _FLOW_UNITS[self.flow_unit]
        width, precision = flow_column(self.full_scale, fewer_decimals=self.firmware.fewer_decimals)
        signed = self.firmware.signed_setpoint
        by_volume = self._loop_variable == 36
        full = self.full_scale
        return (
            Column(2, "Abs Press", "Pressure", 10, "PSIA", 7, 2, maximum=_FULL_SCALE_PSIA),
            Column(3, "Flow Temp", "Temperature", 2, "`C", 7, 2, True, -10.0, _FULL_SCALE_CELSIUS),
            Column(
                4, "Volu Flow", "Volumetric", code, volumetric_label, width, precision, maximum=full
            ),
            Column(5, "Mass Flow", "Mass", code, mass_label, width, precision, maximum=full),
            Column(
                self._loop_variable,
                "Volu Flow Setpt" if by_volume else "Mass Flow Setpt",
                "SetPoint",
                code,
                volumetric_label if by_volume else mass_label,
                width if signed else width - 1,
                precision,
                signed,
                maximum=full,
            ),
        )

    def _measure(self) -> tuple[float, float, float, float, float]:
        """Pressure, temperature, volumetric flow, mass flow, setpoint as the sensors give them."""
        pressure, celsius = self.pressure, self.temperature
        mass = self._true_mass_flow() - self._flow_offset
        if self.noise:
            scatter = self._random.gauss
            mass += scatter(0.0, self.noise * self.full_scale)
            pressure += scatter(0.0, self.noise * 14.7)
            celsius += scatter(0.0, self.noise * 25.0)
        volume = volumetric_flow(mass, pressure_psia=pressure, celsius=celsius)
        return pressure, celsius, volume, mass, self._loop.active

    def _true_mass_flow(self) -> float:
        if self._loop_variable == 37:
            return self._loop.flow
        # The loop then controls the volumetric flow.
        ratio = volumetric_flow(1.0, pressure_psia=self.pressure, celsius=self.temperature)
        return self._loop.flow / ratio if ratio else 0.0

    def _frame(self) -> str:
        values = self._measure()
        parts = [self.unit_id]
        parts += [c.format(v) for c, v in zip(self._columns, values, strict=True)]
        parts.append(f"{self._gas.short:>{self.firmware.gas_width}}")
        parts += self._statuses(values)
        return " ".join(parts)

    def _statuses(self, values: tuple[float, float, float, float, float]) -> list[str]:
        pressure, celsius, volume, mass, _ = values
        shown = set(self._injected)
        limit = self.full_scale * _OVER_RANGE
        if abs(mass) > limit:
            shown.add("MOV")
        if abs(volume) > limit:
            shown.add("VOV")
        if not 0.0 <= pressure <= _FULL_SCALE_PSIA:
            shown.add("POV")
        if not _CELSIUS_RANGE[0] <= celsius <= _CELSIUS_RANGE[1]:
            shown.add("TOV")
        if self._loop.hold is not ValveHold.NONE:
            shown.add("HLD")
        if self._locked:
            shown.add("LCK")
        return [code for code in ("ADC", *self.firmware.statuses) if code in shown]

    def _poll(self, arguments: list[str]) -> _Reply:
        if arguments:
            # The oldest form of a setpoint: a bare count, 64000 being full scale.
            count = _integer(arguments[0])
            if len(arguments) > 1 or count > 64000:
                raise _Refused
            self._request(self.full_scale * count / 64000)
        return [self._frame()]

    def _values_of(self, arguments: list[str]) -> _Reply:
        if not 2 <= len(arguments) <= 14 or not 1 <= _integer(arguments[0]) <= 9999:
            raise _Refused
        columns, values = self._columns, self._measure()
        known = {c.statistic: c.format(v) for c, v in zip(columns, values, strict=True)}
        # The only reply without a unit id in front.
        return [" ".join(known.get(_integer(code), "--") for code in arguments[1:])]

    # -- setpoint -----------------------------------------------------------------------------

    def _request(self, value: float) -> None:
        if not 0.0 <= value <= self.full_scale:
            raise _Refused
        if self._source == "A":
            return  # accepted and ignored, as the instruments do
        self._loop.requested = value
        self._loop.ramp = self._ramp_rate
        if not self._ramp_rate:
            self._loop.active = value

    def _setpoint(self, arguments: list[str]) -> _Reply:
        if len(arguments) > 2:
            raise _Refused
        before = self._loop.active
        if arguments:
            self._request(_decimal(arguments[0]))
        column = self._columns[-1]
        return [
            f"{self.unit_id} {column.format(before)} {column.format(self._loop.requested)}"
            f" {column.unit_code} {column.unit_label}"
        ]

    def _setpoint_legacy(self, arguments: list[str]) -> _Reply:
        if len(arguments) != 1:
            raise _Refused
        self._request(_decimal(arguments[0]))
        return [self._frame()]

    def _setpoint_source(self, arguments: list[str]) -> _Reply:
        if arguments:
            if arguments[0] not in ("A", "S", "U") or len(arguments) > 2:
                raise _Refused
            self._source = arguments[0]
        return [f"{self.unit_id} {self._source}"]

    def _control_variable(self, arguments: list[str]) -> _Reply:
        if arguments:
            if len(arguments) > 1 or arguments[0] not in ("36", "37"):
                raise _Refused
            self._loop_variable = int(arguments[0])
            self._columns = self._layout()
        return [f"{self.unit_id} {self._loop_variable}"]

    def _ramp(self, arguments: list[str]) -> _Reply:
        if arguments:
            if len(arguments) != 2 or (code := _integer(arguments[1])) not in _RAMP_TIMES:
                raise _Refused
            rate = _decimal(arguments[0])
            if rate < 0.0:
                raise _Refused
            self._ramp_time = code
            self._ramp_rate = self._loop.ramp = rate / _RAMP_TIMES[code][1]
        label, seconds = _RAMP_TIMES[self._ramp_time]
        unit = self._columns[-1]
        rate = self._ramp_rate * seconds
        return [
            f"{self.unit_id} {rate:.{max(1, unit.precision)}f} {unit.unit_code}"
            f" {self._ramp_time} {unit.unit_label}/{label}"
        ]

    # -- gas, units, ranges -------------------------------------------------------------------

    def _gas_select(self, arguments: list[str]) -> _Reply:
        if arguments:
            self._choose_gas(arguments)
        return [f"{self.unit_id} {self._gas.number} {self._gas.short} {self._gas.long}"]

    def _gas_select_legacy(self, arguments: list[str]) -> _Reply:
        self._choose_gas(arguments)
        return [self._frame()]

    def _choose_gas(self, arguments: list[str]) -> None:
        if not 1 <= len(arguments) <= 2:
            raise _Refused
        gas = GASES_BY_NUMBER.get(_integer(arguments[0]))
        if gas is None:
            raise _Refused
        self._gas = gas

    def _full_scale_of(self, arguments: list[str]) -> _Reply:
        column = self._column_of(arguments)
        if column is None:
            return [f"{self.unit_id} +0 1 ---"]
        full = number(column.maximum, width=7, precision=column.precision)
        return [f"{self.unit_id} {full} {column.unit_code} {column.unit_label}"]

    def _unit_of(self, arguments: list[str]) -> _Reply:
        column = self._column_of(arguments)
        if column is None:
            return [f"{self.unit_id} 1 ---"]
        return [f"{self.unit_id} {column.unit_code} {column.unit_label}"]

    def _column_of(self, arguments: list[str]) -> Column | None:
        if len(arguments) != 1:
            raise _Refused
        statistic = _integer(arguments[0])
        return next((c for c in self._columns if c.statistic == statistic), None)

    # -- valve, lock, tare, streaming ---------------------------------------------------------

    def _hold_valve(self, arguments: list[str]) -> _Reply:
        return self._set_hold(ValveHold.HELD)

    def _close_valve(self, arguments: list[str]) -> _Reply:
        return self._set_hold(ValveHold.CLOSED)

    def _cancel_hold(self, arguments: list[str]) -> _Reply:
        return self._set_hold(ValveHold.NONE)

    def _set_hold(self, hold: ValveHold) -> _Reply:
        self._loop.hold = hold
        return [self._frame()]

    def _valve_drive(self, arguments: list[str]) -> _Reply:
        percent = min(100.0, max(0.0, 100.0 * self._loop.flow / self.full_scale))
        return [f"{self.unit_id} {percent:06.2f} 000.00 000.00 000.00"]

    def _lock(self, arguments: list[str]) -> _Reply:
        self._locked = True
        return [self._frame()]

    def _unlock(self, arguments: list[str]) -> _Reply:
        self._locked = False
        return [self._frame()]

    def _tare_flow(self, arguments: list[str]) -> _Reply:
        if arguments:
            raise _Refused  # with a number it would reset a totalizer, and there is none
        self._flow_offset = self._true_mass_flow()
        return [self._frame()]

    def _tare_pressure(self, arguments: list[str]) -> _Reply:
        if arguments:
            raise _Refused
        return [self._frame()]  # no gauge pressure is shown, so nothing moves

    def _stream_interval(self, arguments: list[str]) -> _Reply:
        if arguments:
            if len(arguments) > 1 or (interval := _integer(arguments[0])) > 65535:
                raise _Refused
            self.stream_interval_ms = interval
        return [f"{self.unit_id} {self.stream_interval_ms}"]


def _decimal(text: str) -> float:
    # float() would also take nan, inf, 1e5 and 1_0; an instrument takes none of them.
    if not _DECIMAL.fullmatch(text):
        raise _Refused
    return float(text)


def _integer(text: str) -> int:
    if not _INTEGER.fullmatch(text):
        raise _Refused
    return int(text)
