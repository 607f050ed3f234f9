"""Opening an instrument: its identity, its class, and the format of its data frame."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING, TypedDict, Unpack

from penstock._opening import opening
from penstock.alicat._bus.client import AlicatProtocolClient
from penstock.alicat._bus.replies import check_unit_id
from penstock.alicat._bus.wire import check_seconds
from penstock.alicat._devices.basis_and_coda import (
    BasisController,
    BasisMeter,
    CodaController,
    CodaMeter,
)
from penstock.alicat._devices.controller import FlowController, PressureController
from penstock.alicat._devices.device import Device, FlowMeter, PressureMeter
from penstock.alicat._instrument.identity import DeviceInfo
from penstock.alicat._instrument.kinds import (
    Capability,
    DeviceKind,
    FirmwareFamily,
    Medium,
    is_coriolis_model,
)
from penstock.alicat._instrument.results import SafeState
from penstock.alicat._session.data_format import read_data_frame_format, read_full_scale
from penstock.alicat._session.identification import describe, identify
from penstock.alicat._session.session import Session
from penstock.alicat.commands.command import ReportedUnit
from penstock.alicat.config import AlicatConfig
from penstock.alicat.errors import AlicatConfigurationError
from penstock.alicat.transport import (
    ByteStreamTransport,
    SerialSettings,
    Transport,
    open_serial_transport,
    port_address,
)

if TYPE_CHECKING:
    from anyio.abc import ByteStream


_CLASSES: dict[DeviceKind, type[Device]] = {
    DeviceKind.FLOW_METER: FlowMeter,
    DeviceKind.FLOW_CONTROLLER: FlowController,
    DeviceKind.PRESSURE_METER: PressureMeter,
    DeviceKind.PRESSURE_CONTROLLER: PressureController,
}


def device_class_for(info: DeviceInfo) -> type[Device]:
    """The class that has the methods of this kind of instrument."""
    if info.firmware.family is FirmwareFamily.BASIS:
        return BasisController if info.kind.is_controller else BasisMeter
    if is_coriolis_model(info.model):
        return CodaController if info.kind.is_controller else CodaMeter
    return _CLASSES.get(info.kind, Device)


class DeviceOptions(TypedDict, total=False):
    """The keyword arguments of :func:`open_device`, which describes them."""

    unit_id: str
    serial: SerialSettings | None
    timeout: float
    recover_from_stream: bool
    model_hint: str | None
    assume_capabilities: Capability
    assume_media: Medium | None
    safe_state: SafeState
    config: AlicatConfig | None


@opening
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
    safe_state: SafeState = SafeState.LEAVE,
    config: AlicatConfig | None = None,
) -> Device:
    """Open one instrument and identify it; ``await`` the result, or use ``async with``.

    Asks for firmware, manufacturing table, data frame columns, one data frame and (of
    controllers) the full scale; changes nothing on the instrument::

        async with open_device("/dev/ttyUSB0", unit_id="A") as device:
            print((await device.poll()).values)

    Args:
        port: Path of a serial port, or the address of a serial server (``tcp://host:port``,
            ``host:port``, ``rfc2217://host:port``), which the device then owns and closes; or an
            open AnyIO byte stream or :class:`Transport`, likewise; or the client of a bus, which
            the caller closes.
        unit_id: The instrument's letter on the bus.
        serial: How to open the port. Default: 19200 baud, 8N1.
        timeout: Seconds for each one-line reply.
        recover_from_stream: Stop the instrument if it turns out to be streaming. It then gets
            the letter ``unit_id``, since a streaming instrument has none.
        model_hint: The model number, for an instrument that does not report it.
        assume_capabilities: Hardware that the instrument has and cannot be asked about.
        assume_media: Its medium, instead of the one that its model number implies.
        safe_state: What a controller is left doing when the device is closed.
        config: Further settings.

    A port that was passed as a path is reopened after a loss. The device continues when the
    instrument has identified itself by its serial number. See :class:`Session`.

    Returns:
        A :class:`FlowMeter`, :class:`FlowController`, :class:`PressureMeter` or
        :class:`PressureController`; a plain :class:`Device` if neither model nor columns determine
        the kind.

    Raises:
        AlicatConfigurationError: unit id or settings are not valid.
        AlicatConnectionError: the port cannot be opened or is lost.
        AlicatTimeoutError: no unit answers.
        AlicatUnitIdMismatchError: only another unit answers.
        AlicatStreamingModeError: an instrument streams and does not stop.
        AlicatProtocolError: the answer is not understood.
    """
    unit_id = check_unit_id(unit_id)
    client, owned = await client_for(port, serial=serial, timeout=timeout)
    try:
        await client.reopen()
        identity = await identify(
            client, unit_id, timeout=timeout, recover_from_stream=recover_from_stream
        )
        in_force = await read_data_frame_format(
            client, unit_id, timeout=timeout, firmware=identity.firmware
        )
        info = describe(
            unit_id,
            identity,
            in_force.columns,
            model_hint=model_hint,
            capabilities=assume_capabilities,
            assume_media=assume_media,
        )
        full_scale = await read_full_scale(client, info, in_force.columns, timeout=timeout)
        info = replace(info, full_scale=full_scale)
        session = Session(client, info, in_force, timeout=timeout, config=config)
        await session.compare_units(
            tuple(ReportedUnit(full.statistic, full.unit_label) for full in full_scale.values())
        )
        return device_class_for(info)(session, owns_client=owned, safe_state=safe_state)
    except BaseException:
        client.forget_unit(unit_id)
        if owned:
            with client.waiting.scope(shield=True):
                await client.aclose()
        raise


@opening
async def open_controller(
    port: str | os.PathLike[str] | ByteStream | Transport | AlicatProtocolClient,
    **options: Unpack[DeviceOptions],
) -> FlowController | PressureController:
    """Open an instrument that must be a controller; otherwise as :func:`open_device`.

    A type checker knows its methods, such as ``setpoint``::

        async with open_controller("/dev/ttyUSB0") as device:
            await device.setpoint(25.0)

    Raises:
        AlicatConfigurationError: the instrument is a meter. It has been closed again.
        AlicatError: as for :func:`open_device`.
    """
    device = await open_device(port, **options)
    if isinstance(device, (FlowController, PressureController)):
        return device
    await device.close()
    raise not_a_controller(device.info)


def not_a_controller(info: DeviceInfo) -> AlicatConfigurationError:
    """The error of an instrument that was opened as a controller."""
    return AlicatConfigurationError(
        f"the instrument {info.unit_id} (model {info.model}) is not a controller: open it with "
        "open_device, or state the model of a controller with model_hint"
    )


async def client_for(
    port: str | os.PathLike[str] | ByteStream | Transport | AlicatProtocolClient,
    *,
    serial: SerialSettings | None = None,
    timeout: float = 0.5,
) -> tuple[AlicatProtocolClient, bool]:
    """Return the client of a bus, and whether the caller has to close it.

    Raises:
        AlicatConfigurationError: ``serial`` belongs to another port or to no serial port.
        AlicatConnectionError: the port cannot be opened.
    """
    check_seconds(timeout)
    settings = settings_for(port, serial)
    if settings is not None:
        return await _client_of_port(settings, timeout), True
    assert not isinstance(port, (str, os.PathLike))
    if isinstance(port, AlicatProtocolClient):
        return port, False
    transport = port if isinstance(port, Transport) else ByteStreamTransport(port)
    return AlicatProtocolClient(transport, default_timeout=timeout), True


def settings_for(port: object, serial: SerialSettings | None) -> SerialSettings | None:
    """Return the settings of ``port``; ``None`` if it is an open object instead of a name.

    Raises:
        AlicatConfigurationError: ``serial`` belongs to another port or to no serial port.
    """
    if isinstance(port, (str, os.PathLike)):
        path = os.fspath(port)
        settings = serial or SerialSettings(path)
        if settings.port != path and port_key(settings.port) != port_key(path):
            raise AlicatConfigurationError(
                f"the port {path} was given settings for {settings.port}: state the same port twice"
            )
        return settings
    if serial is not None:
        raise AlicatConfigurationError(
            "serial settings belong to a port path; an open stream has its own"
        )
    return None


async def _client_of_port(settings: SerialSettings, timeout: float) -> AlicatProtocolClient:
    port = ReopenedPort(settings, open_serial_transport)
    return AlicatProtocolClient(
        await port.open(), default_timeout=timeout, reconnect=port.open, reopen_at=port.open_at
    )


class ReopenedPort:
    """A port that can be reopened, at the last baud rate."""

    def __init__(
        self,
        settings: SerialSettings,
        open_transport: Callable[[SerialSettings], Awaitable[Transport]],
    ) -> None:
        self._settings = settings
        self._open_transport = open_transport

    async def open(self) -> Transport:
        """Open it."""
        return await self._open_transport(self._settings)

    async def open_at(self, baudrate: int) -> Transport:
        """Open it at another baud rate, even for later calls."""
        self._settings = replace(self._settings, baudrate=baudrate)
        return await self.open()


def port_key(path: str | os.PathLike[str]) -> str:
    """Return one key for all names of a port.

    Links such as /dev/serial/by-id lead to one device, and ``tcp://host:port`` and ``host:port``
    to one server.
    """
    address = port_address(os.fspath(path))
    return address.casefold() if "://" in address else os.path.realpath(address)
