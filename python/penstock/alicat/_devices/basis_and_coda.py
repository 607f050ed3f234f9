"""BASIS and CODA instruments: what they do in another way than all others."""

from __future__ import annotations

from penstock.alicat._devices.controller import FlowController
from penstock.alicat._devices.device import FlowMeter
from penstock.alicat._instrument.data_frame import DataFrameField
from penstock.alicat._instrument.reading import Reading
from penstock.alicat._instrument.results import (
    LoopAlgorithm,
    PidSettings,
    TareResult,
    TotalizerResetResult,
    ValveHoldResult,
)
from penstock.alicat.commands import (
    AutoTareState,
    BasisAutoTareRequest,
    BasisBatch,
    BasisBatchRequest,
    BasisGainsRequest,
    BasisGasRequest,
    BasisHoldValveRequest,
    BasisResetTotalRequest,
    BasisTareRequest,
    Commands,
    GasState,
    TotalizerId,
)
from penstock.alicat.errors import AlicatValidationError
from penstock.alicat.registry import Gas

_AUTO_TARE_DELAY_S = 2.0


class BasisMeter(FlowMeter):
    """A flow meter of the BASIS line.

    The instrument cannot describe its data frame, so the columns are those of its manual. A command
    that BASIS firmware lacks raises :class:`AlicatFirmwareError` before a byte is sent.
    """

    async def gas(
        self, gas: Gas | str | int | None = None, *, save: bool | None = None
    ) -> GasState:
        """Read the gas that the instrument is set to, or select one of its nine by name.

        Raises:
            UnknownGasError: there is no such gas.
            AlicatValidationError: it is none of the nine, a number (BASIS instruments number their
                gases otherwise), or ``save`` is stated.
        """
        if isinstance(gas, int):
            raise AlicatValidationError(
                f"BASIS instruments use different gas numbers: state a name, not {gas!r}"
            )
        if save is not None:
            raise AlicatValidationError("BASIS instruments always save their gas: omit save")
        return await self.execute(Commands.BASIS_GAS, BasisGasRequest(gas))

    async def tare_flow(self, *, duration_ms: int = 1000) -> TareResult:
        """Tare: the mean flow of the next ``duration_ms`` becomes zero.

        The caller makes sure that nothing flows.
        """
        return TareResult(
            await self._session.execute_for_reading(
                Commands.BASIS_TARE, BasisTareRequest(duration_ms)
            )
        )

    async def totalizer_reset(
        self, totalizer: TotalizerId = TotalizerId.FIRST, *, confirm: bool = False
    ) -> TotalizerResetResult:
        """Reset the total to zero. There is one totalizer.

        Raises:
            AlicatValidationError: ``confirm`` is not true, or the second totalizer was named.
        """
        if totalizer is not TotalizerId.FIRST:
            raise AlicatValidationError("a BASIS instrument has one totalizer")
        return TotalizerResetResult(
            await self._session.execute_for_reading(
                Commands.BASIS_RESET_TOTAL, BasisResetTotalRequest(confirm)
            )
        )


class BasisController(BasisMeter, FlowController):
    """A flow controller of the BASIS line."""

    async def auto_tare(
        self, enable: bool | None = None, delay_s: float | None = None
    ) -> AutoTareState:
        """Read or set whether the controller tares after two seconds at setpoint zero.

        Raises:
            AlicatValidationError: another delay is stated.
        """
        if delay_s not in (None, _AUTO_TARE_DELAY_S):
            raise AlicatValidationError("a BASIS controller tares after 2 s; omit delay_s")
        enabled = await self.execute(Commands.BASIS_AUTO_TARE, BasisAutoTareRequest(enable))
        return AutoTareState(self.unit_id, enabled, _AUTO_TARE_DELAY_S)

    async def hold_valve(self, drive: float, *, confirm: bool = False) -> ValveHoldResult:
        """Hold the valve at ``drive`` percent until :meth:`cancel_valve_hold`.

        Raises:
            AlicatValidationError: ``confirm`` is not true and ``drive`` is not 0; nothing was sent.
        """
        return ValveHoldResult(
            await self._session.execute_for_reading(
                Commands.BASIS_HOLD_VALVE, BasisHoldValveRequest(drive, confirm)
            )
        )

    async def batch(self, volume: float | None = None) -> BasisBatch:
        """Read or set the volume that flows until the valve is closed; 0 ends batching."""
        return await self.execute(Commands.BASIS_BATCH, BasisBatchRequest(volume))

    async def pid(
        self,
        *,
        algorithm: LoopAlgorithm | None = None,
        proportional: int | None = None,
        derivative: int | None = None,
        integral: int | None = None,
        confirm: bool = False,
    ) -> PidSettings:
        """Read the two gains of the control loop, or set those that are stated.

        Raises:
            AlicatValidationError: an algorithm or a derivative gain is passed, which BASIS
                instruments do not have, or gains are passed and ``confirm`` is not true.
        """
        if algorithm is not None or derivative is not None:
            raise AlicatValidationError(
                "a BASIS controller has one algorithm, with a proportional and an integral gain"
            )
        found = await self.execute(Commands.BASIS_GAINS, BasisGainsRequest())
        if proportional is not None or integral is not None:
            self._confirm_gains(confirm)
            request = BasisGainsRequest(
                found.proportional if proportional is None else proportional,
                found.integral if integral is None else integral,
            )
            found = await self.execute(Commands.BASIS_GAINS, request)
        return PidSettings(self.unit_id, None, found.proportional, None, found.integral)


class CodaMeter(FlowMeter):
    """Measures the mass flow and the density of a gas or a liquid by the Coriolis effect.

    Its columns are those that the instrument describes (``??D*``). No frame of a CODA instrument
    was captured, and a setting of the instrument decides whether density is a column.
    """

    @property
    def density_field(self) -> DataFrameField | None:
        """The column of the density, with its unit; ``None`` where its frames have none."""
        # By name: the published list of statistics has no number for it.
        for field in self.data_frame_format.fields:
            if field.kind == "float" and "dens" in field.name.casefold():
                return field
        return None

    def density(self, reading: Reading) -> float | None:
        """The density in a reading, in the unit of its column; ``None`` if it has none."""
        field = self.density_field
        return None if field is None else reading.get_float(field.name)


class CodaController(CodaMeter, FlowController):
    """Measures and controls mass flow by the Coriolis effect; see :class:`CodaMeter`."""
