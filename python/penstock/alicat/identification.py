"""Finding out who answers on a line, and how it writes its data frame.

Both when an instrument is opened and when it comes back after its line was lost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from types import MappingProxyType
from typing import TypeVar

from .client import AlicatProtocolClient
from .commands.command import CommandContext
from .commands.system import DATA_FRAME_FORMAT_QUERY, MANUFACTURING_INFO
from .commands.units import FULL_SCALE_QUERY, FullScaleQueryRequest
from .data_frame import DataFrameFormat, parse_data_frame_format
from .errors import (
    AlicatCommandRejectedError,
    AlicatConnectionError,
    AlicatError,
    AlicatParseError,
    AlicatProtocolError,
    AlicatStreamingModeError,
    AlicatTimeoutError,
    AlicatUnitIdMismatchError,
    ErrorContext,
)
from .firmware import FirmwareFamily, FirmwareVersion
from .frame_decoder import FrameDecoder
from .identity import (
    DeviceInfo,
    ManufacturingInfo,
    parse_manufacturing_info,
    parse_version_line,
)
from .kinds import Capability, DeviceKind, Medium
from .model_codes import kind_and_media_of_model
from .registry import Statistic
from .setpoints import FullScaleValue

__all__ = ["Identity", "describe", "identify", "read_data_frame_format", "read_full_scale"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Identity:
    """What an instrument says of itself."""

    software: str
    firmware: FirmwareVersion
    built: date | None
    made: ManufacturingInfo | None

    @property
    def serial(self) -> str | None:
        """The serial number, if it tells it."""
        return self.made.serial if self.made else None


async def identify(
    client: AlicatProtocolClient,
    unit_id: str,
    *,
    timeout: float,
    recover_from_stream: bool = True,
    generation: int | None = None,
) -> Identity:
    """Ask a unit for its firmware and its manufacturing table, and register its proof.

    ``recover_from_stream`` stops an instrument that turns out to be streaming; it then gets the
    letter ``unit_id``. ``generation`` is that of the client that the questions are meant for.

    Raises:
        AlicatTimeoutError: nothing answers.
        AlicatUnitIdMismatchError: only another unit answers.
        AlicatStreamingModeError: an instrument streams and does not stop.
        AlicatProtocolError: what answers is not understood.
        AlicatConnectionError: the port is lost or closed.
    """
    asking = _Asking(client, unit_id, timeout, generation)
    try:
        return await asking.identity()
    except AlicatStreamingModeError:
        if not recover_from_stream:
            raise
    # Only on evidence: the command gives its letter to whichever instrument streams, and sent
    # blindly on a shared bus it could make a namesake of a neighbour.
    await client.stop_stream(unit_id)
    try:
        return await asking.identity()
    except (AlicatStreamingModeError, AlicatTimeoutError):
        await client.stop_stream(unit_id, old_firmware=True)
    return await asking.identity()


async def read_data_frame_format(
    client: AlicatProtocolClient, unit_id: str, *, timeout: float, generation: int | None = None
) -> tuple[DataFrameFormat, FrameDecoder]:
    """Ask for the data frame's columns, and prove them on a frame.

    A table of which rows were lost, or that was cut short by an instrument that pauses in it,
    does not fit the frame; it is then read once more, waiting four times as long for its end.

    Raises:
        AlicatError: as for :func:`identify`.
    """
    table = DATA_FRAME_FORMAT_QUERY
    last_error: AlicatParseError | None = None
    for patience in (1, 4):
        rows = await client.query_lines(
            f"{unit_id}{table.token}\r".encode(),
            table.is_row,
            table.is_last_row,
            wanted=table.wanted,
            first_timeout=2 * timeout,
            idle_timeout=patience * client.idle_timeout,
            generation=generation,
        )
        try:
            data_frame_format = parse_data_frame_format(rows)
            loose = data_frame_format.decoder(unit_id)

            def sample_of(line: bytes, loose: FrameDecoder = loose) -> bytes:
                if not loose.accepts(line):
                    loose(line)
                return line

            sample = await client.exchange(
                f"{unit_id}\r".encode(), sample_of, timeout=timeout, generation=generation
            )
            return data_frame_format, data_frame_format.decoder(unit_id, sample.value)
        except AlicatParseError as error:
            last_error = error
    assert last_error is not None
    raise last_error


async def read_full_scale(
    client: AlicatProtocolClient,
    info: DeviceInfo,
    data_frame_format: DataFrameFormat,
    *,
    timeout: float,
    generation: int | None = None,
) -> Mapping[Statistic, FullScaleValue]:
    """The full scale of the quantity that a controller controls, if its firmware tells it.

    Raises:
        AlicatConnectionError: the port is lost or closed.
    """
    setpoint = data_frame_format.setpoint_field
    controlled = setpoint.statistic.controlled if setpoint and setpoint.statistic else None
    command = FULL_SCALE_QUERY
    if not info.kind.is_controller or controlled is None or info.firmware not in command.firmware:
        return MappingProxyType({})
    context = CommandContext(info.unit_id, info.firmware)
    request = FullScaleQueryRequest(controlled)
    try:
        exchange = await client.exchange(
            command.encode(context, request),
            lambda line: command.decode(line, request, context),
            timeout=timeout,
            generation=generation,
        )
    except AlicatConnectionError:
        raise
    except AlicatError:
        # Only a limit for setpoints is lost by this; the instrument keeps its own.
        return MappingProxyType({})
    if exchange.value is None:
        return MappingProxyType({})
    return MappingProxyType({controlled: exchange.value})


def describe(
    unit_id: str,
    identity: Identity,
    data_frame_format: DataFrameFormat | None = None,
    *,
    model_hint: str | None = None,
    capabilities: Capability = Capability.NONE,
    assume_media: Medium | None = None,
) -> DeviceInfo:
    """What is known of an instrument, from what it said and what its user states."""
    made = identity.made
    model = (made.model if made else None) or model_hint
    kind, media = kind_and_media_of_model(model)
    setpoint = None
    if data_frame_format is not None:
        if kind is DeviceKind.UNKNOWN:
            kind = _kind_of_columns(data_frame_format)
        setpoint = data_frame_format.setpoint_field
    if setpoint is not None and setpoint.minimum is not None and setpoint.minimum < 0:
        capabilities |= Capability.BIDIRECTIONAL
    return DeviceInfo(
        unit_id=unit_id,
        manufacturer=made.manufacturer if made else None,
        model=model,
        serial=made.serial if made else None,
        manufactured=made.manufactured if made else None,
        calibrated=made.calibrated if made else None,
        calibrated_by=made.calibrated_by if made else None,
        software=identity.software,
        firmware=identity.firmware,
        firmware_date=identity.built,
        kind=kind,
        media=media if assume_media is None else assume_media,
        capabilities=capabilities,
    )


@dataclass(frozen=True, slots=True)
class _Asking:
    client: AlicatProtocolClient
    unit_id: str
    timeout: float
    generation: int | None

    async def identity(self) -> Identity:
        version = await self.version()
        made = await self.manufacturing(silent_before=version is None)
        if version is None:
            # GP does not know VE, and 8v17 was seen to miss one. The table tells which it is.
            software = (made.software if made else None) or "GP"
            firmware = FirmwareVersion.parse(software)
            if firmware.family is FirmwareFamily.GP:
                return Identity(software, firmware, None, made)
            version = await self.version()
            if version is None:
                return Identity(software, firmware, None, made)
        return Identity(*version, made)

    async def version(self) -> tuple[str, FirmwareVersion, date | None] | None:
        unit_id = self.unit_id
        command = f"{unit_id}VE\r".encode()

        def decode(line: bytes) -> tuple[bytes, tuple[str, FirmwareVersion, date | None]]:
            return line, parse_version_line(line, unit_id)

        answer = await self.or_none(command, decode)
        if answer is None:
            return None
        line, version = answer
        self.client.register_proof(unit_id, command, line)
        return version

    async def or_none(self, command: bytes, decode: Callable[[bytes], T]) -> T | None:
        """The answer, or ``None`` if the instrument is silent or does not take the command."""
        try:
            exchange = await self.client.exchange(
                command,
                decode,
                timeout=self.timeout,
                unmistakable=True,
                generation=self.generation,
            )
        except (AlicatTimeoutError, AlicatCommandRejectedError, AlicatParseError):
            return None
        return exchange.value

    async def manufacturing(self, *, silent_before: bool) -> ManufacturingInfo | None:
        client, unit_id, timeout = self.client, self.unit_id, self.timeout
        table = MANUFACTURING_INFO
        command = f"{unit_id}{table.token}\r".encode()
        try:
            rows = await client.query_lines(
                command,
                table.is_row,
                table.is_last_row,
                wanted=table.wanted,
                first_timeout=timeout if silent_before else 2 * timeout,
                generation=self.generation,
            )
        except AlicatTimeoutError as error:
            if silent_before:
                raise _nobody_there(client, unit_id, timeout) from error
            return None
        except AlicatStreamingModeError:
            raise
        except AlicatProtocolError as error:
            if silent_before and not _is_alive(error):
                raise
            return None
        if silent_before and table.is_last_row(rows[-1]):
            client.register_proof(unit_id, command, rows[-1])
        return parse_manufacturing_info(rows, unit_id)


def _is_alive(error: AlicatProtocolError) -> bool:
    """Whether the unit itself said something, if only that it does not know the command."""
    return not isinstance(error, AlicatUnitIdMismatchError)


def _nobody_there(client: AlicatProtocolClient, unit_id: str, timeout: float) -> AlicatTimeoutError:
    baudrate = client.transport.baudrate
    at = f" at {baudrate} baud" if baudrate else ""
    return AlicatTimeoutError(
        f"no instrument answers as unit {unit_id} on {client.label}{at} ({2 * timeout:g} s): check "
        "that it is powered and connected to this port, and that the unit id and the baud rate "
        "in its communication menu are these",
        context=ErrorContext(
            command_name="identify", unit_id=unit_id, port=client.label, baudrate=baudrate
        ),
    )


def _kind_of_columns(data_frame_format: DataFrameFormat) -> DeviceKind:
    statistics = {field.statistic for field in data_frame_format.fields}
    controls = data_frame_format.setpoint_field is not None
    if statistics & {Statistic.MASS_FLOW, Statistic.VOL_FLOW}:
        return DeviceKind.FLOW_CONTROLLER if controls else DeviceKind.FLOW_METER
    if statistics & {Statistic.ABS_PRESS, Statistic.GAUGE_PRESS, Statistic.DIFF_PRESS}:
        return DeviceKind.PRESSURE_CONTROLLER if controls else DeviceKind.PRESSURE_METER
    return DeviceKind.UNKNOWN
