"""Opening an instrument: find out who it is, and how it writes its data frame."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

import anyio

from .client import AlicatProtocolClient
from .config import AlicatConfig
from .controller import device_class_for
from .device import Device
from .errors import AlicatConfigurationError
from .identification import describe, identify, read_data_frame_format, read_full_scale
from .kinds import Capability, Medium
from .replies import check_unit_id
from .session import Session
from .transport import (
    ByteStreamTransport,
    SerialSettings,
    Transport,
    open_serial_transport,
    port_address,
)

if TYPE_CHECKING:
    from anyio.abc import ByteStream

__all__ = ["client_for", "open_device", "port_key"]


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
    config: AlicatConfig | None = None,
) -> Device:
    """Open one instrument and identify it.

    Asks for firmware, manufacturing table, data frame columns, one data frame and (of
    controllers) the full scale; changes nothing on the instrument::

        async with await open_device("/dev/ttyUSB0", unit_id="A") as device:
            print((await device.poll()).values)

    Args:
        port: Path of a serial port, or the address of a serial server (``tcp://host:port``,
            ``host:port``, ``rfc2217://host:port``), which the device then owns and closes; or an
            open AnyIO byte stream or :class:`Transport`, likewise; or the client of a bus, which
            stays its maker's to close.
        unit_id: The instrument's letter on the bus.
        serial: How to open the port. Default: 19200 baud, 8N1.
        timeout: Seconds for each one-line reply.
        recover_from_stream: Stop the instrument if it turns out to be streaming. It then gets
            the letter ``unit_id``, since a streaming instrument has none.
        model_hint: The model number, for an instrument that does not tell it.
        assume_capabilities: Hardware that the instrument has and cannot be asked about.
        assume_media: What it is used with, in place of what its model number says.
        config: Further settings.

    A port that was given by its path is opened again after it was lost, and the instrument goes
    on being served when it has identified itself by its serial number. See :class:`Session`.

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
        await client.reopen()
        identity = await identify(
            client, unit_id, timeout=timeout, recover_from_stream=recover_from_stream
        )
        data_frame_format, decoder = await read_data_frame_format(client, unit_id, timeout=timeout)
        info = describe(
            unit_id,
            identity,
            data_frame_format,
            model_hint=model_hint,
            capabilities=assume_capabilities,
            assume_media=assume_media,
        )
        full_scale = await read_full_scale(client, info, data_frame_format, timeout=timeout)
        info = replace(info, full_scale=full_scale)
        session = Session(client, info, data_frame_format, decoder, timeout=timeout, config=config)
        return device_class_for(info)(session, owns_client=owned)
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
        return await _client_of_port(settings, timeout), True
    if serial is not None:
        raise AlicatConfigurationError(
            "serial settings belong to a port path; an open stream carries its own"
        )
    if isinstance(port, AlicatProtocolClient):
        return port, False
    transport = port if isinstance(port, Transport) else ByteStreamTransport(port)
    return AlicatProtocolClient(transport, default_timeout=timeout), True


async def _client_of_port(settings: SerialSettings, timeout: float) -> AlicatProtocolClient:
    async def open_again() -> Transport:
        return await open_serial_transport(settings)

    return AlicatProtocolClient(await open_again(), default_timeout=timeout, reconnect=open_again)


def port_key(path: str | os.PathLike[str]) -> str:
    """One key for all names of a port: links such as /dev/serial/by-id lead to one device, and
    ``tcp://host:port`` and ``host:port`` to one server."""
    address = port_address(os.fspath(path))
    return address.casefold() if "://" in address else os.path.realpath(address)
