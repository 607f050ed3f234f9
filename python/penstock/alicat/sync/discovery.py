"""Finding instruments without an event loop."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from penstock.alicat._bus.replies import check_unit_id
from penstock.alicat._manager.discovery import (
    DEFAULT_DISCOVERY_BAUDRATES,
    DiscoveryResult,
    letters_of,
    text_search,
)
from penstock.alicat.modbus.discovery import (
    ModbusDiscoveryResult,
    modbus_search,
    numbers_of,
)
from penstock.alicat.modbus.opening import ModbusProtocol
from penstock.alicat.sync.transport import open_blocking_transport
from penstock.alicat.sync.waiting import BLOCKING, run_without_loop
from penstock.serial.discovery import native_ports

__all__ = ["find_devices", "find_modbus_devices", "list_serial_ports", "probe"]

R = TypeVar("R")


def list_serial_ports() -> list[str]:
    """The paths of this machine's serial ports."""
    return [info.device for info in native_ports()]


def probe(
    port: str, *, unit_id: str = "A", baudrate: int = 19200, timeout: float = 0.2
) -> DiscoveryResult:
    """Ask for one unit at one place; as :func:`penstock.alicat.probe`."""
    search = text_search(timeout, waiting=BLOCKING, open_transport=open_blocking_transport)
    return run_without_loop(search.ask_port(port, (check_unit_id(unit_id),), baudrate))[0]


def find_devices(
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

    As :func:`penstock.alicat.find_devices`, which describes the arguments and the result. Up to
    ``max_concurrency`` ports are asked at a time, each in a thread that ends with the call.
    ``on_progress`` is called in the thread that has the result, by one thread at a time.

    Raises:
        InvalidUnitIdError: a unit id is not one letter.
        ValueError: ``max_concurrency`` is below 1.
    """
    search = text_search(
        timeout,
        on_progress=_one_at_a_time(on_progress),
        waiting=BLOCKING,
        open_transport=open_blocking_transport,
    )
    return run_without_loop(
        search.find(
            list_serial_ports() if ports is None else ports,
            addresses=letters_of(unit_ids),
            baudrates=baudrates,
            max_concurrency=max_concurrency,
            stop_on_first_hit=stop_on_first_hit,
        )
    )


def find_modbus_devices(
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
    """Ask for every Modbus number at every baud rate on every port.

    As :func:`penstock.alicat.modbus.find_modbus_devices`; threads and ``on_progress`` as in
    :func:`find_devices`.
    """
    search = modbus_search(
        timeout,
        protocol,
        on_progress=_one_at_a_time(on_progress),
        waiting=BLOCKING,
        open_transport=open_blocking_transport,
    )
    return run_without_loop(
        search.find(
            list_serial_ports() if ports is None else ports,
            addresses=numbers_of(units),
            baudrates=baudrates,
            max_concurrency=max_concurrency,
            stop_on_first_hit=stop_on_first_hit,
        )
    )


def _one_at_a_time(report: Callable[[R], None] | None) -> Callable[[R], None] | None:
    """``report`` for several threads, of which one at a time calls it."""
    if report is None:
        return None
    reporting = threading.Lock()

    def locked(result: R) -> None:
        with reporting:
            report(result)

    return locked
