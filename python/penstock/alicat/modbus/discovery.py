"""Finding instruments over Modbus: which number answers on which port.

No register holds maker or model. The family follows from the registers that an instrument has: a
request for a missing register is answered with exception 2 (MODBUS Application Protocol V1.1b3,
section 7). The registers are those of the maker's manuals; this was not tried on an instrument.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from penstock.alicat._bus.line_timing import check_seconds
from penstock.alicat._bus.waiting import ANYIO, Waiting
from penstock.alicat._manager.discovery import DEFAULT_DISCOVERY_BAUDRATES, list_serial_ports
from penstock.alicat._manager.port_search import PortSearch
from penstock.alicat.errors import AlicatError, AlicatValidationError
from penstock.alicat.modbus.client import ModbusClient
from penstock.alicat.modbus.families import registers_of_family
from penstock.alicat.modbus.opening import ModbusProtocol, framing_of
from penstock.alicat.modbus.pdu import ModbusExceptionError, ReadRegisters
from penstock.alicat.modbus.registers import RegisterMap
from penstock.alicat.transport import SerialSettings, Transport, open_serial_transport

__all__ = [
    "ModbusDiscoveryResult",
    "ModbusIdentity",
    "find_modbus_devices",
    "modbus_search",
    "numbers_of",
]

#: What a gateway answers when the unit behind it does not.
_OF_GATEWAYS: Final = frozenset({10, 11})
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


async def find_modbus_devices(
    ports: Iterable[str] | None = None,
    *,
    units: Sequence[int] = (1,),
    protocol: ModbusProtocol | str = ModbusProtocol.RTU,
    baudrates: Sequence[int] = DEFAULT_DISCOVERY_BAUDRATES,
    timeout: float = 0.2,
    max_concurrency: int = 8,
    stop_on_first_hit: bool = False,
    on_progress: Callable[[ModbusDiscoveryResult], None] | None = None,
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
        on_progress: Called with every result as it arrives.

    Returns:
        A result for every address, the successful ones first.

    Raises:
        AlicatValidationError: a number is out of range.
        ValueError: ``max_concurrency`` is below 1.
    """
    numbers = numbers_of(units)
    return await modbus_search(timeout, protocol, on_progress=on_progress).find(
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
    on_progress: Callable[[ModbusDiscoveryResult], None] | None = None,
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
        on_progress=on_progress,
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
