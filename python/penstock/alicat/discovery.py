"""Finding instruments: which unit answers on which port at which baud rate."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Final

import anyio

from .client import AlicatProtocolClient
from .errors import AlicatConnectionError, AlicatError
from .factory import port_key
from .identification import describe, identify
from .identity import DeviceInfo
from .replies import check_unit_id
from .transport import SerialSettings, open_serial_transport

__all__ = [
    "DEFAULT_DISCOVERY_BAUDRATES",
    "DiscoveryResult",
    "find_devices",
    "list_serial_ports",
    "probe",
]

#: What instruments leave the factory with, and what they are often set to.
DEFAULT_DISCOVERY_BAUDRATES: Final = (19200, 115200)


@dataclass(frozen=True, slots=True)
class DiscoveryResult:
    """What was found at one place, or why nothing was."""

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
    """Ask for one unit at one place. Changes nothing on the instrument, and never raises an
    :class:`AlicatError`: what went wrong is in the result.

    ``timeout`` is for each answer, in seconds.
    """
    return (await _probe_port(port, (check_unit_id(unit_id),), baudrate, timeout))[0]


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

    Up to ``max_concurrency`` ports are asked at a time; one port at one baud rate after the other,
    and its units one after the other. ``stop_on_first_hit`` asks a port no further once an
    instrument has answered there. ``on_progress`` is called with every result as it comes.

    Returns a result for every place that was asked, found ones first, each in the order of the
    arguments. Changes nothing on the instruments, and stops none that streams.

    Raises:
        InvalidUnitIdError: a unit id is not one letter.
        ValueError: ``max_concurrency`` is below 1.
    """
    letters = tuple(dict.fromkeys(check_unit_id(unit_id) for unit_id in unit_ids))
    if max_concurrency < 1:
        raise ValueError(f"max_concurrency must be at least 1, not {max_concurrency!r}")
    names = await list_serial_ports() if ports is None else list(ports)
    # Two names of one port would be opened against each other.
    distinct = list({port_key(name): name for name in reversed(names)}.values())[::-1]
    results: dict[str, list[DiscoveryResult]] = {name: [] for name in distinct}
    limit = anyio.CapacityLimiter(max_concurrency)

    async def search(port: str) -> None:
        async with limit:
            for baudrate in baudrates:
                found = await _probe_port(port, letters, baudrate, timeout, on_progress)
                results[port] += found
                if stop_on_first_hit and any(result.ok for result in found):
                    return
                if all(isinstance(result.error, AlicatConnectionError) for result in found):
                    return  # it does not open, and will not at another baud rate

    async with anyio.create_task_group() as tasks:
        for port in distinct:
            tasks.start_soon(search, port)
    flat = [result for found in results.values() for result in found]
    return tuple(sorted(flat, key=lambda result: not result.ok))


async def _probe_port(
    port: str,
    unit_ids: Sequence[str],
    baudrate: int,
    timeout: float,
    on_progress: Callable[[DiscoveryResult], None] | None = None,
) -> list[DiscoveryResult]:
    """Ask for units on one port, which is opened once."""
    results: list[DiscoveryResult] = []

    def note(unit_id: str, began: float, outcome: DeviceInfo | AlicatError) -> None:
        info = outcome if isinstance(outcome, DeviceInfo) else None
        error = outcome if isinstance(outcome, AlicatError) else None
        result = DiscoveryResult(port, unit_id, baudrate, info, error, monotonic() - began)
        results.append(result)
        if on_progress is not None:
            on_progress(result)

    began = monotonic()
    try:
        transport = await open_serial_transport(SerialSettings(port, baudrate=baudrate))
    except AlicatError as error:
        for unit_id in unit_ids:
            note(unit_id, began, error)
        return results
    client = AlicatProtocolClient(transport, default_timeout=timeout)
    try:
        for unit_id in unit_ids:
            began = monotonic()
            try:
                identity = await identify(
                    client, unit_id, timeout=timeout, recover_from_stream=False
                )
                note(unit_id, began, describe(unit_id, identity))
            except AlicatError as error:
                note(unit_id, began, error)
    finally:
        with anyio.CancelScope(shield=True):
            await client.aclose()
    return results
