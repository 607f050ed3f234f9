"""Many instruments on many ports, polled together."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from time import monotonic_ns, time_ns
from typing import TYPE_CHECKING, TypeVar

import anyio

from .client import AlicatProtocolClient
from .commands import Command, TableCommand
from .device import Device
from .errors import AlicatError, AlicatValidationError
from .events import DeviceEvent
from .factory import client_for, open_device, port_key
from .kinds import Capability, Medium
from .reading import FieldSchema, Reading
from .registry import Statistic
from .replies import check_unit_id
from .result import DeviceResult, ErrorPolicy
from .results import MeasurementSet
from .transport import SerialSettings, Transport

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from anyio.abc import ByteStream

__all__ = ["AlicatManager"]

Req = TypeVar("Req")
Resp = TypeVar("Resp")
T = TypeVar("T")


@dataclass(slots=True)
class _Bus:
    client: AlicatProtocolClient
    owned: bool
    baudrate: int | None
    unit_ids: dict[str, str] = field(default_factory=dict)
    """Device names by unit id."""


@dataclass(slots=True)
class _Member:
    device: Device
    bus: object
    """Key of its bus in the manager; devices opened elsewhere have the client's identity."""
    owned: bool


class AlicatManager:
    """Holds named devices and asks them together.

    Ports are asked in parallel, the devices of one port one after another, each as soon as the
    one before has answered or been given up. Devices added with the same port share it; it is
    closed with the last of them. For the tasks of one event loop::

        async with AlicatManager(error_policy=ErrorPolicy.RETURN) as manager:
            await manager.add("fuel", "/dev/ttyUSB0", unit_id="A")
            await manager.add("air", "/dev/ttyUSB0", unit_id="B")
            for name, result in (await manager.poll()).items():
                print(name, result.value.values if result.ok else result.error)
    """

    def __init__(self, *, error_policy: ErrorPolicy = ErrorPolicy.RAISE) -> None:
        self._error_policy = error_policy
        self._members: dict[str, _Member] = {}
        self._buses: dict[object, _Bus] = {}
        self._membership = anyio.Lock()
        self._closed = False

    @property
    def error_policy(self) -> ErrorPolicy:
        """What happens with failures."""
        return self._error_policy

    @property
    def names(self) -> tuple[str, ...]:
        """The devices' names, in the order in which they were added."""
        return tuple(self._members)

    @property
    def closed(self) -> bool:
        """Whether :meth:`close` was called."""
        return self._closed

    def get(self, name: str) -> Device:
        """The device with this name.

        Raises:
            AlicatValidationError: there is none.
        """
        return self._member(name).device

    def poll_groups(self) -> tuple[tuple[str, ...], ...]:
        """Names by port: devices of different groups can be polled without waiting for each
        other."""
        groups: dict[object, list[str]] = {}
        for name, member in self._members.items():
            groups.setdefault(member.bus, []).append(name)
        return tuple(tuple(names) for names in groups.values())

    def field_schemas(self) -> Mapping[str, tuple[FieldSchema, ...]]:
        """The fields of every device's readings, by name."""
        return {name: member.device.field_schema() for name, member in self._members.items()}

    async def add(
        self,
        name: str,
        source: Device | str | os.PathLike[str] | ByteStream | Transport | AlicatProtocolClient,
        *,
        unit_id: str = "A",
        serial: SerialSettings | None = None,
        timeout: float = 0.5,
        model_hint: str | None = None,
        assume_capabilities: Capability = Capability.NONE,
        assume_media: Medium | None = None,
    ) -> Device:
        """Open an instrument and hold it as ``name``.

        A port path, an open stream or a transport becomes the manager's to close; a client or a
        device stays its maker's. If opening fails, nothing is held, and a port opened for it is
        closed again.

        Raises:
            AlicatValidationError: the name or the unit id on that port is taken, the manager is
                closed, or the port is open with another baud rate.
            AlicatError: as for :func:`open_device`.
        """
        async with self._membership:
            if self._closed:
                raise AlicatValidationError("the manager is closed; make a new one")
            if name in self._members:
                raise AlicatValidationError(f"the name {name!r} is taken; choose another")
            if isinstance(source, Device):
                self._members[name] = _Member(source, id(source.client), owned=False)
                return source
            unit_id = check_unit_id(unit_id)
            key = _bus_key(source)
            bus = self._buses.get(key)
            if bus is None:
                client, owned = await client_for(source, serial=serial, timeout=timeout)
                bus = _Bus(client, owned, client.transport.baudrate)
            else:
                self._check_shared(bus, unit_id, serial)
            try:
                device = await open_device(
                    bus.client,
                    unit_id=unit_id,
                    timeout=timeout,
                    model_hint=model_hint,
                    assume_capabilities=assume_capabilities,
                    assume_media=assume_media,
                )
            except BaseException:
                if not bus.unit_ids and bus.owned:
                    with anyio.CancelScope(shield=True):
                        await bus.client.aclose()
                raise
            bus.unit_ids[unit_id] = name
            self._buses[key] = bus
            self._members[name] = _Member(device, key, owned=True)
            return device

    async def remove(self, name: str) -> None:
        """Let go of a device, and of its port with the last device on it.

        Raises:
            AlicatValidationError: there is no such device.
        """
        async with self._membership:
            member = self._member(name)
            del self._members[name]
            await self._release(member)

    async def close(self) -> None:
        """Let go of all devices and close the ports. May be called more than once.

        Raises:
            ExceptionGroup: ports failed to close; all others are closed.
        """
        with anyio.CancelScope(shield=True):
            async with self._membership:
                self._closed = True
                errors: list[Exception] = []
                for name in reversed(self.names):
                    try:
                        await self._release(self._members.pop(name))
                    except Exception as error:
                        errors.append(error)
                if errors:
                    raise ExceptionGroup("ports failed to close", errors)

    async def poll(self, names: Sequence[str] | None = None) -> Mapping[str, DeviceResult[Reading]]:
        """Poll the named devices, or all, and return a result for each, in that order.

        Raises:
            AlicatValidationError: a name is unknown; nothing was asked.
            ExceptionGroup: devices failed and the policy is :attr:`ErrorPolicy.RAISE`.
        """
        wanted = self.names if names is None else tuple(dict.fromkeys(names))
        by_bus: dict[object, list[tuple[str, Device]]] = {}
        for name in wanted:
            member = self._member(name)
            by_bus.setdefault(member.bus, []).append((name, member.device))
        results: dict[str, DeviceResult[Reading]] = {}
        if len(by_bus) == 1:
            (devices,) = by_bus.values()
            await _poll_bus(devices, results)
        else:
            async with anyio.create_task_group() as ports:
                for devices in by_bus.values():
                    ports.start_soon(_poll_bus, devices, results)
        self._raise_failures(results, "devices failed to answer a poll")
        return {name: results[name] for name in wanted}

    async def request(
        self,
        statistics: Sequence[Statistic | str | int],
        *,
        names: Sequence[str] | None = None,
        averaging_ms: int = 1,
    ) -> Mapping[str, DeviceResult[MeasurementSet]]:
        """Measure statistics on the named devices, or on all; see :meth:`Device.request`.

        Raises:
            AlicatValidationError: a name is unknown; nothing was asked.
            ExceptionGroup: devices failed and the policy is :attr:`ErrorPolicy.RAISE`.
        """
        return await self._ask_each(
            self.names if names is None else names,
            lambda device, name: device.request(statistics, averaging_ms=averaging_ms),
        )

    async def execute(
        self,
        command: Command[Req, Resp] | TableCommand[Req, Resp],
        requests: Mapping[str, Req],
    ) -> Mapping[str, DeviceResult[Resp]]:
        """Execute a command on named devices, each with a request of its own.

        Raises:
            AlicatValidationError: a name is unknown; nothing was sent.
            ExceptionGroup: devices failed and the policy is :attr:`ErrorPolicy.RAISE`.
        """
        return await self._ask_each(
            tuple(requests), lambda device, name: device.execute(command, requests[name])
        )

    def subscribe(self, callback: Callable[[str, DeviceEvent], None]) -> Callable[[], None]:
        """Have ``callback`` called with the name of a device and its event, for the devices that
        are held now; returns what ends that. See :meth:`Session.subscribe`."""
        ends = [
            member.device.subscribe(partial(callback, name))
            for name, member in self._members.items()
        ]

        def end() -> None:
            for one in ends:
                one()

        return end

    async def _ask_each(
        self, names: Sequence[str], ask: Callable[[Device, str], Awaitable[T]]
    ) -> Mapping[str, DeviceResult[T]]:
        """Ask the devices of one bus one after another, those of several buses side by side."""
        wanted = tuple(dict.fromkeys(names))
        by_bus: dict[object, list[tuple[str, Device]]] = {}
        for name in wanted:
            member = self._member(name)
            by_bus.setdefault(member.bus, []).append((name, member.device))
        results: dict[str, DeviceResult[T]] = {}

        async def ask_bus(devices: list[tuple[str, Device]]) -> None:
            for name, device in devices:
                asked = monotonic_ns(), time_ns()
                try:
                    value = await ask(device, name)
                except AlicatError as error:
                    results[name] = DeviceResult[T].failure(
                        error, requested_monotonic_ns=asked[0], requested_unix_ns=asked[1]
                    )
                else:
                    results[name] = DeviceResult(value, None, *asked, monotonic_ns(), time_ns())

        async with anyio.create_task_group() as ports:
            for devices in by_bus.values():
                ports.start_soon(ask_bus, devices)
        self._raise_failures(results, "devices failed to carry out a command")
        return {name: results[name] for name in wanted}

    def _raise_failures(self, results: Mapping[str, DeviceResult[T]], message: str) -> None:
        if self._error_policy is ErrorPolicy.RAISE:
            errors = [r.error for r in results.values() if r.error is not None]
            if errors:
                raise ExceptionGroup(message, errors)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    def _member(self, name: str) -> _Member:
        member = self._members.get(name)
        if member is None:
            held = ", ".join(self._members) or "none"
            raise AlicatValidationError(f"no device is named {name!r}; there are: {held}")
        return member

    def _check_shared(self, bus: _Bus, unit_id: str, serial: SerialSettings | None) -> None:
        if unit_id in bus.unit_ids:
            raise AlicatValidationError(
                f"unit {unit_id} on {bus.client.label} is held as {bus.unit_ids[unit_id]!r} already"
            )
        if serial is not None and bus.baudrate not in (None, serial.baudrate):
            raise AlicatValidationError(
                f"{bus.client.label} is open at {bus.baudrate} baud, so unit {unit_id} cannot be "
                f"asked at {serial.baudrate}: set all instruments of a bus to one baud rate"
            )

    async def _release(self, member: _Member) -> None:
        if not member.owned:
            return
        bus = self._buses[member.bus]
        await member.device.close()
        bus.client.forget_unit(member.device.unit_id)
        bus.unit_ids.pop(member.device.unit_id, None)
        if not bus.unit_ids:
            del self._buses[member.bus]
            if bus.owned:
                await bus.client.aclose()


async def _poll_bus(
    devices: list[tuple[str, Device]], results: dict[str, DeviceResult[Reading]]
) -> None:
    for name, device in devices:
        requested_ns, requested_unix_ns = monotonic_ns(), time_ns()
        try:
            results[name] = DeviceResult.of_reading(await device.poll())
        except AlicatError as error:
            results[name] = DeviceResult[Reading].failure(
                error, requested_monotonic_ns=requested_ns, requested_unix_ns=requested_unix_ns
            )


def _bus_key(source: object) -> object:
    return port_key(source) if isinstance(source, (str, os.PathLike)) else id(source)
