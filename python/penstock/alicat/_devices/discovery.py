"""Finding instruments: which unit answers on which port at which baud rate."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Final, Generic, Protocol, TypeVar

from penstock._renamed import renamed
from penstock.alicat._bus.client import AlicatProtocolClient
from penstock.alicat._bus.replies import check_unit_id
from penstock.alicat._bus.waiting import ANYIO, Waiting
from penstock.alicat._bus.wire import check_seconds
from penstock.alicat._devices.factory import port_key
from penstock.alicat._instrument.identity import DeviceInfo
from penstock.alicat._session.identification import describe, identify
from penstock.alicat.errors import AlicatConnectionError, AlicatError
from penstock.alicat.transport import SerialSettings, Transport, is_raw_tcp, open_serial_transport


class _Client(Protocol):
    async def aclose(self) -> None: ...


class _Result(Protocol):
    @property
    def ok(self) -> bool: ...
    @property
    def error(self) -> AlicatError | None: ...


C = TypeVar("C", bound=_Client)
R = TypeVar("R", bound=_Result)
A = TypeVar("A")
F = TypeVar("F")


class PortSearch(Generic[C, A, F, R]):
    """Searches every port at every baud rate for instruments at every address.

    Args:
        open_transport: Opens a port.
        client_on: The client that asks on an open port; it closes the port.
        ask: Asks for one address. An :class:`AlicatError` is a result, too.
        result: Makes a result of port, address, baud rate, what was found or None, the error or
            None, and the seconds that it took.
        progress: Called with every result as it arrives.
        waiting: The primitives that its coroutines wait with.
    """

    def __init__(
        self,
        *,
        open_transport: Callable[[SerialSettings], Awaitable[Transport]],
        client_on: Callable[[Transport], C],
        ask: Callable[[C, A], Awaitable[F]],
        result: Callable[[str, A, int, F | None, AlicatError | None, float], R],
        progress: Callable[[R], None] | None,
        waiting: Waiting,
    ) -> None:
        self._open_transport = open_transport
        self._client_on = client_on
        self._ask = ask
        self._result = result
        self._progress = progress
        self._waiting = waiting

    async def find(
        self,
        ports: Iterable[str],
        *,
        addresses: Sequence[A],
        baudrates: Sequence[int],
        max_concurrency: int,
        stop_on_first_hit: bool,
    ) -> tuple[R, ...]:
        """Search everywhere, up to ``max_concurrency`` ports at a time; found ones come first.

        Raises:
            ValueError: ``max_concurrency`` is below 1.
        """
        if max_concurrency < 1:
            raise ValueError(f"max_concurrency must be at least 1, not {max_concurrency!r}")
        names = list(ports)
        # Two names of one port would compete for it.
        distinct = list({port_key(name): name for name in reversed(names)}.values())[::-1]
        results: dict[str, list[R]] = {name: [] for name in distinct}
        remaining = deque(distinct)

        async def ask_ports() -> None:
            while True:
                try:
                    port = remaining.popleft()
                except IndexError:
                    return
                # Behind a raw TCP connection, every baud rate is the same place.
                for baudrate in baudrates[:1] if is_raw_tcp(port) else baudrates:
                    found = await self.ask_port(port, addresses, baudrate)
                    results[port] += found
                    if stop_on_first_hit and any(result.ok for result in found):
                        break
                    if all(isinstance(result.error, AlicatConnectionError) for result in found):
                        break  # the port would not open at another baud rate either

        await self._waiting.together([ask_ports] * min(max_concurrency, len(distinct)))
        flat = [result for found in results.values() for result in found]
        return tuple(sorted(flat, key=lambda result: not result.ok))

    async def ask_port(self, port: str, addresses: Sequence[A], baudrate: int) -> list[R]:
        """Ask for all addresses on one port, which is opened once."""
        results: list[R] = []

        def note(address: A, began: float, found: F | None, error: AlicatError | None) -> None:
            result = self._result(port, address, baudrate, found, error, monotonic() - began)
            results.append(result)
            if self._progress is not None:
                self._progress(result)

        began = monotonic()
        try:
            transport = await self._open_transport(SerialSettings(port, baudrate=baudrate))
        except AlicatError as error:
            for address in addresses:
                note(address, began, None, error)
            return results
        client = self._client_on(transport)
        try:
            for address in addresses:
                began = monotonic()
                try:
                    note(address, began, await self._ask(client, address), None)
                except AlicatError as error:
                    note(address, began, None, error)
        finally:
            with self._waiting.scope(shield=True):
                await client.aclose()
        return results


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

    If the port does not open or no instrument answers, the result has the error.

    Args:
        port: As for :func:`open_device`.
        unit_id: The instrument's letter on the bus.
        baudrate: The baud rate to ask at.
        timeout: Seconds for each answer.

    Raises:
        InvalidUnitIdError: ``unit_id`` is not one letter.
        AlicatConfigurationError: ``timeout`` is not a number of seconds above 0.
    """
    return (await text_search(timeout).ask_port(port, (check_unit_id(unit_id),), baudrate))[0]


@renamed(on_progress="progress")
async def find_devices(
    ports: Iterable[str] | None = None,
    *,
    unit_ids: Sequence[str] = ("A",),
    baudrates: Sequence[int] = DEFAULT_DISCOVERY_BAUDRATES,
    timeout: float = 0.2,
    max_concurrency: int = 8,
    stop_on_first_hit: bool = False,
    progress: Callable[[DiscoveryResult], None] | None = None,
) -> tuple[DiscoveryResult, ...]:
    """Ask for every unit id at every baud rate on every port (default: this machine's).

    Up to ``max_concurrency`` ports are searched at a time, each at one baud rate after another and
    with one unit after another. A raw TCP connection is searched once, because the baud rate is set
    at its server. With ``stop_on_first_hit``, the search of a port ends with the first instrument
    that answers. ``progress`` is called with every result as it arrives.

    Returns a result for every address, the successful ones first, both parts in the order of the
    arguments. Changes nothing on the instruments, and does not stop an instrument that streams.

    Cancellation: closes the ports and raises.

    Raises:
        InvalidUnitIdError: a unit id is not one letter.
        AlicatConfigurationError: ``timeout`` is not a number of seconds above 0.
        ValueError: ``max_concurrency`` is below 1.
    """
    letters = letters_of(unit_ids)
    return await text_search(timeout, progress=progress).find(
        await list_serial_ports() if ports is None else ports,
        addresses=letters,
        baudrates=baudrates,
        max_concurrency=max_concurrency,
        stop_on_first_hit=stop_on_first_hit,
    )


def text_search(
    timeout: float,
    *,
    progress: Callable[[DiscoveryResult], None] | None = None,
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
        progress=progress,
        waiting=waiting,
    )


def letters_of(unit_ids: Sequence[str]) -> tuple[str, ...]:
    """The unit ids that were asked for, each once.

    Raises:
        InvalidUnitIdError: one of them is not one letter.
    """
    return tuple(dict.fromkeys(check_unit_id(unit_id) for unit_id in unit_ids))
