"""Instruments as objects: what one can ask of any, and set on a controller."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from .client import AlicatProtocolClient, Exchange
from .data_frame import (
    DataFrameFormat,
    is_format_row,
    is_last_format_row,
    parse_data_frame_format,
)
from .errors import (
    AlicatCommandRejectedError,
    AlicatFirmwareError,
    AlicatParseError,
    AlicatUnsupportedCommandError,
    AlicatValidationError,
    ErrorContext,
)
from .firmware import FirmwareFamily
from .frame_decoder import FrameDecoder, ParsedFrame, UnseenGasError
from .identity import DeviceInfo
from .kinds import Capability, DeviceKind
from .reading import FieldSchema, Reading
from .registry import Statistic, Unit
from .replies import refuse_line
from .setpoints import (
    FullScaleValue,
    SetpointState,
    decimal_text,
    parse_full_scale,
    parse_setpoint_reply,
)

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

__all__ = [
    "Device",
    "FlowController",
    "FlowMeter",
    "PressureController",
    "PressureMeter",
    "device_class_for",
    "read_data_frame_format",
]

_log = logging.getLogger("penstock.alicat")


class Device:
    """An open instrument. Made by :func:`open_device`; for the tasks of one event loop.

    Several tasks may call it at once: their commands queue on the bus. Cancelling a call frees
    the bus and mixes nothing up; whether the instrument has executed the command is then
    unknown, as after a timeout.
    """

    def __init__(
        self,
        client: AlicatProtocolClient,
        info: DeviceInfo,
        data_frame_format: DataFrameFormat,
        decoder: FrameDecoder,
        *,
        timeout: float = 0.5,
        owns_client: bool = False,
    ) -> None:
        self._client = client
        self._info = info
        self._timeout = timeout
        self._owns_client = owns_client
        self._closed = False
        self._poll_command = f"{info.unit_id}\r".encode()
        self._use_format(data_frame_format, decoder)

    def _use_format(self, data_frame_format: DataFrameFormat, decoder: FrameDecoder) -> None:
        self._format = data_frame_format
        self._decoder = decoder
        self._units: Mapping[str, str] = MappingProxyType(data_frame_format.units())
        self._names_by_statistic: Mapping[Statistic, str] = MappingProxyType(
            {f.statistic: f.name for f in reversed(data_frame_format.fields) if f.statistic}
        )

    # -- what is known without asking

    @property
    def info(self) -> DeviceInfo:
        """Model, serial number, firmware, calibration and what else it said of itself."""
        return self._info

    @property
    def unit_id(self) -> str:
        """Its letter on the bus."""
        return self._info.unit_id

    @property
    def client(self) -> AlicatProtocolClient:
        """The client of its bus."""
        return self._client

    @property
    def data_frame_format(self) -> DataFrameFormat:
        """The columns of its data frame."""
        return self._format

    def field_schema(self) -> tuple[FieldSchema, ...]:
        """Name, kind and unit of every field of its readings, in order, before the first."""
        return self._format.field_schema()

    # -- asking

    async def poll(self) -> Reading:
        """Ask for one data frame.

        Raises:
            AlicatTimeoutError: no frame came in time.
            AlicatProtocolError: something else came; never a value of an older or another
                unit's frame.
            AlicatConnectionError: the port is lost or closed.
        """
        client, command, timeout = self._client, self._poll_command, self._timeout
        try:
            exchange = await client.exchange(command, self._decoder, timeout=timeout)
        except UnseenGasError:
            exchange = await client.exchange(command, self._decoder, timeout=timeout)
        return self._reading(exchange)

    async def full_scale(self, statistic: Statistic | str | int) -> FullScaleValue | None:
        """The instrument's full scale of a quantity, or ``None`` if it does not have it.

        Raises:
            UnknownStatisticError: there is no such quantity.
            AlicatFirmwareError: GP firmware cannot be asked.
            AlicatError: as for :meth:`poll`.
        """
        quantity = Statistic.coerce(statistic)
        if self._info.firmware.family is FirmwareFamily.GP:
            raise AlicatFirmwareError(
                f"unit {self.unit_id} has GP firmware, which does not tell its full scale",
                command="FPF",
                reason="family_not_supported",
                actual=self._info.firmware,
            )
        unit_id = self.unit_id
        try:
            return (
                await self._client.exchange(
                    f"{unit_id}FPF {quantity.code}\r".encode(),
                    lambda line: parse_full_scale(line, unit_id, quantity),
                    timeout=self._timeout,
                )
            ).value
        except AlicatCommandRejectedError as error:
            if error.context.raw_response and error.context.raw_response.endswith(b"--"):
                return None
            raise

    async def refresh_data_frame_format(self) -> DataFrameFormat:
        """Read the columns of the data frame again, after units were changed on the panel.

        Raises:
            AlicatError: as for :meth:`poll`; the old format stays in use then.
        """
        data_frame_format, decoder = await read_data_frame_format(
            self._client, self.unit_id, timeout=self._timeout
        )
        self._use_format(data_frame_format, decoder)
        return data_frame_format

    async def close(self) -> None:
        """Let go of the instrument, and close its port unless others share it. Sends nothing:
        a controller keeps its setpoint. May be called more than once."""
        if self._closed:
            return
        self._closed = True
        if self._owns_client:
            await self._client.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        info = self._info
        return (
            f"<{type(self).__name__} {info.unit_id} {info.model or 'of unknown model'} "
            f"on {self._client.label}>"
        )

    def _reading(self, exchange: Exchange[ParsedFrame]) -> Reading:
        frame, requested_ns, requested_unix_ns, received_ns, received_unix_ns = exchange
        return Reading(
            frame.unit_id,
            frame.values,
            self._units,
            frame.status,
            requested_ns,
            requested_unix_ns,
            received_ns,
            received_unix_ns,
            frame.unknown_status,
            self._names_by_statistic,
        )


class FlowMeter(Device):
    """Measures flow."""


class PressureMeter(Device):
    """Measures pressure."""


class _Controller(Device):
    """What flow and pressure controllers have in common."""

    async def setpoint(
        self, value: float | None = None, unit: Unit | str | None = None
    ) -> SetpointState:
        """Read the setpoint, or set it to ``value`` and read it back.

        The number is checked before a byte is sent: finite, not negative unless the instrument
        is known as bidirectional, not beyond its full scale where that is known in the unit of
        the setpoint. ``unit`` states the unit that ``value`` is meant in; it must be the one
        that the instrument is set to, since nothing is converted.

        Look at :attr:`SetpointState.accepted` afterwards: a controller whose setpoint source is
        its analogue input ignores what it is told over the wire.

        Raises:
            AlicatValidationError: the value or its unit is not possible; nothing was sent.
            AlicatFirmwareError: GP firmware takes no setpoint over the wire; nothing was sent.
            AlicatError: as for :meth:`poll`. After a timeout it is unknown whether the value
                was set: read it.
        """
        text = None if value is None else self._checked(value, unit)
        firmware = self._info.firmware
        if firmware.has_modern_setpoint:
            return self._told(value, await self._modern(text))
        if text is None:
            return self._from_frame(await self.poll())
        if firmware.family is FirmwareFamily.GP:
            raise AlicatFirmwareError(
                f"unit {self.unit_id} has GP firmware, which takes no setpoint over the wire: set "
                "it on the panel or by the analogue input",
                command="S",
                reason="family_not_supported",
                actual=firmware,
            )
        exchange = await self._client.exchange(
            f"{self.unit_id}S {text}\r".encode(), self._decoder, timeout=self._timeout
        )
        return self._told(value, self._from_frame(self._reading(exchange)))

    async def _modern(self, text: str | None) -> SetpointState:
        unit_id = self.unit_id
        field = self._format.setpoint_field
        known_label = field.unit_label if field is not None else None

        def decode(line: bytes) -> SetpointState:
            state = parse_setpoint_reply(line, unit_id)
            if state.unit is None and state.unit_label != known_label:
                refuse_line(line, unit_id, wanted="its setpoint in a known unit")
            return state

        command = f"{unit_id}LS\r" if text is None else f"{unit_id}LS {text}\r"
        return (await self._client.exchange(command.encode(), decode, timeout=self._timeout)).value

    def _told(self, value: float | None, state: SetpointState) -> SetpointState:
        if value is None:
            return state
        state = replace(state, commanded=float(value))
        if not state.accepted:
            _log.warning(
                "unit %s on %s was told setpoint %s and reports %s: is its setpoint source the "
                "analogue input?",
                self.unit_id,
                self._client.label,
                value,
                state.requested,
            )
        return state

    def _from_frame(self, reading: Reading) -> SetpointState:
        field = self._format.setpoint_field
        value = None if field is None else reading.values.get(field.name)
        if field is None or not isinstance(value, float):
            raise AlicatUnsupportedCommandError(
                f"unit {self.unit_id} reports no setpoint: its data frame has the fields "
                f"{', '.join(reading.values)}",
                context=ErrorContext(unit_id=self.unit_id),
            )
        return SetpointState(
            self.unit_id,
            current=value,
            requested=value,
            unit=field.unit,
            unit_label=field.unit_label,
            reading=reading,
            # Frames of the firmware concerned have one or two decimals; one is the coarser.
            resolution=0.1,
        )

    def _checked(self, value: float, unit: Unit | str | None) -> str:
        text = decimal_text(value)
        field = self._format.setpoint_field
        label = field.unit_label if field is not None else None
        if unit is not None and label is not None:
            wanted = Unit.coerce(unit)
            if wanted is not Unit.from_label(label):
                raise self._invalid(
                    f"unit {self.unit_id} takes its setpoint in {label}, not in {wanted.value}: "
                    "convert the value, or change the instrument's unit"
                )
        bidirectional = Capability.BIDIRECTIONAL in self._info.capabilities
        if value < 0 and not bidirectional:
            raise self._invalid(
                f"setpoint {text} is negative: open a bidirectional instrument with "
                "assume_capabilities=Capability.BIDIRECTIONAL to allow it"
            )
        limit = self._setpoint_limit()
        if limit is not None and abs(value) > limit.value:
            raise self._invalid(
                f"setpoint {text} is beyond unit {self.unit_id}'s full scale of "
                f"{limit.value:g} {limit.unit_label}"
            )
        return text

    def _setpoint_limit(self) -> FullScaleValue | None:
        """The full scale of what is controlled, if known in the unit of the setpoint."""
        field = self._format.setpoint_field
        if field is None or field.statistic is None:
            return None
        if field.maximum is not None:
            return FullScaleValue(
                field.statistic, field.maximum, field.unit, field.unit_label or ""
            )
        controlled = field.statistic.controlled
        if controlled is None:
            return None
        limit = self._info.full_scale.get(controlled)
        if limit is None or limit.unit is None or limit.unit is not field.unit:
            return None
        return limit

    def _invalid(self, message: str) -> AlicatValidationError:
        return AlicatValidationError(
            message, context=ErrorContext(unit_id=self.unit_id, port=self._client.label)
        )


class FlowController(_Controller):
    """Measures and controls flow."""


class PressureController(_Controller):
    """Measures and controls pressure."""


def device_class_for(info: DeviceInfo) -> type[Device]:
    """The class that has the methods of this kind of instrument."""
    return _CLASSES.get(info.kind, Device)


_CLASSES: dict[DeviceKind, type[Device]] = {
    DeviceKind.FLOW_METER: FlowMeter,
    DeviceKind.FLOW_CONTROLLER: FlowController,
    DeviceKind.PRESSURE_METER: PressureMeter,
    DeviceKind.PRESSURE_CONTROLLER: PressureController,
}


async def read_data_frame_format(
    client: AlicatProtocolClient, unit_id: str, *, timeout: float
) -> tuple[DataFrameFormat, FrameDecoder]:
    """Ask for the data frame's columns, and prove them on a frame.

    A table of which rows were lost, or that was cut short by an instrument that pauses in it,
    does not fit the frame; it is then read once more, waiting four times as long for its end.

    Raises:
        AlicatError: as for :meth:`Device.poll`.
    """
    last_error: AlicatParseError | None = None
    for patience in (1, 4):
        rows = await client.query_lines(
            f"{unit_id}??D*\r".encode(),
            is_format_row,
            is_last_format_row,
            wanted="a row of its data frame table",
            first_timeout=2 * timeout,
            idle_timeout=patience * client.idle_timeout,
        )
        try:
            data_frame_format = parse_data_frame_format(rows)
            loose = data_frame_format.decoder(unit_id)

            def sample_of(line: bytes, loose: FrameDecoder = loose) -> bytes:
                if not loose.accepts(line):
                    loose(line)
                return line

            sample = await client.exchange(f"{unit_id}\r".encode(), sample_of, timeout=timeout)
            return data_frame_format, data_frame_format.decoder(unit_id, sample.value)
        except AlicatParseError as error:
            last_error = error
    assert last_error is not None
    raise last_error
