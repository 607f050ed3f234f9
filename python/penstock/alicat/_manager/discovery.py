"""Finding instruments: which unit answers on which port at which baud rate."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from penstock.alicat._bus.client import AlicatProtocolClient
from penstock.alicat._bus.line_timing import check_seconds
from penstock.alicat._bus.replies import check_unit_id
from penstock.alicat._bus.waiting import ANYIO, Waiting
from penstock.alicat._instrument.identification import describe, identify
from penstock.alicat._instrument.identity import DeviceInfo
from penstock.alicat._manager.port_search import PortSearch
from penstock.alicat.errors import AlicatError
from penstock.alicat.transport import SerialSettings, Transport, open_serial_transport

__all__ = [
    "DEFAULT_DISCOVERY_BAUDRATES",
    "DiscoveryResult",
    "find_devices",
    "letters_of",
    "list_serial_ports",
    "probe",
    "text_search",
]

#: The default baud rate of instruments, and the rates that they are often set to.
DEFAULT_DISCOVERY_BAUDRATES: Final = (19200, 115200)


@dataclass(frozen=True, slots=True)
class DiscoveryResult:
    """What was found at one address, or why nothing was found."""

    port: str
    unit_id: str
    baudrate: int
    device_info: DeviceInfo | None
    error: AlicatError | None
    elapsed_s: float

    @property
    def ok(self) -> bool:
        """Whether an instrument answered."""
        return self.device_info is not None

    @property
    def address(self) -> str:
        """The unit id; the same as :attr:`unit_id`."""
        return self.unit_id


async def list_serial_ports() -> list[str]:
    """The paths of this machine's serial ports."""
    from penstock.serial import list_serial_ports as list_ports

    return [info.device for info in await list_ports()]


async def probe(
    port: str, *, unit_id: str = "A", baudrate: int = 19200, timeout: float = 0.2
) -> DiscoveryResult:
    """Ask for one unit at one address; changes nothing on the instrument.

    Never raises an :class:`AlicatError`: a failure is part of the result.

    ``timeout`` is for each answer, in seconds.
    """
    return (await text_search(timeout).ask_port(port, (check_unit_id(unit_id),), baudrate))[0]


async def find_devices(
    ports: Iterable[str] | None = None,
    *,
    unit_ids: Sequence[str] = ("A",),
    baudrates: Sequence[int] = DEFAULT_DISCOVERY_BAUDRATES,
    timeout: float = 0.2,
    max_concurrency: int = 8,
    stop_on_first_hit: bool = False,
    on_progress: Callable[[DiscoveryResult], None] | None = None,
) -> tuple[DiscoveryResult, ...]:
    """Ask for every unit id at every baud rate on every port (default: this machine's).

    Up to ``max_concurrency`` ports are searched at a time, each at one baud rate after another and
    with one unit after another. A raw TCP connection is searched once, because the baud rate is set
    at its server. With ``stop_on_first_hit``, the search of a port ends with the first instrument
    that answers. ``on_progress`` is called with every result as it arrives.

    Returns a result for every address, the successful ones first, both parts in the order of the
    arguments. Changes nothing on the instruments, and does not stop an instrument that streams.

    Raises:
        InvalidUnitIdError: a unit id is not one letter.
        ValueError: ``max_concurrency`` is below 1.
    """
    letters = letters_of(unit_ids)
    return await text_search(timeout, on_progress=on_progress).find(
        await list_serial_ports() if ports is None else ports,
        addresses=letters,
        baudrates=baudrates,
        max_concurrency=max_concurrency,
        stop_on_first_hit=stop_on_first_hit,
    )


def text_search(
    timeout: float,
    *,
    on_progress: Callable[[DiscoveryResult], None] | None = None,
    waiting: Waiting = ANYIO,
    open_transport: Callable[[SerialSettings], Awaitable[Transport]] = open_serial_transport,
) -> PortSearch[AlicatProtocolClient, str, DeviceInfo, DiscoveryResult]:
    """Searches with the text protocol; ``timeout`` is for each answer, in seconds.

    Raises:
        AlicatConfigurationError: it is not a number of seconds above 0.
    """
    check_seconds(timeout)

    def client_on(transport: Transport) -> AlicatProtocolClient:
        return AlicatProtocolClient(transport, default_timeout=timeout, waiting=waiting)

    async def ask(client: AlicatProtocolClient, unit_id: str) -> DeviceInfo:
        identity = await identify(client, unit_id, timeout=timeout, recover_from_stream=False)
        return describe(unit_id, identity)

    return PortSearch(
        open_transport=open_transport,
        client_on=client_on,
        ask=ask,
        result=DiscoveryResult,
        on_progress=on_progress,
        waiting=waiting,
    )


def letters_of(unit_ids: Sequence[str]) -> tuple[str, ...]:
    """The unit ids that were asked for, each once.

    Raises:
        InvalidUnitIdError: one of them is not one letter.
    """
    return tuple(dict.fromkeys(check_unit_id(unit_id) for unit_id in unit_ids))
