"""Opening an instrument: find out who it is, and how it writes its data frame."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import date
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar

import anyio

from .client import AlicatProtocolClient
from .data_frame import DataFrameFormat
from .device import Device, device_class_for, read_data_frame_format
from .errors import (
    AlicatCommandRejectedError,
    AlicatConfigurationError,
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
from .identity import (
    DeviceInfo,
    ManufacturingInfo,
    is_last_manufacturing_row,
    is_manufacturing_row,
    parse_manufacturing_info,
    parse_version_line,
)
from .kinds import Capability, DeviceKind, Medium
from .model_codes import kind_and_media_of_model
from .registry import Statistic
from .replies import check_unit_id
from .setpoints import FullScaleValue, parse_full_scale
from .transport import (
    ByteStreamTransport,
    SerialSettings,
    Transport,
    open_serial_transport,
)

if TYPE_CHECKING:
    from anyio.abc import ByteStream

__all__ = ["client_for", "open_device", "port_key"]

T = TypeVar("T")


async def open_device(
    port: str | os.PathLike[str] | ByteStream | Transport | AlicatProtocolClient,
    *,
    unit_id: str = "A",
    serial: SerialSettings | None = None,
    timeout: float = 0.5,
    recover_from_stream: bool = True,
    model_hint: str | None = None,
    assume_capabilities: Capability = Capability.NONE,
    assume_media: Medium | None = None,
) -> Device:
    """Open one instrument and identify it.

    Asks for firmware, manufacturing table, data frame columns, one data frame and (of
    controllers) the full scale; changes nothing on the instrument::

        async with await open_device("/dev/ttyUSB0", unit_id="A") as device:
            print((await device.poll()).values)

    Args:
        port: Path of a serial port, which the device then owns and closes; or an open AnyIO
            byte stream or :class:`Transport`, likewise; or the client of a bus, which stays its
            maker's to close.
        unit_id: The instrument's letter on the bus.
        serial: How to open the port. Default: 19200 baud, 8N1.
        timeout: Seconds for each one-line reply.
        recover_from_stream: Stop the instrument if it turns out to be streaming. It then gets
            the letter ``unit_id``, since a streaming instrument has none.
        model_hint: The model number, for an instrument that does not tell it.
        assume_capabilities: Hardware that the instrument has and cannot be asked about.
        assume_media: What it is used with, in place of what its model number says.

    Returns:
        A :class:`FlowMeter`, :class:`FlowController`, :class:`PressureMeter` or
        :class:`PressureController`; a plain :class:`Device` if neither model nor columns tell.

    Raises:
        AlicatConfigurationError: unit id or settings are not valid.
        AlicatConnectionError: the port cannot be opened or is lost.
        AlicatTimeoutError: nothing answers.
        AlicatUnitIdMismatchError: only another unit answers.
        AlicatStreamingModeError: an instrument streams and does not stop.
        AlicatProtocolError: what answers is not understood.
    """
    unit_id = check_unit_id(unit_id)
    client, owned = await client_for(port, serial=serial, timeout=timeout)
    try:
        identity = await _identify(client, unit_id, timeout, recover_from_stream)
        data_frame_format, decoder = await read_data_frame_format(client, unit_id, timeout=timeout)
        info = _describe(
            unit_id, identity, data_frame_format, model_hint, assume_capabilities, assume_media
        )
        if info.kind.is_controller:
            info = await _with_full_scale(client, info, data_frame_format, timeout)
        return device_class_for(info)(
            client, info, data_frame_format, decoder, timeout=timeout, owns_client=owned
        )
    except BaseException:
        client.forget_unit(unit_id)
        if owned:
            with anyio.CancelScope(shield=True):
                await client.aclose()
        raise


async def client_for(
    port: str | os.PathLike[str] | ByteStream | Transport | AlicatProtocolClient,
    *,
    serial: SerialSettings | None = None,
    timeout: float = 0.5,
) -> tuple[AlicatProtocolClient, bool]:
    """The client of a bus, and whether the caller has to close it.

    Raises:
        AlicatConfigurationError: ``serial`` belongs to another port or to no serial port.
        AlicatConnectionError: the port cannot be opened.
    """
    if isinstance(port, (str, os.PathLike)):
        path = os.fspath(port)
        settings = serial or SerialSettings(path)
        if port_key(settings.port) != port_key(path):
            raise AlicatConfigurationError(
                f"the port {path} was given settings for {settings.port}: state the same port twice"
            )
        transport: Transport = await open_serial_transport(settings)
    elif serial is not None:
        raise AlicatConfigurationError(
            "serial settings belong to a port path; an open stream carries its own"
        )
    elif isinstance(port, AlicatProtocolClient):
        return port, False
    elif isinstance(port, Transport):
        transport = port
    else:
        transport = ByteStreamTransport(port)
    return AlicatProtocolClient(transport, default_timeout=timeout), True


def port_key(path: str | os.PathLike[str]) -> str:
    """One key for all names of a port: links such as /dev/serial/by-id lead to one device."""
    return os.path.realpath(path)


@dataclass(frozen=True, slots=True)
class _Identity:
    software: str
    firmware: FirmwareVersion
    built: date | None
    made: ManufacturingInfo | None


async def _identify(
    client: AlicatProtocolClient, unit_id: str, timeout: float, recover_from_stream: bool
) -> _Identity:
    try:
        return await _ask_identity(client, unit_id, timeout)
    except AlicatStreamingModeError:
        if not recover_from_stream:
            raise
    # Only on evidence: the command gives its letter to whichever instrument streams, and sent
    # blindly on a shared bus it could make a namesake of a neighbour.
    await client.stop_stream(unit_id)
    try:
        return await _ask_identity(client, unit_id, timeout)
    except (AlicatStreamingModeError, AlicatTimeoutError):
        await client.stop_stream(unit_id, old_firmware=True)
    return await _ask_identity(client, unit_id, timeout)


async def _ask_identity(client: AlicatProtocolClient, unit_id: str, timeout: float) -> _Identity:
    version = await _ask_version(client, unit_id, timeout)
    made = await _ask_manufacturing(client, unit_id, timeout, silent_before=version is None)
    if version is None:
        # GP does not know VE, and 8v17 was seen to miss one. The table tells which it is.
        software = (made.software if made else None) or "GP"
        firmware = FirmwareVersion.parse(software)
        if firmware.family is FirmwareFamily.GP:
            return _Identity(software, firmware, None, made)
        version = await _ask_version(client, unit_id, timeout)
        if version is None:
            return _Identity(software, firmware, None, made)
    return _Identity(*version, made)


async def _ask_version(
    client: AlicatProtocolClient, unit_id: str, timeout: float
) -> tuple[str, FirmwareVersion, date | None] | None:
    command = f"{unit_id}VE\r".encode()

    def decode(line: bytes) -> tuple[bytes, tuple[str, FirmwareVersion, date | None]]:
        return line, parse_version_line(line, unit_id)

    answer = await _or_none(client, command, decode, timeout)
    if answer is None:
        return None
    line, version = answer
    client.register_proof(unit_id, command, line)
    return version


async def _or_none(
    client: AlicatProtocolClient, command: bytes, decode: Callable[[bytes], T], timeout: float
) -> T | None:
    """The answer, or ``None`` if the instrument is silent or does not take the command."""
    try:
        return (await client.exchange(command, decode, timeout=timeout, unmistakable=True)).value
    except (AlicatTimeoutError, AlicatCommandRejectedError, AlicatParseError):
        return None


async def _ask_manufacturing(
    client: AlicatProtocolClient, unit_id: str, timeout: float, *, silent_before: bool
) -> ManufacturingInfo | None:
    command = f"{unit_id}??M*\r".encode()
    try:
        rows = await client.query_lines(
            command,
            is_manufacturing_row,
            is_last_manufacturing_row,
            wanted="a row of its manufacturing table",
            first_timeout=timeout if silent_before else 2 * timeout,
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
    if silent_before and is_last_manufacturing_row(rows[-1]):
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


def _describe(
    unit_id: str,
    identity: _Identity,
    data_frame_format: DataFrameFormat,
    model_hint: str | None,
    capabilities: Capability,
    assume_media: Medium | None,
) -> DeviceInfo:
    made = identity.made
    model = (made.model if made else None) or model_hint
    kind, media = kind_and_media_of_model(model)
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


def _kind_of_columns(data_frame_format: DataFrameFormat) -> DeviceKind:
    statistics = {field.statistic for field in data_frame_format.fields}
    controls = data_frame_format.setpoint_field is not None
    if statistics & {Statistic.MASS_FLOW, Statistic.VOL_FLOW}:
        return DeviceKind.FLOW_CONTROLLER if controls else DeviceKind.FLOW_METER
    if statistics & {Statistic.ABS_PRESS, Statistic.GAUGE_PRESS, Statistic.DIFF_PRESS}:
        return DeviceKind.PRESSURE_CONTROLLER if controls else DeviceKind.PRESSURE_METER
    return DeviceKind.UNKNOWN


async def _with_full_scale(
    client: AlicatProtocolClient,
    info: DeviceInfo,
    data_frame_format: DataFrameFormat,
    timeout: float,
) -> DeviceInfo:
    """Add the full scale of the controlled quantity, if the firmware tells it."""
    setpoint = data_frame_format.setpoint_field
    controlled = setpoint.statistic.controlled if setpoint and setpoint.statistic else None
    if controlled is None or info.firmware.family is FirmwareFamily.GP:
        return info

    def decode(line: bytes) -> FullScaleValue | None:
        return parse_full_scale(line, info.unit_id, controlled)

    try:
        command = f"{info.unit_id}FPF {controlled.code}\r".encode()
        full_scale = (await client.exchange(command, decode, timeout=timeout)).value
    except AlicatConnectionError:
        raise
    except AlicatError:
        # Only a limit for setpoints is lost by this; the instrument keeps its own.
        return info
    if full_scale is None:
        return info
    return replace(info, full_scale=MappingProxyType({controlled: full_scale}))
