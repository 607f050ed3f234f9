"""The Alicat ASCII personality: the answers of one simulated instrument to each command."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from penstock.sim._physics.code_tables import GASES, SimulatedGas
from penstock.sim._physics.firmware import Firmware, Refusal
from penstock.sim._physics.flow import ValveHold
from penstock.sim._physics.instrument import Instrument, Measurand
from penstock.sim._physics.layout import (
    Column,
    columns_of,
    data_format_table,
    gas_table,
    manufacturing_table,
    number,
)
from penstock.sim._physics.settings import (
    RefusedError,
    Settings,
    decimal_argument,
    integer_argument,
)

#: The id of a unit that streams; it responds to this one instead of its own.
STREAMING_ID: Final = "@"

_COMMAND = re.compile(r"(\?\?[A-Z]\*?|@|[A-Z]+)? *=? *(.*)", re.DOTALL | re.IGNORECASE)
#: Time units of a ramp rate: code, label, seconds.
_RAMP_TIMES: Final = {
    3: ("ms", 0.001),
    4: ("s", 1.0),
    5: ("m", 60.0),
    6: ("h", 3600.0),
    7: ("d", 86400.0),
}
#: Commands of controllers alone.
_OF_CONTROLLERS: Final = frozenset(
    {"S", "LSS", "LV", "HP", "H", "HC", "C", "SR", "E", "LSRC", "LCDB"}
)
_OF_GAS: Final = frozenset({"GS", "G", "GM", "GD", "??G*", "DCFRP", "DCFRT"})
_CASE_MATTERS: Final = frozenset({"GM", "UD"})

_Reply = list[str]


class AsciiUnit:
    """One instrument on a line: its unit id, its firmware, and the model behind them.

    ``unknown`` replaces the firmware's answer to unknown commands. The physics is in ``model``.
    Not thread-safe. Raises ValueError for a unit id outside A to Z.
    """

    def __init__(
        self,
        unit_id: str,
        model: Instrument,
        firmware: Firmware,
        *,
        model_number: str,
        serial_number: str = "521641",
        unknown: Refusal | None = None,
    ) -> None:
        unit_id = unit_id.upper()
        if len(unit_id) != 1 or not "A" <= unit_id <= "Z":
            raise ValueError(f"unit id {unit_id!r} is not one letter from A to Z")
        self.unit_id: str = unit_id
        self.instrument: Final = model
        self.firmware: Final = firmware
        self.unknown = unknown
        self.model = model_number
        self.serial_number = serial_number
        #: Milliseconds between streamed frames; 0 is as fast as the line allows.
        self.stream_interval_ms: int = 50
        #: The baud rate that a command has requested; the bus applies it after the answer.
        self.wanted_baudrate: int | None = None
        #: Polls answered so far.
        self.polls: int = 0
        #: Replaces the readings in data frames: called with the number of polls so far, returns a
        #: value for every column. For tests that number what they read.
        self.readings: Callable[[int], Sequence[float]] | None = None
        self._own_id = unit_id
        self.silent_until: float = 0.0
        self.locked: bool = False
        self._injected: set[str] = set()
        self._source = "S"
        self._ramp_time = 4
        self._ramp_rate = 0.0
        self._columns: tuple[Column, ...] = ()
        self._listed: object = None
        self.settings: Settings = Settings(self)
        self._known = self._handlers()

    # -- what a test or a script sees and does ------------------------------------------------

    @property
    def clock(self) -> Callable[[], float] | None:
        """The clock of the unit, in seconds; a bus gives its own clock to a unit without one."""
        return self.instrument.clock

    @clock.setter
    def clock(self, clock: Callable[[], float] | None) -> None:
        self.instrument.clock = clock

    def now(self) -> float:
        """The unit's clock, in seconds."""
        return self.instrument.now()

    @property
    def full_scale(self) -> float:
        """In the unit as delivered."""
        return self.instrument.full_scale

    @property
    def pressure(self) -> float:
        """Absolute pressure at the sensor in PSIA; may be assigned."""
        return self.instrument.pressure

    @pressure.setter
    def pressure(self, value: float) -> None:
        self.instrument.pressure = value

    @property
    def temperature(self) -> float:
        """Temperature in Celsius; may be assigned."""
        return self.instrument.temperature

    @temperature.setter
    def temperature(self, value: float) -> None:
        self.instrument.temperature = value

    @property
    def process_value(self) -> float:
        """The true flow or pressure at this moment, without noise or tare."""
        self.instrument.advance()
        return self.instrument.true_flow

    @property
    def setpoint(self) -> float:
        """The requested setpoint. Assigning acts like ``LS`` with a serial source."""
        return self.instrument.loop.requested

    @setpoint.setter
    def setpoint(self, value: float) -> None:
        if not 0.0 <= value <= self.full_scale:
            raise ValueError(f"setpoint {value} is not between 0 and {self.full_scale:g}")
        self.instrument.supply(value)

    @property
    def gas(self) -> SimulatedGas:
        """The gas that the unit computes with."""
        return self.instrument.gas

    def choose_gas(self, number: int) -> None:
        """Compute with a gas or a mix; RefusedError where there is none."""
        gas = self.settings.gas(number)
        if gas is None:
            raise RefusedError
        self.instrument.choose_gas(gas)

    @property
    def control_variable(self) -> int:
        """The statistic that is controlled."""
        return self.instrument.setpoint_statistic

    def choose_variable(self, statistic: int) -> None:
        """Control another quantity; RefusedError where the instrument cannot."""
        if not self.instrument.choose_variable(statistic):
            raise RefusedError

    def choose_unit(self, statistic: int, code: int) -> None:
        """Show a statistic in another unit, as at the panel; RefusedError where it cannot."""
        if not self.instrument.choose_unit(statistic, code):
            raise RefusedError

    @property
    def streaming(self) -> bool:
        """Whether the unit sends frames by itself."""
        return self.unit_id == STREAMING_ID

    def force_flow(self, value: float | None) -> None:
        """Impose a flow from outside, beyond the range if wanted; None ends it."""
        self.instrument.force(value)

    def start_streaming(self, at: float) -> None:
        """Start to stream, as an instrument that was left streaming."""
        self.instrument.advance(at)
        self.unit_id = STREAMING_ID

    def change_unit_at_panel(self) -> str:
        """Show the process value in the next unit; returns that unit's label."""
        unit = self.instrument.next_unit()
        return unit.label

    def reboot(self, at: float, seconds: float) -> None:
        """Lose power at ``at``, and send nothing for ``seconds``; afterwards it does not stream."""
        self.instrument.reboot()
        self.unit_id = self._own_id
        self.locked = False
        self.silent_until = at + seconds

    def inject_status(self, *codes: str) -> None:
        """Show these status codes until ``clear_status``.

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
        """Whether a request with this address is for the unit."""
        return address == self.unit_id

    # -- answering ----------------------------------------------------------------------------

    def respond(self, body: bytes, at: float) -> list[bytes]:
        """Return the answer to a request that ended at ``at``; no messages mean silence."""
        if at < self.silent_until:
            return []
        lines = self.answer(body.decode("latin-1"), at)
        return [line.encode("latin-1", "replace") for line in lines]

    def answer(self, command: str, at: float | None = None) -> list[str]:
        """Return the lines that answer ``command`` (without unit id and carriage return).

        ``at`` is the time of the request on the unit's clock. Never raises for any text; an empty
        list means silence.
        """
        self.instrument.advance(at)
        command = command.strip()
        prefixed = command.startswith("$$")
        match = _COMMAND.fullmatch(command.removeprefix("$$"))
        assert match is not None  # the pattern takes any text
        name = (match[1] or "").upper()
        arguments = (match[2] if name in _CASE_MATTERS else match[2].upper()).split()
        if self.firmware.locks_on_l and name.startswith("L"):
            self.locked = True
            return [self._frame()]
        handler = self._known.get(name) if name in self.firmware.commands else None
        if name in self.firmware.prefixed and not prefixed:
            handler = None
        if handler is None:
            return self._refuse(self._refusal_of(name))
        try:
            return handler(arguments)
        except RefusedError:
            return self._refuse(self._refusal_of(None))

    def stream_frame(self, at: float) -> str:
        """The next frame of a streaming unit."""
        self.instrument.advance(at)
        return self.firmware.stream_prefix + self._frame()[1:]

    def _refusal_of(self, name: str | None) -> Refusal:
        if name is None:  # a known command with arguments that are not acceptable
            silent = self.firmware.unknown is Refusal.SILENCE
            return Refusal.SILENCE if silent else Refusal.QUESTION
        if self.unknown is not None:
            return self.unknown
        if name == "LS" and "LS" in self.firmware.commands:
            return Refusal.PLACEHOLDER  # a meter
        return self.firmware.refusals.get(name, self.firmware.unknown)

    def _refuse(self, refusal: Refusal) -> _Reply:
        match refusal:
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
            case Refusal.BLANK_QUESTION:
                return ["", "?"]

    def _handlers(self) -> dict[str, Callable[[list[str]], _Reply]]:
        handlers: dict[str, Callable[[list[str]], _Reply]] = {
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
            "H": self._hold_valve,
            "HC": self._close_valve,
            "C": self._cancel_hold,
            "L": self._lock,
            "U": self._unlock,
            "T": self._tare_flow,
            "V": self._tare_flow,
            "TP": self._tare_pressure,
            "P": self._tare_pressure,
            "PC": self._tare_pressure,
            "NCS": self._stream_interval,
            "SR": self._ramp,
            "VD": self._valve_drive,
            "E": self._exhaust,
            **self.settings.handlers(),
        }
        model = self.instrument
        unknown: frozenset[str] = frozenset()
        if not model.controls:
            unknown |= _OF_CONTROLLERS | {"LS"}
        if model.measurand is not Measurand.GAS_FLOW:
            unknown |= _OF_GAS
        return {name: handler for name, handler in handlers.items() if name not in unknown}

    # -- identity -----------------------------------------------------------------------------

    def _version(self, arguments: list[str]) -> _Reply:
        return [f"{self.unit_id}   {self.firmware.name} {self.firmware.built}"]

    def _manufacturing(self, arguments: list[str]) -> _Reply:
        return manufacturing_table(
            self.unit_id, self.firmware, model=self.model, serial_number=self.serial_number
        )

    def _data_format(self, arguments: list[str]) -> _Reply:
        gases = None
        if self._shows_gas:
            gases = (GASES[0].short, GASES[-1].short.replace("-", ""))
        return data_format_table(self.unit_id, self.firmware, self._layout(), gases)

    def _gases(self, arguments: list[str]) -> _Reply:
        return gas_table(self.unit_id, self.firmware, self.settings.mixes.values())

    def _change_unit_id(self, arguments: list[str]) -> _Reply:
        if len(arguments) != 1 or not re.fullmatch(r"[@A-Z]", arguments[0]):
            raise RefusedError
        self.unit_id = arguments[0]
        if not self.streaming:
            self._own_id = self.unit_id
        # A unit that begins to stream sends only its frames.
        return [] if self.streaming else [self._frame()]

    # -- readings -----------------------------------------------------------------------------

    @property
    def _shows_gas(self) -> bool:
        return self.instrument.measurand is Measurand.GAS_FLOW

    def _layout(self) -> tuple[Column, ...]:
        quantities = self.instrument.quantities
        if self._listed is not quantities:
            self._listed = quantities
            self._columns = columns_of(quantities, self.instrument.measurand, self.firmware)
        return self._columns

    def _further(self) -> tuple[Column, ...]:
        return columns_of(self.instrument.further, self.instrument.measurand, self.firmware)

    def _frame(self) -> str:
        columns = self._layout()
        if self.readings is not None:
            values: Sequence[float] = self.readings(self.polls)
        else:
            values = self.instrument.measure()
        parts = [self.unit_id]
        parts += [c.format(v) for c, v in zip(columns, values, strict=True)]
        if self._shows_gas:
            parts.append(f"{self.instrument.gas.short:>{self.firmware.gas_width}}")
        parts += self.statuses()
        return " ".join(parts)

    def statuses(self) -> list[str]:
        """The status codes that the unit shows, in the order of its firmware."""
        shown = self._injected | self.instrument.conditions()
        if self.locked:
            shown.add("LCK")
        return [code for code in ("ADC", *self.firmware.statuses) if code in shown]

    def _poll(self, arguments: list[str]) -> _Reply:
        if arguments:
            # The oldest form of a setpoint: a bare count, 64000 being full scale.
            count = integer_argument(arguments[0])
            if len(arguments) > 1 or count > 64000 or not self.instrument.controls:
                raise RefusedError
            self.request(self.full_scale * count / 64000)
        self.polls += 1
        return [self._frame()]

    def _values_of(self, arguments: list[str]) -> _Reply:
        if not 2 <= len(arguments) <= 14 or not 1 <= integer_argument(arguments[0]) <= 9999:
            raise RefusedError
        instrument = self.instrument
        columns = (*self._layout(), *self._further())
        values = (*instrument.measure(), *instrument.measure_further())
        # In this order, so that the first of two totals is reported.
        pairs = reversed(list(zip(columns, values, strict=True)))
        known = {c.statistic: c.format(v) for c, v in pairs}
        # The only reply without a unit id.
        return [" ".join(known.get(integer_argument(code), "--") for code in arguments[1:])]

    # -- setpoint -----------------------------------------------------------------------------

    def request(self, value: float) -> None:
        """Take a setpoint in the unit of the full scale."""
        if not 0.0 <= value <= self.full_scale:
            raise RefusedError
        if self._source == "A":
            return  # accepted and ignored, as the instruments do
        loop = self.instrument.loop
        loop.requested = value
        loop.ramp = self._ramp_rate
        if not self._ramp_rate:
            loop.active = value

    @property
    def _setpoint_column(self) -> Column:
        statistic = self.instrument.setpoint_statistic
        return next(c for c in self._layout() if c.statistic == statistic)

    def _setpoint(self, arguments: list[str]) -> _Reply:
        if len(arguments) > 2:
            raise RefusedError
        model = self.instrument
        before = model.loop.active
        if arguments:
            self.request(model.to_delivered(decimal_argument(arguments[0])))
        column = self._setpoint_column
        return [
            f"{self.unit_id} {column.format(model.to_shown(before))}"
            f" {column.format(model.to_shown(model.loop.requested))}"
            f" {column.unit_code} {column.unit_label}"
        ]

    def _setpoint_legacy(self, arguments: list[str]) -> _Reply:
        if len(arguments) != 1:
            raise RefusedError
        self.request(self.instrument.to_delivered(decimal_argument(arguments[0])))
        return [self._frame()]

    def _setpoint_source(self, arguments: list[str]) -> _Reply:
        if arguments:
            if arguments[0] not in ("A", "S", "U") or len(arguments) > 2:
                raise RefusedError
            self._source = arguments[0]
        return [f"{self.unit_id} {self._source}"]

    def _control_variable(self, arguments: list[str]) -> _Reply:
        if arguments:
            if len(arguments) > 1:
                raise RefusedError
            self.choose_variable(integer_argument(arguments[0]))
        return [f"{self.unit_id} {self.control_variable}"]

    def _ramp(self, arguments: list[str]) -> _Reply:
        if arguments:
            if len(arguments) != 2 or (code := integer_argument(arguments[1])) not in _RAMP_TIMES:
                raise RefusedError
            rate = decimal_argument(arguments[0])
            if rate < 0.0:
                raise RefusedError
            self._ramp_time = code
            self._ramp_rate = self.instrument.to_delivered(rate) / _RAMP_TIMES[code][1]
            self.instrument.loop.ramp = self._ramp_rate
        label, seconds = _RAMP_TIMES[self._ramp_time]
        unit = self._setpoint_column
        rate = self.instrument.to_shown(self._ramp_rate) * seconds
        return [
            f"{self.unit_id} {rate:.{max(1, unit.precision)}f} {unit.unit_code}"
            f" {self._ramp_time} {unit.unit_label}/{label}"
        ]

    # -- gas, units, ranges -------------------------------------------------------------------

    def _gas_select(self, arguments: list[str]) -> _Reply:
        if arguments:
            self._choose_gas(arguments)
        return [f"{self.unit_id} {self.gas.number} {self.gas.short} {self.gas.long}"]

    def _gas_select_legacy(self, arguments: list[str]) -> _Reply:
        self._choose_gas(arguments)
        return [self._frame()]

    def _choose_gas(self, arguments: list[str]) -> None:
        if not 1 <= len(arguments) <= 2:
            raise RefusedError
        self.choose_gas(integer_argument(arguments[0]))

    def _full_scale_of(self, arguments: list[str]) -> _Reply:
        column = self._column_of(arguments)
        if column is None:
            return [f"{self.unit_id} +0 1 ---"]
        full = number(column.maximum, width=7, precision=column.precision)
        return [f"{self.unit_id} {full} {column.unit_code} {column.unit_label}"]

    def _unit_of(self, arguments: list[str]) -> _Reply:
        if not 1 <= len(arguments) <= 4:
            raise RefusedError
        statistic = integer_argument(arguments[0])
        if len(arguments) > 1:
            self.choose_unit(statistic, integer_argument(arguments[1]))
        unit = self.instrument.unit_of(statistic)
        if unit is None:
            return [f"{self.unit_id} 1 ---"]
        return [f"{self.unit_id} {unit.code} {unit.label}"]

    def _column_of(self, arguments: list[str]) -> Column | None:
        if len(arguments) != 1:
            raise RefusedError
        statistic = integer_argument(arguments[0])
        columns = (*self._layout(), *self._further())
        return next((c for c in columns if c.statistic == statistic), None)

    # -- valve, lock, tare, streaming ---------------------------------------------------------

    def _hold_valve(self, arguments: list[str]) -> _Reply:
        return self._set_hold(ValveHold.HELD)

    def _close_valve(self, arguments: list[str]) -> _Reply:
        return self._set_hold(ValveHold.CLOSED)

    def _cancel_hold(self, arguments: list[str]) -> _Reply:
        self._injected.discard("EXH")
        return self._set_hold(ValveHold.NONE)

    def _exhaust(self, arguments: list[str]) -> _Reply:
        if "EXH" not in self.firmware.statuses:
            raise RefusedError
        self._injected.add("EXH")
        return self._set_hold(ValveHold.CLOSED)

    def _set_hold(self, hold: ValveHold) -> _Reply:
        self.instrument.loop.hold = hold
        return [self._frame()]

    def _valve_drive(self, arguments: list[str]) -> _Reply:
        drive = self.instrument.loop.flow / self.full_scale if self.instrument.controls else 0.0
        percent = min(100.0, max(0.0, 100.0 * drive))
        return [f"{self.unit_id} {percent:06.2f} 000.00 000.00 000.00"]

    def _lock(self, arguments: list[str]) -> _Reply:
        self.locked = True
        return [self._frame()]

    def _unlock(self, arguments: list[str]) -> _Reply:
        self.locked = False
        return [self._frame()]

    def _tare_flow(self, arguments: list[str]) -> _Reply:
        if arguments:
            # With a number it resets a totalizer.
            self.instrument.reset_total(self._totalizer_in_use(arguments))
        else:
            self.instrument.tare_flow()
        return [self._frame()]

    def _tare_pressure(self, arguments: list[str]) -> _Reply:
        if arguments:
            self._totalizer_in_use(arguments)  # the reset of a peak, which no answer shows
        elif self.instrument.measurand.is_pressure:
            self.instrument.tare_flow()
        return [self._frame()]  # a flow instrument shows no gauge pressure, so nothing moves

    def _totalizer_in_use(self, arguments: list[str]) -> int:
        if arguments not in (["1"], ["2"]):
            raise RefusedError
        number = int(arguments[0])
        if self.instrument.totalizers[number - 1].statistic is None:
            raise RefusedError
        return number

    def _stream_interval(self, arguments: list[str]) -> _Reply:
        if arguments:
            if len(arguments) > 1 or (interval := integer_argument(arguments[0])) > 65535:
                raise RefusedError
            self.stream_interval_ms = interval
        return [f"{self.unit_id} {self.stream_interval_ms}"]
