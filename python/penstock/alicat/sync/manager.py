"""Many instruments on many ports, polled together, without an event loop."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Self, TypeVar

from penstock.alicat._bus.client import AlicatProtocolClient
from penstock.alicat._instrument.events import DeviceEvent
from penstock.alicat._instrument.kinds import Capability, Medium
from penstock.alicat._instrument.reading import FieldSchema, Reading
from penstock.alicat._instrument.results import DeviceResult, ErrorPolicy, MeasurementSet, SafeState
from penstock.alicat._manager import AlicatManager
from penstock.alicat.commands import Command, TableCommand
from penstock.alicat.registry import Statistic
from penstock.alicat.sync.devices import SyncDevice, wrap_device
from penstock.alicat.sync.modbus import SyncModbusFlowMeter, wrap_modbus_device
from penstock.alicat.sync.opening import blocking_client_for
from penstock.alicat.sync.waiting import BLOCKING, run_without_loop
from penstock.alicat.transport import SerialSettings
from penstock.serial.sync import SerialPort

__all__ = ["SyncAlicatManager"]

Req = TypeVar("Req")
Resp = TypeVar("Resp")


class SyncAlicatManager:
    """Holds named devices and asks them together, as :class:`penstock.alicat.AlicatManager` does.

    Several ports are asked at once by a thread each, for as long as the call lasts; the devices of
    one port are asked in the calling thread where it is the only one.
    """

    def __init__(
        self, *, error_policy: ErrorPolicy = ErrorPolicy.RAISE, source_id: str = "alicat"
    ) -> None:
        self._manager = AlicatManager(
            error_policy=error_policy,
            source_id=source_id,
            waiting=BLOCKING,
            client_for=blocking_client_for,
        )

    @property
    def error_policy(self) -> ErrorPolicy:
        """What a poll does with failures."""
        return self._manager.error_policy

    @property
    def names(self) -> tuple[str, ...]:
        """The devices' names, in the order in which they were added."""
        return self._manager.names

    @property
    def closed(self) -> bool:
        """Whether :meth:`close` was called."""
        return self._manager.closed

    def get(self, name: str) -> SyncDevice:
        """The device with this name; raises AlicatValidationError where there is none."""
        return wrap_device(self._manager.get(name))

    def field_schemas(self) -> Mapping[str, tuple[FieldSchema, ...]]:
        """The fields of every device's readings, by name."""
        return self._manager.field_schemas()

    def subscribe(self, callback: Callable[[str, DeviceEvent], None]) -> Callable[[], None]:
        """Call ``callback`` with the name of a device and its event."""
        return self._manager.subscribe(callback)

    def add(
        self,
        name: str,
        source: str | os.PathLike[str] | SerialPort | AlicatProtocolClient,
        *,
        unit_id: str = "A",
        serial: SerialSettings | None = None,
        timeout: float = 0.5,
        model_hint: str | None = None,
        assume_capabilities: Capability = Capability.NONE,
        assume_media: Medium | None = None,
        safe_state: SafeState = SafeState.LEAVE,
    ) -> SyncDevice:
        """Open an instrument and hold it as ``name``; as :meth:`AlicatManager.add`."""
        return wrap_device(
            run_without_loop(
                self._manager.add(
                    name,
                    source,  # type: ignore[arg-type]
                    unit_id=unit_id,
                    serial=serial,
                    timeout=timeout,
                    model_hint=model_hint,
                    assume_capabilities=assume_capabilities,
                    assume_media=assume_media,
                    safe_state=safe_state,
                )
            )
        )

    def add_modbus(self, name: str, device: SyncModbusFlowMeter) -> None:
        """Hold an open Modbus device as ``name``; the caller closes it.

        Devices that share a line share its client: ``open_modbus_device(first.client, unit=2)``.
        """
        run_without_loop(self._manager.add_modbus(name, device.asynchronous))

    def get_modbus(self, name: str) -> SyncModbusFlowMeter:
        """The device that was added by :meth:`add_modbus` under this name."""
        return wrap_modbus_device(self._manager.get_modbus(name))

    def remove(self, name: str) -> None:
        """Remove a device, and close its port with the last device on it."""
        run_without_loop(self._manager.remove(name))

    def poll(self, names: Sequence[str] | None = None) -> Mapping[str, DeviceResult[Reading]]:
        """Poll the named devices, or all; as :meth:`AlicatManager.poll`."""
        return run_without_loop(self._manager.poll(names))

    def request(
        self,
        statistics: Sequence[Statistic | str | int],
        *,
        names: Sequence[str] | None = None,
        averaging_ms: int = 1,
    ) -> Mapping[str, DeviceResult[MeasurementSet]]:
        """Measure statistics on the named devices, or on all."""
        return run_without_loop(
            self._manager.request(statistics, names=names, averaging_ms=averaging_ms)
        )

    def execute(
        self,
        command: Command[Req, Resp] | TableCommand[Req, Resp],
        requests: Mapping[str, Req],
    ) -> Mapping[str, DeviceResult[Resp]]:
        """Execute a command on named devices, each with a request of its own."""
        return run_without_loop(self._manager.execute(command, requests))

    def close(self) -> None:
        """Remove all devices and close the ports. May be called more than once."""
        run_without_loop(self._manager.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
