"""Opening and finding instruments without an event loop."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import TypeVar, Unpack

from penstock._renamed import renamed
from penstock.alicat._bus.client import AlicatProtocolClient
from penstock.alicat._bus.replies import check_unit_id
from penstock.alicat._bus.wire import check_seconds
from penstock.alicat._devices.discovery import (
    DEFAULT_DISCOVERY_BAUDRATES,
    DiscoveryResult,
    letters_of,
    text_search,
)
from penstock.alicat._devices.factory import (
    DeviceOptions,
    ReopenedPort,
    not_a_controller,
    settings_for,
)
from penstock.alicat._devices.factory import open_device as open_device_coroutine
from penstock.alicat._instrument.kinds import Capability, Medium
from penstock.alicat._instrument.results import SafeState
from penstock.alicat.config import AlicatConfig
from penstock.alicat.modbus.opening import (
    ModbusDiscoveryResult,
    ModbusProtocol,
    modbus_search,
    numbers_of,
)
from penstock.alicat.sync.devices import (
    SyncDevice,
    SyncFlowController,
    SyncPressureController,
    wrap_device,
)
from penstock.alicat.sync.waiting import (
    BLOCKING,
    BlockingTransport,
    open_blocking_transport,
    run_without_loop,
)
from penstock.alicat.transport import SerialSettings
from penstock.serial.discovery import native_ports
from penstock.serial.sync import SerialPort

__all__ = [
    "Alicat",
    "blocking_client_for",
    "find_devices",
    "find_modbus_devices",
    "list_serial_ports",
    "open_controller",
    "open_device",
    "probe",
]


def open_device(
    port: str | os.PathLike[str] | SerialPort | AlicatProtocolClient,
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
) -> SyncDevice:
    """Open one instrument and identify it; :func:`penstock.alicat.open_device` without a loop.

    Args:
        port: Path of a serial port or address of a serial server, or an open
            :class:`penstock.serial.sync.SerialPort`, which the device then owns; or the client of a
            device that shares its bus.
        unit_id: The instrument's letter on the bus.
        serial: How to open the port. Default: 19200 baud, 8N1.
        timeout: Seconds for each one-line reply.
        recover_from_stream: Stop the instrument if it turns out to be streaming.
        model_hint: The model number, for an instrument that does not report it.
        assume_capabilities: Hardware that the instrument has and cannot be asked about.
        assume_media: Its medium, instead of the one that its model number implies.
        safe_state: What a controller is left doing when the device is closed.
        config: Further settings.

    Raises:
        AlicatError: as for :func:`penstock.alicat.open_device`.
    """

    async def opened() -> SyncDevice:
        client, owned = await blocking_client_for(port, serial=serial, timeout=timeout)
        try:
            device = await open_device_coroutine(
                client,
                unit_id=unit_id,
                timeout=timeout,
                recover_from_stream=recover_from_stream,
                model_hint=model_hint,
                assume_capabilities=assume_capabilities,
                assume_media=assume_media,
                safe_state=safe_state,
                config=config,
            )
        except BaseException:
            if owned:
                await client.aclose()
            raise
        device.owns_client = owned
        return wrap_device(device)

    return run_without_loop(opened())


def open_controller(
    port: str | os.PathLike[str] | SerialPort | AlicatProtocolClient,
    **options: Unpack[DeviceOptions],
) -> SyncFlowController | SyncPressureController:
    """Open a controller; :func:`penstock.alicat.open_controller` without a loop.

    Raises:
        AlicatConfigurationError: the instrument is a meter. It has been closed again.
        AlicatError: as for :func:`penstock.alicat.open_device`.
    """
    device = open_device(port, **options)
    if isinstance(device, (SyncFlowController, SyncPressureController)):
        return device
    device.close()
    raise not_a_controller(device.info)


class Alicat:
    """:func:`open_device` under the name that alicatlib gives it."""

    @staticmethod
    @contextmanager
    def open(
        port: str | os.PathLike[str] | SerialPort | AlicatProtocolClient,
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
    ) -> Generator[SyncDevice, None, None]:
        """The device, for as long as the context lasts; as :func:`open_device`."""
        with open_device(
            port,
            unit_id=unit_id,
            serial=serial,
            timeout=timeout,
            recover_from_stream=recover_from_stream,
            model_hint=model_hint,
            assume_capabilities=assume_capabilities,
            assume_media=assume_media,
            safe_state=safe_state,
            config=config,
        ) as device:
            yield device


async def blocking_client_for(
    port: object, *, serial: SerialSettings | None = None, timeout: float = 0.5
) -> tuple[AlicatProtocolClient, bool]:
    """The client of a bus that blocks, and whether the caller has to close it.

    Raises:
        AlicatConfigurationError: ``serial`` belongs to another port or to no serial port.
        AlicatConnectionError: the port cannot be opened.
        TypeError: ``port`` cannot be used without an event loop.
    """
    check_seconds(timeout)
    settings = settings_for(port, serial)
    if settings is not None:
        reopened = ReopenedPort(settings, open_blocking_transport)
        client = AlicatProtocolClient(
            await reopened.open(),
            default_timeout=timeout,
            reconnect=reopened.open,
            reopen_at=reopened.open_at,
            waiting=BLOCKING,
        )
        return client, True
    if isinstance(port, AlicatProtocolClient):
        return port, False
    if isinstance(port, SerialPort):
        port = BlockingTransport(port)
    if not isinstance(port, BlockingTransport):
        raise TypeError(
            f"{port!r} is neither the path of a port nor a port of penstock.serial.sync"
        )
    return AlicatProtocolClient(port, default_timeout=timeout, waiting=BLOCKING), True


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


@renamed(on_progress="progress")
def find_devices(
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

    As :func:`penstock.alicat.find_devices`, which describes the arguments and the result. Up to
    ``max_concurrency`` ports are asked at a time, each in a thread that ends with the call.
    ``progress`` is called in the thread that has the result, by one thread at a time.

    Raises:
        InvalidUnitIdError: a unit id is not one letter.
        ValueError: ``max_concurrency`` is below 1.
    """
    search = text_search(
        timeout,
        progress=_one_at_a_time(progress),
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


@renamed(on_progress="progress")
def find_modbus_devices(
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
    """Ask for every Modbus number at every baud rate on every port.

    As :func:`penstock.alicat.modbus.find_modbus_devices`; threads and ``progress`` as in
    :func:`find_devices`.
    """
    search = modbus_search(
        timeout,
        protocol,
        progress=_one_at_a_time(progress),
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
