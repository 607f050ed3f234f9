"""The BASIS personality: commands and a frame of its own, and no tables.

All of it follows the operating manual; nothing was captured. The answer ``?`` to an unknown command
is a guess.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import ClassVar, Final

from penstock.sim._personality.ascii_unit import AsciiUnit
from penstock.sim._physics.code_tables import GASES_BY_NUMBER
from penstock.sim._physics.firmware import FIRMWARE_BASIS, Refusal
from penstock.sim._physics.flow import ValveHold
from penstock.sim._physics.instrument import Instrument, Measurand
from penstock.sim._physics.layout import number
from penstock.sim._physics.settings import RefusedError

#: Its own numbers of gases, to those of the other instruments.
BASIS_GASES: Final = {0: 0, 1: 1, 2: 4, 3: 8, 4: 11, 5: 9, 6: 6, 7: 7, 8: 2}
_WHOLE: Final = re.compile(r"\d{1,5}", re.ASCII)
_NUMBER: Final = re.compile(r"\d{1,9}(?:\.\d{1,6})?", re.ASCII)
_BAUD_RATES: Final = {"0": 4800, "1": 9600, "2": 19200, "3": 38400, "4": 57600, "5": 115200}

_Reply = list[str]


class BasisController(AsciiUnit):
    """A BASIS controller: temperature, flow, total, setpoint, valve drive, gas.

    The arguments are those of :class:`FlowUnit`; gases have the usual numbers here, and those of
    the manual on the wire.
    """

    _controls: ClassVar[bool] = True

    def __init__(
        self,
        unit_id: str = "A",
        *,
        full_scale: float = 100.0,
        flow_unit: str = "SCCM",
        gas: int = 8,
        temperature: float = 24.57,
        tau: float = 0.3,
        noise: float = 0.0,
        seed: int | None = None,
        unknown: Refusal | None = None,
        serial_number: str = "B123456",
        clock: Callable[[], float] | None = None,
    ) -> None:
        if gas not in BASIS_GASES.values():
            raise ValueError(f"gas number {gas} is not one of {sorted(BASIS_GASES.values())}")
        instrument = Instrument(
            Measurand.GAS_FLOW,
            controls=self._controls,
            full_scale=full_scale,
            unit=flow_unit,
            gas=gas,
            temperature=temperature,
            tau=tau,
            noise=noise,
            name=unit_id.upper(),
            seed=seed,
            clock=clock,
        )
        super().__init__(
            unit_id,
            instrument,
            FIRMWARE_BASIS,
            model_number="BASIS",
            serial_number=serial_number,
            unknown=unknown,
        )
        self._batch_volume = "0.0"
        self._gains = ["500", "5000"]
        self._auto = "1"

    def _handlers(self) -> dict[str, Callable[[list[str]], _Reply]]:
        handlers: dict[str, Callable[[list[str]], _Reply]] = {
            "": self._poll,
            "@": self._change_unit_id,
            "VE": lambda arguments: [f"{self.unit_id} {self.firmware.name}"],
            "SN": lambda arguments: [f"{self.unit_id} {self.serial_number}"],
            "FPF": self._range,
            "GS": self._select_gas,
            "V": self._tare,
            "T": self._reset,
            "TB": self._batch,
            "ZCA": self._tare_at_power_up,
            "NCB": self._change_baud_rate,
        }
        if self.instrument.controls:
            handlers |= {
                "S": self._setpoint_legacy,
                "LCG": self._gain,
                "HPUR": self._hold_at,
                "C": self._cancel_hold,
                "DV": self._remaining,
            }
        return handlers

    def _frame(self) -> str:
        instrument = self.instrument
        if self.readings is not None:
            temperature, flow, total, *rest = self.readings(self.polls)
        else:
            shown = dict(
                zip((q.statistic for q in instrument.quantities), instrument.measure(), strict=True)
            )
            temperature, flow, total = shown[3], shown[5], instrument.total
            rest = [instrument.to_shown(instrument.loop.active), self.valve_drive()]
        parts = [
            self.unit_id,
            number(temperature, width=6, precision=2),
            number(flow, width=6, precision=1),
            number(total, width=10, precision=1),
        ]
        if instrument.controls:
            parts += [number(rest[0], width=6, precision=1), number(rest[1], width=6, precision=2)]
        return " ".join([*parts, f"{instrument.gas.short:>6}", *self.statuses()])

    def valve_drive(self) -> float:
        """How far the valve is open, in percent."""
        instrument = self.instrument
        return min(100.0, max(0.0, 100.0 * instrument.loop.flow / instrument.full_scale))

    def _poll(self, arguments: list[str]) -> _Reply:
        if arguments:
            raise RefusedError
        self.polls: int = self.polls + 1
        return [self._frame()]

    def _range(self, arguments: list[str]) -> _Reply:
        if arguments == ["0"]:
            full = number(self.full_scale, width=6, precision=1)
            return [f"{self.unit_id} {full} {self.instrument.delivered_unit.label}"]
        if arguments == ["1"]:
            label = {"SCCM": "SCC", "SLPM": "SL"}.get(self.instrument.delivered_unit.label, "SCC")
            return [f"{self.unit_id} +9999999.0 {label}"]
        raise RefusedError

    def _select_gas(self, arguments: list[str]) -> _Reply:
        if arguments:
            if len(arguments) > 1 or not _WHOLE.fullmatch(arguments[0]):
                raise RefusedError
            if int(arguments[0]) not in BASIS_GASES:
                raise RefusedError
            self.instrument.choose_gas(GASES_BY_NUMBER[BASIS_GASES[int(arguments[0])]])
        return [f"{self.unit_id} {self.basis_gas} {self.gas.short} {self.gas.long}"]

    @property
    def basis_gas(self) -> int:
        """The gas's number as BASIS counts them."""
        return next(own for own, usual in BASIS_GASES.items() if usual == self.gas.number)

    def _tare(self, arguments: list[str]) -> _Reply:
        if len(arguments) != 1 or not _NUMBER.fullmatch(arguments[0]):
            raise RefusedError
        self.instrument.tare_flow()
        return [self._frame()]

    def _reset(self, arguments: list[str]) -> _Reply:
        if arguments:
            raise RefusedError
        self.instrument.reset_total()
        return [self._frame()]

    def _batch(self, arguments: list[str]) -> _Reply:
        if arguments:
            if len(arguments) > 1 or not _NUMBER.fullmatch(arguments[0]):
                raise RefusedError
            self._batch_volume = arguments[0]
            self.instrument.begin_batch(float(arguments[0]))
        return [f"{self.unit_id} {self._batch_volume}"]

    def _remaining(self, arguments: list[str]) -> _Reply:
        # The manual has this one statistic alone: what remains of a batch.
        if arguments != ["64"]:
            raise RefusedError
        remaining = self.instrument.batch_remaining()
        return [f"{self.unit_id} {number(remaining, width=10, precision=1)}"]

    def _gain(self, arguments: list[str]) -> _Reply:
        if arguments:
            if len(arguments) != 2 or not all(map(_WHOLE.fullmatch, arguments)):
                raise RefusedError
            self._gains = arguments
        return [f"{self.unit_id} {' '.join(self._gains)}"]

    def _hold_at(self, arguments: list[str]) -> _Reply:
        if len(arguments) != 1 or not _NUMBER.fullmatch(arguments[0]):
            raise RefusedError
        percent = float(arguments[0])
        if percent > 100.0:
            raise RefusedError
        self.instrument.loop.flow = self.full_scale * percent / 100.0
        return self._set_hold(ValveHold.HELD)

    def _tare_at_power_up(self, arguments: list[str]) -> _Reply:
        if arguments:
            if arguments not in (["0"], ["1"]):
                raise RefusedError
            self._auto = arguments[0]
        return [f"{self.unit_id} {self._auto}"]

    def _change_baud_rate(self, arguments: list[str]) -> _Reply:
        if len(arguments) != 1 or arguments[0] not in _BAUD_RATES:
            raise RefusedError
        self.wanted_baudrate: int | None = _BAUD_RATES[arguments[0]]
        return [f"{self.unit_id} {arguments[0]}"]


class BasisMeter(BasisController):
    """A BASIS meter: temperature, flow, total, gas."""

    _controls = False
