"""The search for instruments over ports, baud rates and addresses, for any protocol."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from time import monotonic
from typing import Generic, Protocol, TypeVar

from penstock.alicat._bus.waiting import Waiting
from penstock.alicat._devices.factory import port_key
from penstock.alicat.errors import AlicatConnectionError, AlicatError
from penstock.alicat.transport import SerialSettings, Transport, is_raw_tcp

__all__ = ["PortSearch"]


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
        on_progress: Called with every result as it arrives.
        waiting: The primitives that its coroutines wait with.
    """

    def __init__(
        self,
        *,
        open_transport: Callable[[SerialSettings], Awaitable[Transport]],
        client_on: Callable[[Transport], C],
        ask: Callable[[C, A], Awaitable[F]],
        result: Callable[[str, A, int, F | None, AlicatError | None, float], R],
        on_progress: Callable[[R], None] | None,
        waiting: Waiting,
    ) -> None:
        self._open_transport = open_transport
        self._client_on = client_on
        self._ask = ask
        self._result = result
        self._on_progress = on_progress
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
                        break  # it does not open, also not at another baud rate

        await self._waiting.together([ask_ports] * min(max_concurrency, len(distinct)))
        flat = [result for found in results.values() for result in found]
        return tuple(sorted(flat, key=lambda result: not result.ok))

    async def ask_port(self, port: str, addresses: Sequence[A], baudrate: int) -> list[R]:
        """Ask for all addresses on one port, which is opened once."""
        results: list[R] = []

        def note(address: A, began: float, found: F | None, error: AlicatError | None) -> None:
            result = self._result(port, address, baudrate, found, error, monotonic() - began)
            results.append(result)
            if self._on_progress is not None:
                self._on_progress(result)

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
