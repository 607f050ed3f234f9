"""Opening and finding instruments that use Modbus.

No register holds maker or model. The family follows from the registers that an instrument has: a
request for a missing register is answered with exception 2 (MODBUS Application Protocol V1.1b3,
section 7). The registers are those of the maker's manuals; this was not tried on an instrument.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final, TypedDict, Unpack

from penstock._opening import opening
from penstock._renamed import renamed
from penstock.alicat._bus.waiting import ANYIO, Waiting
from penstock.alicat._bus.wire import check_seconds
from penstock.alicat._devices.discovery import (
    DEFAULT_DISCOVERY_BAUDRATES,
    PortSearch,
    list_serial_ports,
)
from penstock.alicat._devices.factory import ReopenedPort, settings_for
from penstock.alicat._instrument.kinds import Capability
from penstock.alicat.errors import AlicatConfigurationError, AlicatError, AlicatValidationError
from penstock.alicat.modbus.client import ModbusClient
from penstock.alicat.modbus.controller import ModbusFlowController
from penstock.alicat.modbus.device import ModbusFlowMeter
from penstock.alicat.modbus.protocol import (
    Framing,
    ModbusExceptionCode,
    ModbusExceptionError,
    ReadRegisters,
    RtuFraming,
    TcpFraming,
)
from penstock.alicat.modbus.registers import (
    MASS_FLOW_CONTROLLER_REGISTERS,
    RegisterMap,
    registers_of_family,
)
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
    "ModbusDiscoveryResult",
    "ModbusIdentity",
    "ModbusOptions",
    "ModbusProtocol",
    "check_setpoint_register",
    "find_modbus_devices",
    "framing_of",
    "modbus_client_for",
    "modbus_search",
    "numbers_of",
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


@opening
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

    ``await`` the result, or use it with ``async with``.

    A port that was passed as a path is reopened after a loss if the instrument can be recognised:
    by the serial number, if ``registers`` has one, or with ``assume_same_instrument``. Otherwise a
    lost line stays lost: close the device and open it again.

    Args:
        port: Path of a serial port, or the address of a server (``tcp://host:502``,
            ``host:502``), which the device then owns and closes; or an open AnyIO byte stream or
            :class:`Transport`, likewise; or the client of a line, which the caller closes.
        unit: The instrument's Modbus number, 1 to 247.
        protocol: The framing of the requests; ignored for a client, which has its framing.
        serial: The settings of the port. Default: 19200 baud, 8N1.
        timeout: Seconds for each reply.
        registers: The register map. Default: that of a mass-flow controller.
        units: The labels of the units that the instrument is set to, by quantity, because no
            register holds them: ``{"mass_flow": "SCCM", "mass_flow_setpt": "SCCM"}``.
        assume_capabilities: Hardware that the instrument has and that no register reports.
        assume_same_instrument: Whether the instrument that answers under ``unit`` after the line
            was reopened is this one in any case, because nobody can plug in another one.

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


@opening
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
            "the map of registers has no setpoint, so the instrument is a meter: open it with "
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


#: What a gateway answers when the unit behind it does not.
_OF_GATEWAYS: Final = frozenset(
    {
        ModbusExceptionCode.GATEWAY_PATH_UNAVAILABLE,
        ModbusExceptionCode.GATEWAY_TARGET_DEVICE_FAILED_TO_RESPOND,
    }
)
_LAST_NUMBER: Final = 247
#: Wire addresses, from the registers of the manuals, and how many of them.
_BASIS_SERIAL: Final = (25, 6)
_BASIS_SETPOINT: Final = (2105, 2)
_CODA: Final = (2052, 6)
_GAS_FLOW: Final = (1199, 11)
_LIQUID_FLOW: Final = (1200, 8)
_PRESSURE: Final = (1200, 4)
_SETPOINT: Final = (1009, 2)


@dataclass(frozen=True, slots=True)
class ModbusIdentity:
    """What an instrument is, as far as its registers tell.

    ``family`` is a name that :func:`penstock.alicat.modbus.registers_of_family` takes;
    ``"pressure-controller"`` or ``"pressure-meter"`` if the reference of the pressure is unknown;
    or ``"unknown"`` for a unit that answers and has none of the registers that are asked for.
    ``registers`` is its map, None where the family does not determine it. Only BASIS instruments
    report ``serial``.
    """

    family: str
    registers: RegisterMap | None = None
    serial: str | None = None


@dataclass(frozen=True, slots=True)
class ModbusDiscoveryResult:
    """What was found at one address, or why nothing was found."""

    port: str
    unit: int
    baudrate: int
    identity: ModbusIdentity | None
    error: AlicatError | None
    elapsed_s: float

    @property
    def ok(self) -> bool:
        """Whether a unit answered."""
        return self.identity is not None


@renamed(on_progress="progress")
async def find_modbus_devices(
    ports: Iterable[str] | None = None,
    *,
    units: Sequence[int] = (1,),
    protocol: ModbusProtocol | str = ModbusProtocol.RTU,
    baudrates: Sequence[int] = DEFAULT_DISCOVERY_BAUDRATES,
    timeout: float = 0.2,
    max_concurrency: int = 8,
    stop_on_first_hit: bool = False,
    progress: Callable[[ModbusDiscoveryResult], None] | None = None,
) -> tuple[ModbusDiscoveryResult, ...]:
    """Ask for every Modbus number at every baud rate on every port (default: this machine's).

    The counterpart of :func:`penstock.alicat.find_devices`. Registers are read, none is written.

    Args:
        ports: Paths of serial ports, or addresses of servers.
        units: The Modbus numbers, 1 to 247.
        protocol: How requests are framed.
        baudrates: The baud rates to try on serial ports.
        timeout: Seconds for each reply.
        max_concurrency: Ports that are asked at a time.
        stop_on_first_hit: End the search of a port with the first unit that answers.
        progress: Called with every result as it arrives.

    Returns:
        A result for every address, the successful ones first.

    Raises:
        AlicatValidationError: a number is out of range.
        ValueError: ``max_concurrency`` is below 1.
    """
    numbers = numbers_of(units)
    return await modbus_search(timeout, protocol, progress=progress).find(
        await list_serial_ports() if ports is None else ports,
        addresses=numbers,
        baudrates=baudrates,
        max_concurrency=max_concurrency,
        stop_on_first_hit=stop_on_first_hit,
    )


def modbus_search(
    timeout: float,
    protocol: ModbusProtocol | str,
    *,
    progress: Callable[[ModbusDiscoveryResult], None] | None = None,
    waiting: Waiting = ANYIO,
    open_transport: Callable[[SerialSettings], Awaitable[Transport]] = open_serial_transport,
) -> PortSearch[ModbusClient, int, ModbusIdentity, ModbusDiscoveryResult]:
    """Searches by Modbus; ``timeout`` is for each reply, in seconds.

    Raises:
        AlicatConfigurationError: it is not a number of seconds above 0.
    """
    check_seconds(timeout)

    def client_on(transport: Transport) -> ModbusClient:
        return ModbusClient(transport, framing_of(protocol), timeout=timeout, waiting=waiting)

    return PortSearch(
        open_transport=open_transport,
        client_on=client_on,
        ask=_identity_of,
        result=ModbusDiscoveryResult,
        progress=progress,
        waiting=waiting,
    )


def numbers_of(units: Sequence[int]) -> tuple[int, ...]:
    """The Modbus numbers that were asked for, each once.

    Raises:
        AlicatValidationError: one of them is out of range.
    """
    for unit in units:
        if not 1 <= unit <= _LAST_NUMBER:
            raise AlicatValidationError(
                f"{unit!r} is not a Modbus unit number: it is 1 to {_LAST_NUMBER}"
            )
    return tuple(dict.fromkeys(units))


async def _identity_of(client: ModbusClient, unit: int) -> ModbusIdentity:
    """Determine the family from the registers that the unit has.

    Raises:
        AlicatError: as for :meth:`ModbusClient.execute`; a unit that refuses was found.
    """

    async def held(place: tuple[int, int]) -> tuple[int, ...] | None:
        try:
            return (await client.execute(unit, ReadRegisters(*place))).value
        except ModbusExceptionError as error:
            if error.code in _OF_GATEWAYS:
                raise
            return None

    kind = "controller" if await held(_SETPOINT) is not None else "meter"
    words = await held(_BASIS_SERIAL)
    if words is not None:
        serial = b"".join(word.to_bytes(2, "big") for word in words).rstrip(b"\0 ")
        if serial and serial.isalnum():
            controls = await held(_BASIS_SETPOINT) is not None
            family = "basis-controller" if controls else "basis-meter"
            return ModbusIdentity(family, serial=serial.decode("ascii"))
    if await held(_CODA) is not None:
        return ModbusIdentity("coda-meter", registers_of_family("coda-meter"))
    for place, family in ((_GAS_FLOW, "mass-flow"), (_LIQUID_FLOW, "liquid")):
        if await held(place) is not None:
            name = f"{family}-{kind}"
            return ModbusIdentity(name, registers_of_family(name))
    if await held(_PRESSURE) is not None:
        return ModbusIdentity(f"pressure-{kind}")
    return ModbusIdentity("unknown")
