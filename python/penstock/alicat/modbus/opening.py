"""Opening an instrument over Modbus."""

from __future__ import annotations

import os
from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING, TypedDict, Unpack

from penstock.alicat._bus.line_timing import check_seconds
from penstock.alicat._devices.factory import ReopenedPort, settings_for
from penstock.alicat._instrument.kinds import Capability
from penstock.alicat.errors import AlicatConfigurationError
from penstock.alicat.modbus.client import ModbusClient
from penstock.alicat.modbus.controller import ModbusFlowController
from penstock.alicat.modbus.device import ModbusFlowMeter
from penstock.alicat.modbus.framing import Framing
from penstock.alicat.modbus.registers import MASS_FLOW_CONTROLLER_REGISTERS, RegisterMap
from penstock.alicat.modbus.rtu import RtuFraming
from penstock.alicat.modbus.tcp import TcpFraming
from penstock.alicat.registry import Statistic
from penstock.alicat.transport import (
    ByteStreamTransport,
    SerialSettings,
    Transport,
    open_serial_transport,
)

if TYPE_CHECKING:
    from anyio.abc import ByteStream

__all__ = [
    "ModbusOptions",
    "ModbusProtocol",
    "check_setpoint_register",
    "framing_of",
    "modbus_client_for",
    "open_modbus_controller",
    "open_modbus_device",
]


class ModbusProtocol(Enum):
    """The framing of Modbus on a byte stream."""

    RTU = "rtu"
    """On a serial line, or through a serial server that passes bytes on."""
    TCP = "tcp"
    """On a TCP connection to a Modbus server or gateway."""


class ModbusOptions(TypedDict, total=False):
    """The keyword arguments of :func:`open_modbus_device`, which describes them."""

    unit: int
    protocol: ModbusProtocol | str
    serial: SerialSettings | None
    timeout: float
    registers: RegisterMap
    units: Mapping[Statistic | str, str] | None
    assume_capabilities: Capability
    assume_same_instrument: bool


async def open_modbus_device(
    port: str | os.PathLike[str] | ByteStream | Transport | ModbusClient,
    *,
    unit: int = 1,
    protocol: ModbusProtocol | str = ModbusProtocol.RTU,
    serial: SerialSettings | None = None,
    timeout: float = 0.5,
    registers: RegisterMap = MASS_FLOW_CONTROLLER_REGISTERS,
    units: Mapping[Statistic | str, str] | None = None,
    assume_capabilities: Capability = Capability.NONE,
    assume_same_instrument: bool = False,
) -> ModbusFlowMeter:
    """Open one instrument, and read it once to prove that it answers.

    A port that was passed as a path is reopened after a loss if the instrument can be recognised:
    by the serial number, if ``registers`` has one, or with ``assume_same_instrument``. Otherwise a
    lost line stays lost: close the device and open it again.

    Args:
        port: Path of a serial port, or the address of a server (``tcp://host:502``,
            ``host:502``), which the device then owns and closes; or an open AnyIO byte stream or
            :class:`Transport`, likewise; or the client of a line, which the caller closes.
        unit: The instrument's Modbus number, 1 to 247.
        protocol: How requests are framed. A client brings its own framing.
        serial: How to open the port. Default: 19200 baud, 8N1.
        timeout: Seconds for each reply.
        registers: Which register holds what. Default: a mass-flow controller.
        units: The labels of the units that the instrument is set to, by quantity: Modbus does not
            tell them. ``{"mass_flow": "SCCM", "mass_flow_setpt": "SCCM"}``.
        assume_capabilities: Hardware that the instrument has and cannot be asked about.
        assume_same_instrument: Whatever answers under ``unit`` after the line was opened again is
            this instrument: nobody can plug in another one.

    Returns:
        A :class:`ModbusFlowController` where the map has a setpoint, else a
        :class:`ModbusFlowMeter`.

    Raises:
        AlicatConfigurationError: settings or unit number are not valid.
        AlicatConnectionError: the port cannot be opened or is lost.
        AlicatTimeoutError: the unit does not answer.
        AlicatProtocolError: the reply is not understood.
    """
    client, owned = await modbus_client_for(port, protocol, serial, timeout)
    try:
        await client.reopen()
        device_class = ModbusFlowMeter if registers.setpoint is None else ModbusFlowController
        device = device_class(
            client,
            unit=unit,
            registers=registers,
            units=units,
            capabilities=assume_capabilities,
            owns_client=owned,
            assume_same_instrument=assume_same_instrument,
        )
        await device.identify()
        await device.poll()
    except BaseException:
        if owned:
            with client.waiting.scope(shield=True):
                await client.aclose()
        raise
    return device


async def open_modbus_controller(
    port: str | os.PathLike[str] | ByteStream | Transport | ModbusClient,
    **options: Unpack[ModbusOptions],
) -> ModbusFlowController:
    """Open an instrument that has a setpoint; otherwise as :func:`open_modbus_device`.

    Raises:
        AlicatConfigurationError: ``registers`` has no setpoint. The port was not opened.
        AlicatError: as for :func:`open_modbus_device`.
    """
    check_setpoint_register(options)
    device = await open_modbus_device(port, **options)
    assert isinstance(device, ModbusFlowController)
    return device


def check_setpoint_register(options: ModbusOptions) -> None:
    """AlicatConfigurationError unless the options' map is a controller's."""
    if options.get("registers", MASS_FLOW_CONTROLLER_REGISTERS).setpoint is None:
        raise AlicatConfigurationError(
            "the map of registers has no setpoint, so the instrument is a meter: open it by "
            "open_modbus_device, or pass the registers of a controller"
        )


def framing_of(protocol: ModbusProtocol | str) -> Framing:
    """A new framing for one connection.

    Raises:
        ValueError: there is no such protocol.
    """
    return RtuFraming() if ModbusProtocol(protocol) is ModbusProtocol.RTU else TcpFraming()


async def modbus_client_for(
    port: str | os.PathLike[str] | ByteStream | Transport | ModbusClient,
    protocol: ModbusProtocol | str,
    serial: SerialSettings | None,
    timeout: float,
) -> tuple[ModbusClient, bool]:
    """The client of a line, and whether the caller has to close it; as ``open_modbus_device``."""
    check_seconds(timeout)
    if isinstance(port, ModbusClient):
        return port, False
    framing = framing_of(protocol)
    settings = settings_for(port, serial)
    if settings is not None:
        reopened = ReopenedPort(settings, open_serial_transport)
        transport = await reopened.open()
        return ModbusClient(transport, framing, timeout=timeout, reconnect=reopened.open), True
    assert not isinstance(port, (str, os.PathLike))
    stream = port if isinstance(port, Transport) else ByteStreamTransport(port)
    return ModbusClient(stream, framing, timeout=timeout), True
