"""The physics of one simulated instrument, without any protocol.

An instrument measures some quantities and may control one of them. It holds the true state in its
units as delivered, and shows it in the units that were chosen since. A personality (``ascii_unit``,
``basis_unit``) defines its answers on a line.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from penstock.sim._physics.code_tables import (
    GASES_BY_NUMBER,
    UNITS,
    Dimension,
    EngineeringUnit,
    SimulatedGas,
    unit_named,
    viscosity_ratio,
)
from penstock.sim._physics.flow import Batch, FlowControlLoop, Totalizer, ValveHold, volumetric_flow

OVER_RANGE: Final = 1.28
FULL_SCALE_PSIA: Final = 160.0
_FULL_SCALE_CELSIUS: Final = 50.0
_CELSIUS_RANGE: Final = (-10.0, 60.0)

ABSOLUTE_PRESSURE: Final = 2
TEMPERATURE: Final = 3
VOLUMETRIC_FLOW: Final = 4
MASS_FLOW: Final = 5
GAUGE_PRESSURE: Final = 6
DIFFERENTIAL_PRESSURE: Final = 7
VOLUME_TOTAL: Final = 8
MASS_TOTAL: Final = 9
SECOND_ABSOLUTE_PRESSURE: Final = 344
SECOND_GAUGE_PRESSURE: Final = 352
SECOND_DIFFERENTIAL_PRESSURE: Final = 360
_ATMOSPHERE_PSI: Final = 14.7


class Measurand(Enum):
    """The quantity that an instrument measures. The value is its name in messages."""

    GAS_FLOW = "gas flow"
    LIQUID_FLOW = "liquid flow"
    CORIOLIS_FLOW = "Coriolis mass flow"
    ABSOLUTE_PRESSURE = "absolute pressure"
    GAUGE_PRESSURE = "gauge pressure"
    DIFFERENTIAL_PRESSURE = "differential pressure"

    @property
    def is_pressure(self) -> bool:
        """Whether it is one of the pressures."""
        return self in _PRESSURES


_PRESSURES: Final = {
    Measurand.ABSOLUTE_PRESSURE: (ABSOLUTE_PRESSURE, 34, Dimension.ABSOLUTE_PRESSURE),
    Measurand.GAUGE_PRESSURE: (GAUGE_PRESSURE, 38, Dimension.GAUGE_PRESSURE),
    Measurand.DIFFERENTIAL_PRESSURE: (DIFFERENTIAL_PRESSURE, 39, Dimension.DIFFERENTIAL_PRESSURE),
}
#: In which dimension the full scale of each measurand may be given.
_DIMENSIONS: Final = {
    Measurand.GAS_FLOW: Dimension.STANDARD_FLOW,
    Measurand.LIQUID_FLOW: Dimension.VOLUMETRIC_FLOW,
    Measurand.CORIOLIS_FLOW: Dimension.TRUE_MASS_FLOW,
} | {measurand: dimension for measurand, (_, _, dimension) in _PRESSURES.items()}
#: The statistic of a setpoint, and the statistic that it controls.
CONTROLLED: Final = {34: ABSOLUTE_PRESSURE, 36: VOLUMETRIC_FLOW, 37: MASS_FLOW,
                     38: GAUGE_PRESSURE, 39: DIFFERENTIAL_PRESSURE,
                     345: SECOND_ABSOLUTE_PRESSURE, 353: SECOND_GAUGE_PRESSURE,
                     361: SECOND_DIFFERENTIAL_PRESSURE}  # fmt: skip
#: By the letter of the reference: the second sensor's statistic, its setpoint, its dimension.
_SECOND: Final = {
    "A": (SECOND_ABSOLUTE_PRESSURE, 345, Dimension.ABSOLUTE_PRESSURE),
    "G": (SECOND_GAUGE_PRESSURE, 353, Dimension.GAUGE_PRESSURE),
    "D": (SECOND_DIFFERENTIAL_PRESSURE, 361, Dimension.DIFFERENTIAL_PRESSURE),
}
#: The setpoints of a second sensor, and those of the first one that they stand for.
_FIRST: Final = {345: 34, 353: 38, 361: 39}
_OF_LINE_PRESSURE: Final = (34, 345)
_SECOND_STATISTICS: Final = frozenset(statistic for statistic, _, _ in _SECOND.values())
_CODE_OF_TOTAL: Final = {"SCCM": (3, "SmL"), "SLPM": (4, "SL"), "CCM": (3, "mL"), "LPM": (4, "L")}


@dataclass(frozen=True, slots=True)
class Quantity:
    """One value that the instrument shows: its statistic, unit and range."""

    statistic: int
    unit: EngineeringUnit
    maximum: float
    minimum: float = 0.0
    #: Which totalizer it is the total of, and its digits and decimals.
    totalizer: tuple[int, int, int] | None = None


class Instrument:
    """State and physics of one meter or controller.

    ``full_scale`` is in ``unit``. ``tau`` is the time constant in seconds (0: at once). ``noise``
    is the standard deviation of a reading as a fraction of full scale; pressure and temperature
    readings scatter in proportion. ``pressure`` (PSIA) and ``temperature`` (Celsius) may be
    assigned at any time. ``name`` and ``seed`` make the noise repeatable and its own.
    ``second_sensor`` is the reference of a second pressure sensor: A, G or D.

    Not thread-safe. Raises ValueError for a full scale that is not positive, an unknown gas, unit
    or reference, and a negative ``tau`` or ``noise``.
    """

    def __init__(
        self,
        measurand: Measurand,
        *,
        controls: bool,
        full_scale: float,
        unit: str,
        gas: int = 8,
        pressure: float = 14.62,
        temperature: float = 21.89,
        tau: float = 0.3,
        noise: float = 0.0,
        name: str = "A",
        seed: int | None = None,
        second_sensor: str | None = None,
        clock: Callable[[], float] | None = None,
    ) -> None:
        if second_sensor not in (None, *_SECOND):
            raise ValueError(f"second sensor {second_sensor!r} is not A, G or D")
        if not 0.0 < full_scale < 1e6:
            raise ValueError(f"full scale {full_scale} is not between 0 and 1000000 {unit}")
        dimension, delivered = unit_named(unit, _DIMENSIONS[measurand])
        if gas not in GASES_BY_NUMBER:
            raise ValueError(f"gas number {gas} is not in the gas table")
        if not tau >= 0.0:
            raise ValueError(f"time constant {tau} s is negative")
        if not noise >= 0.0:
            raise ValueError(f"noise {noise} is negative")
        self.measurand: Final = measurand
        self.controls: Final = controls
        self.full_scale: Final = float(full_scale)
        self.delivered_unit: Final = delivered
        self._ambient = pressure
        self.temperature = temperature
        self.noise = noise
        self.clock = clock
        self.gas: SimulatedGas = GASES_BY_NUMBER[gas]
        #: The gas that really flows; None while it is the selected one.
        self.flowing_gas: int | None = None
        self.loop: Final = FlowControlLoop(tau=tau)
        self.flow_offset: float = 0.0
        self.pressure_offset: float = 0.0
        #: The setpoint after the next loss of power, in the unit of the full scale.
        self.power_up_setpoint: float = 0.0
        self.totalizers: Final = (Totalizer(), Totalizer())
        #: Whether totals outlast a loss of power.
        self.saves_totals = False
        self._batches: Final = (Batch(), Batch())
        self.second_sensor: Final = second_sensor
        #: What the second sensor measures, as delivered; None while it shares the first one's line.
        self.second_pressure: float | None = None
        self._random = random.Random(f"{seed if seed is not None else 0}/{name}")
        self._own_variable: Final = (
            _PRESSURES[measurand][1]
            if measurand.is_pressure
            else (36 if measurand is Measurand.LIQUID_FLOW else 37)
        )
        self.setpoint_statistic: int = self._own_variable
        #: The unit of each measured statistic as delivered, and as shown now.
        self._delivered = self._units_as_delivered(dimension, delivered)
        if second_sensor is not None:
            statistic, _, of_second = _SECOND[second_sensor]
            code = delivered.code if measurand.is_pressure else 10
            self._delivered[statistic] = UNITS[of_second][code]
        self._shown = dict(self._delivered)
        if measurand is Measurand.ABSOLUTE_PRESSURE:
            ambient = delivered.shown(pressure, UNITS[dimension][10])
            self.loop.flow = min(ambient, self.full_scale)
        #: What it measures and does not show in its data frame.
        self.further: tuple[Quantity, ...] = ()
        self.quantities: tuple[Quantity, ...] = self._list_quantities()

    # -- time and control ---------------------------------------------------------------------

    def now(self) -> float:
        """The instrument's clock, in seconds."""
        return (self.clock or time.monotonic)()

    def advance(self, at: float | None = None) -> None:
        """Advance the state to the time ``at``, by default to now."""
        now = self.now() if at is None else at
        loop = self.loop
        passed, backward, flow = loop.passed, loop.passed_backward, loop.flow
        running = [batch for batch in self._batches if batch.runs]
        if running and loop.advance_until_passed(now, min(batch.end for batch in running)):
            for batch in running:
                batch.done = loop.passed >= batch.end
            loop.hold = ValveHold.CLOSED
        loop.advance(now)
        if loop.passed != passed or loop.flow != flow:
            self._count(loop.passed - passed, loop.passed_backward - backward, flow)

    def _count(self, passed: float, backward: float, flow_before: float) -> None:
        """Count the flow through the loop in the totalizers, in its unit and seconds."""
        loop = self.loop
        mass = self._mass_per_loop((flow_before + loop.flow) / 2.0)
        volume = mass
        if self.measurand is Measurand.GAS_FLOW:
            volume *= volumetric_flow(1.0, pressure_psia=self.pressure, celsius=self.temperature)
        for totalizer in self.totalizers:
            scale = (volume if totalizer.statistic == VOLUMETRIC_FLOW else mass) / 60.0
            totalizer.count(
                (passed - backward) * scale,
                backward * scale,
                flow=self.true_flow,
                full_scale=self.full_scale,
            )

    def _mass_per_loop(self, controlled: float) -> float:
        """The flow at standard conditions, of one unit of what the loop controls."""
        if self.setpoint_statistic != 36 and not self.controls_line_pressure:
            return 1.0
        return self._flow_of(controlled) / controlled if controlled else 0.0

    def begin_batch(self, volume: float, number: int = 1) -> None:
        """Close the valve after this volume; 0 ends batching."""
        self.advance()
        self._batches[number - 1].volume = volume
        self._begin_batch_anew(number)

    def batch_remaining(self, number: int = 1) -> float:
        """The rest of the volume before the valve closes."""
        return self._batches[number - 1].remaining(self.loop.passed)

    def _begin_batch_anew(self, number: int) -> None:
        batch = self._batches[number - 1]
        batch.began = self.loop.passed
        was_done, batch.done = batch.done, False
        if was_done and not self._batch_done:
            self.loop.hold = ValveHold.NONE

    @property
    def _batch_done(self) -> bool:
        return any(batch.done for batch in self._batches)

    def supply(self, value: float) -> None:
        """Give a meter something to measure; the reading follows with the time constant."""
        self.advance()
        self.loop.requested = value

    def force(self, value: float | None) -> None:
        """Impose a value from outside, beyond the range if wanted; None ends it."""
        self.advance()
        self.loop.forced = value

    def choose_variable(self, statistic: int) -> bool:
        """Control another quantity. False if this instrument cannot."""
        if not self.controls or statistic not in self._variables():
            return False
        of_line = statistic in _OF_LINE_PRESSURE
        if of_line != self.controls_line_pressure and not self.measurand.is_pressure:
            # A guess: the setpoint starts at the present value.
            loop, flow = self.loop, self.true_flow
            self.setpoint_statistic = statistic
            loop.flow = loop.requested = loop.active = self._resting if of_line else flow
        self.setpoint_statistic = statistic
        self.quantities = self._list_quantities()
        return True

    def _variables(self) -> set[int]:
        """The setpoints that it can follow."""
        allowed = {34, 36, 37} if self.measurand is Measurand.GAS_FLOW else {self._own_variable}
        if self.second_sensor is not None:
            second = _SECOND[self.second_sensor][1]
            # It can stand for the first sensor where both measure alike.
            if _FIRST[second] in allowed:
                allowed.add(second)
        return allowed

    def choose_gas(self, gas: SimulatedGas) -> None:
        """Compute with another gas. What flows stays the same; the reading of it changes."""
        flowing = self.flowing_gas
        if flowing is not None and not self.controls_line_pressure:
            self.loop.flow *= viscosity_ratio(flowing, gas.number) / viscosity_ratio(
                flowing, self.gas.number
            )
        self.gas = gas

    # -- units ---------------------------------------------------------------------------------

    def unit_of(self, statistic: int) -> EngineeringUnit | None:
        """The unit in which a statistic is shown; None if the instrument does not have it."""
        return self._shown.get(CONTROLLED.get(statistic, statistic))

    def choose_unit(self, statistic: int, code: int) -> bool:
        """Show a statistic in another unit, as its panel or a command can. False if it cannot."""
        statistic = CONTROLLED.get(statistic, statistic)
        current = self._delivered.get(statistic)
        if current is None:
            return False
        for units in UNITS.values():
            if current in units.values() and code in units:
                self._shown[statistic] = units[code]
                self.quantities = self._list_quantities()
                return True
        return False

    def next_unit(self) -> EngineeringUnit:
        """Switch the process value between the unit delivered and the first other one."""
        statistic = CONTROLLED[self.setpoint_statistic]
        shown, delivered = self._shown[statistic], self._delivered[statistic]
        units = next(units for units in UNITS.values() if delivered in units.values())
        other = next(unit for unit in units.values() if unit is not delivered)
        self.choose_unit(statistic, (other if shown is delivered else delivered).code)
        return self._shown[statistic]

    def to_delivered(self, value: float) -> float:
        """A setpoint in the unit shown, in the unit of the full scale."""
        statistic = CONTROLLED[self.setpoint_statistic]
        value = self._delivered[statistic].shown(value, self._shown[statistic])
        return value / self._loop_scale

    def to_shown(self, value: float) -> float:
        """A setpoint in the unit of the full scale, in the unit shown."""
        statistic = CONTROLLED[self.setpoint_statistic]
        return self._shown[statistic].shown(value * self._loop_scale, self._delivered[statistic])

    def _units_as_delivered(
        self, dimension: Dimension, unit: EngineeringUnit
    ) -> dict[int, EngineeringUnit]:
        if self.measurand.is_pressure:
            return {_PRESSURES[self.measurand][0]: unit}
        celsius = UNITS[Dimension.TEMPERATURE][2]
        psia = UNITS[Dimension.ABSOLUTE_PRESSURE][10]
        psig = UNITS[Dimension.GAUGE_PRESSURE][10]
        volumetric = UNITS[Dimension.VOLUMETRIC_FLOW]
        if self.measurand is Measurand.LIQUID_FLOW:
            return {GAUGE_PRESSURE: psig, TEMPERATURE: celsius, VOLUMETRIC_FLOW: unit}
        if self.measurand is Measurand.CORIOLIS_FLOW:
            return {TEMPERATURE: celsius, VOLUMETRIC_FLOW: volumetric[12], MASS_FLOW: unit}
        return {
            ABSOLUTE_PRESSURE: psia,
            TEMPERATURE: celsius,
            VOLUMETRIC_FLOW: volumetric[unit.code],
            MASS_FLOW: unit,
        }

    # -- readings ------------------------------------------------------------------------------

    def _list_quantities(self) -> tuple[Quantity, ...]:
        found = []
        for statistic, delivered in self._delivered.items():
            unit = self._shown[statistic]
            least, most = 0.0, self.full_scale
            if not self.measurand.is_pressure:
                if statistic in (ABSOLUTE_PRESSURE, GAUGE_PRESSURE, *_SECOND_STATISTICS):
                    most = FULL_SCALE_PSIA
                elif statistic == TEMPERATURE:
                    least, most = _CELSIUS_RANGE[0], _FULL_SCALE_CELSIUS
            found.append(
                Quantity(statistic, unit, unit.shown(most, delivered), unit.shown(least, delivered))
            )
        if self.controls:
            controlled = next(
                q for q in found if q.statistic == CONTROLLED[self.setpoint_statistic]
            )
            found.append(Quantity(self.setpoint_statistic, controlled.unit, controlled.maximum))
        for number, totalizer in enumerate(self.totalizers, start=1):
            if totalizer.statistic is not None:
                code, label = self.total_unit(number)
                total = MASS_TOTAL if totalizer.statistic == MASS_FLOW else VOLUME_TOTAL
                unit = EngineeringUnit(code, label, 1.0)
                places = (number, totalizer.digits, totalizer.decimals)
                found.append(Quantity(total, unit, totalizer.top, -totalizer.top, places))
        self.further = tuple(q for q in found if q.statistic in _SECOND_STATISTICS)
        return tuple(q for q in found if q.statistic not in _SECOND_STATISTICS)

    @property
    def controls_line_pressure(self) -> bool:
        """Whether this flow controller controls the absolute pressure instead of the flow."""
        return self.setpoint_statistic in _OF_LINE_PRESSURE and not self.measurand.is_pressure

    @property
    def _loop_scale(self) -> float:
        """The controlled quantity, as delivered, of one unit of the loop."""
        return FULL_SCALE_PSIA / self.full_scale if self.controls_line_pressure else 1.0

    @property
    def _resting(self) -> float:
        """What the loop has without power: no flow, or the ambient pressure."""
        return self._ambient / self._loop_scale if self.controls_line_pressure else 0.0

    @property
    def pressure(self) -> float:
        """Absolute pressure at the sensor in PSIA. Assigning sets the ambient pressure."""
        if self.controls_line_pressure:
            return self.loop.flow * self._loop_scale
        return self._ambient

    @pressure.setter
    def pressure(self, value: float) -> None:
        self._ambient = value

    @property
    def true_flow(self) -> float:
        """The flow, or pressure, that the sensor shows, without noise or tare, as delivered."""
        return self._flow_of(self.loop.flow)

    def _flow_of(self, controlled: float) -> float:
        """The flow at standard conditions where the loop's quantity has this value."""
        if self.controls_line_pressure:
            # The gas leaves through a fixed orifice: full scale at the full pressure.
            above = controlled * self._loop_scale - self._ambient
            return max(0.0, self.full_scale * above / (FULL_SCALE_PSIA - self._ambient))
        if self.setpoint_statistic != 36 or self.measurand is not Measurand.GAS_FLOW:
            return controlled
        # The loop then controls the volumetric flow.
        ratio = volumetric_flow(1.0, pressure_psia=self.pressure, celsius=self.temperature)
        return controlled / ratio if ratio else 0.0

    def measure(self) -> tuple[float, ...]:
        """The values of ``quantities``, in the units shown, as the sensors give them."""
        values = self._sensors()
        shown = [
            self._shown[statistic].shown(values[statistic], delivered)
            for statistic, delivered in self._delivered.items()
            if statistic not in _SECOND_STATISTICS
        ]
        if self.controls:
            shown.append(self.to_shown(self.loop.active))
        shown += [t.value for t in self.totalizers if t.statistic is not None]
        return tuple(shown)

    def measure_further(self) -> tuple[float, ...]:
        """The values of ``further``, in the units shown, as the sensors give them."""
        values = self._sensors()
        return tuple(
            q.unit.shown(values[q.statistic], self._delivered[q.statistic]) for q in self.further
        )

    def _sensors(self) -> dict[int, float]:
        pressure, celsius = self.pressure - self.pressure_offset, self.temperature
        flow = self.true_flow - self.flow_offset
        if self.noise:
            scatter = self._random.gauss
            flow += scatter(0.0, self.noise * self.full_scale)
            pressure += scatter(0.0, self.noise * 14.7)
            celsius += scatter(0.0, self.noise * 25.0)
        second = self._second_sensor()
        if self.measurand.is_pressure:
            return {_PRESSURES[self.measurand][0]: flow} | second
        volume = flow
        if self.measurand is Measurand.GAS_FLOW:
            volume = volumetric_flow(flow, pressure_psia=pressure, celsius=celsius)
        return {
            ABSOLUTE_PRESSURE: pressure,
            GAUGE_PRESSURE: pressure - _ATMOSPHERE_PSI,
            TEMPERATURE: celsius,
            VOLUMETRIC_FLOW: volume,
            MASS_FLOW: flow,
        } | second

    def _second_sensor(self) -> dict[int, float]:
        """What the second sensor measures: its own line, or that of the first one."""
        if self.second_sensor is None:
            return {}
        statistic = _SECOND[self.second_sensor][0]
        if self.second_pressure is not None:
            return {statistic: self.second_pressure}
        unit = self._delivered[statistic]
        if not self.measurand.is_pressure:
            absolute = self.pressure
        else:
            absolute = self.loop.flow * unit.size
            if self.measurand is not Measurand.ABSOLUTE_PRESSURE:
                absolute += _ATMOSPHERE_PSI
        # Both sides of a differential sensor are in the same line.
        psi = {"A": absolute, "G": absolute - _ATMOSPHERE_PSI, "D": 0.0}[self.second_sensor]
        return {statistic: psi / unit.size}

    def conditions(self) -> set[str]:
        """The status codes that the physics calls for."""
        shown = set()
        flow = self.true_flow - self.flow_offset
        limit = self.full_scale * OVER_RANGE
        if self.measurand.is_pressure:
            if abs(flow) > limit:
                shown.add("POV")
        else:
            volume = flow
            if self.measurand is Measurand.GAS_FLOW:
                volume = volumetric_flow(
                    flow, pressure_psia=self.pressure, celsius=self.temperature
                )
            if abs(flow) > limit and self.measurand is not Measurand.LIQUID_FLOW:
                shown.add("MOV")
            if abs(volume) > limit:
                shown.add("VOV")
            if not 0.0 <= self.pressure <= FULL_SCALE_PSIA:
                shown.add("POV")
            if not _CELSIUS_RANGE[0] <= self.temperature <= _CELSIUS_RANGE[1]:
                shown.add("TOV")
        if any(t.overflowed and t.limit_mode.shows for t in self.totalizers):
            shown.add("TOV")
        if self.loop.hold is not ValveHold.NONE and not self._batch_done:
            shown.add("HLD")
        return shown

    # -- tares and totals ----------------------------------------------------------------------

    def tare_flow(self) -> None:
        """Tare: the present flow, or pressure, becomes zero."""
        self.flow_offset = self.true_flow

    def total_unit(self, number: int = 1) -> tuple[int, str]:
        """Code and label of a totalizer's unit."""
        statistic = self.totalizers[number - 1].statistic
        unit = self.delivered_unit if statistic is None else self._delivered[statistic]
        return _CODE_OF_TOTAL.get(unit.label, (3, "SmL"))

    @property
    def total(self) -> float:
        """What the first totalizer has counted, in the unit of the total."""
        return self.totalizers[0].value

    def reset_total(self, number: int = 1) -> None:
        """Reset the total, and restart a batch with it."""
        self.totalizers[number - 1].reset()
        self._begin_batch_anew(number)

    def totalize(self, number: int, settings: Totalizer | None) -> None:
        """Configure a totalizer as in ``settings`` and show it, or hide it.

        A total that is shown again begins at zero.
        """
        totalizer = self.totalizers[number - 1]
        was_shown = totalizer.statistic is not None
        wanted = settings or Totalizer()
        totalizer.statistic = wanted.statistic
        totalizer.mode, totalizer.limit_mode = wanted.mode, wanted.limit_mode
        totalizer.digits, totalizer.decimals = wanted.digits, wanted.decimals
        if not was_shown:
            self.reset_total(number)
        self.quantities = self._list_quantities()

    def reboot(self) -> None:
        """Lose power: afterwards there is no flow, no hold, no tare, and the saved setpoint."""
        self.advance()
        loop = self.loop
        loop.flow = self._resting
        loop.requested = loop.active = self.power_up_setpoint
        loop.hold = ValveHold.NONE
        loop.forced = None
        if not self.saves_totals:
            for totalizer in self.totalizers:
                totalizer.reset()
