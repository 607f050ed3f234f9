"""The families of instruments, each a model with the personality that goes with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Final

from penstock.sim._personality.ascii_unit import AsciiUnit
from penstock.sim._physics.firmware import FIRMWARE_10V20, FIRMWARE_CODA, Firmware, Refusal
from penstock.sim._physics.instrument import Instrument, Measurand

_REFERENCES: Final = {
    "A": Measurand.ABSOLUTE_PRESSURE,
    "G": Measurand.GAUGE_PRESSURE,
    "D": Measurand.DIFFERENTIAL_PRESSURE,
}


class FlowUnit(AsciiUnit):
    """The common part of flow instruments.

    ``full_scale`` is in ``flow_unit``; it decides width and decimals of the flow columns. ``tau``
    is the time constant of the flow in seconds (0: at once). ``noise`` is the standard deviation of
    a flow reading as a fraction of full scale; pressure and temperature readings scatter in
    proportion. ``seed`` makes the noise repeatable. ``second_sensor`` is the reference of a second
    pressure sensor (A, G or D), which the data frame does not show. ``unknown`` replaces the
    firmware's answer to unknown commands.

    ``clock`` counts seconds; without one the unit uses the clock of its bus, or ``time.monotonic``
    without a bus. Not thread-safe.

    Raises ValueError for a unit id outside A to Z, a full scale that is not positive, an unknown
    gas or flow unit, and a negative ``tau`` or ``noise``.
    """

    _measurand: ClassVar[Measurand] = Measurand.GAS_FLOW
    _controls: ClassVar[bool] = True
    _letters: ClassVar[str] = "MC"
    _firmware: ClassVar[Firmware] = FIRMWARE_10V20
    _unit: ClassVar[str] = "SCCM"

    def __init__(
        self,
        unit_id: str = "A",
        *,
        full_scale: float = 500.0,
        flow_unit: str | None = None,
        gas: int = 8,
        pressure: float = 14.62,
        temperature: float = 21.89,
        tau: float = 0.3,
        noise: float = 0.0,
        seed: int | None = None,
        second_sensor: str | None = None,
        firmware: Firmware | None = None,
        unknown: Refusal | None = None,
        model: str | None = None,
        serial_number: str = "521641",
        clock: Callable[[], float] | None = None,
    ) -> None:
        unit = flow_unit or self._unit
        instrument = Instrument(
            self._measurand,
            controls=self._controls,
            full_scale=full_scale,
            unit=unit,
            gas=gas,
            pressure=pressure,
            temperature=temperature,
            tau=tau,
            noise=noise,
            name=unit_id.upper(),
            seed=seed,
            second_sensor=second_sensor,
            clock=clock,
        )
        super().__init__(
            unit_id,
            instrument,
            firmware or self._firmware,
            model_number=model or f"{self._letters}-{full_scale:g}{unit.replace('/', 'P')}-D",
            serial_number=serial_number,
            unknown=unknown,
        )

    @property
    def mass_flow(self) -> float:
        """The true flow at this moment, without noise or tare."""
        return self.process_value


class MassFlowController(FlowUnit):
    """A controller of gas flow that follows its setpoint; for the arguments see ``FlowUnit``."""


class MassFlowMeter(FlowUnit):
    """A meter of gas flow; ``instrument.supply`` gives it something to measure."""

    _controls = False
    _letters = "M"


class LiquidController(FlowUnit):
    """A controller of liquid flow. Its columns are a guess: no frame was captured."""

    _measurand = Measurand.LIQUID_FLOW
    _letters = "LC"
    _unit = "CCM"


class LiquidMeter(LiquidController):
    """A meter of liquid flow. Its columns are a guess: no frame was captured."""

    _controls = False
    _letters = "L"


class CoriolisController(FlowUnit):
    """A CODA controller. Its columns are a guess: no frame was captured."""

    _measurand = Measurand.CORIOLIS_FLOW
    _letters = "KC"
    _firmware = FIRMWARE_CODA
    _unit = "g/m"


class CoriolisMeter(CoriolisController):
    """A CODA meter. Its columns are a guess: no frame was captured."""

    _controls = False
    _letters = "K"


class PressureController(AsciiUnit):
    """A controller of absolute (A), gauge (G) or differential (D) pressure.

    ``pressure_unit`` is the unit of ``full_scale``, without the letter of the reference. The other
    arguments are those of :class:`MassFlowController`. The frame has the pressure and the setpoint;
    the names in its table are those of the statistics, not captured.
    """

    _controls: ClassVar[bool] = True
    _letters: ClassVar[str] = "PC"

    def __init__(
        self,
        unit_id: str = "A",
        *,
        full_scale: float = 100.0,
        pressure_unit: str = "PSI",
        reference: str = "A",
        tau: float = 0.3,
        noise: float = 0.0,
        seed: int | None = None,
        second_sensor: str | None = None,
        firmware: Firmware = FIRMWARE_10V20,
        unknown: Refusal | None = None,
        model: str | None = None,
        serial_number: str = "521641",
        clock: Callable[[], float] | None = None,
    ) -> None:
        if reference not in _REFERENCES:
            raise ValueError(f"reference {reference!r} is not A, G or D")
        unit = pressure_unit + reference
        instrument = Instrument(
            _REFERENCES[reference],
            controls=self._controls,
            full_scale=full_scale,
            unit=unit,
            tau=tau,
            noise=noise,
            name=unit_id.upper(),
            seed=seed,
            second_sensor=second_sensor,
            clock=clock,
        )
        super().__init__(
            unit_id,
            instrument,
            firmware,
            model_number=model or f"{self._letters}-{full_scale:g}{unit}-D",
            serial_number=serial_number,
            unknown=unknown,
        )


class PressureMeter(PressureController):
    """A pressure meter; ``instrument.supply`` gives it something to measure."""

    _controls = False
    _letters = "P"
