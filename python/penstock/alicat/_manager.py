"""Many instruments on many ports, polled together."""

from __future__ import annotations

import math
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from time import monotonic_ns, time_ns
from typing import TYPE_CHECKING, TypeVar

from penstock.alicat._bus.client import AlicatProtocolClient
from penstock.alicat._bus.replies import check_unit_id
from penstock.alicat._bus.scheduler import BusScheduler, utilisation
from penstock.alicat._bus.waiting import ANYIO, Waiting
from penstock.alicat._devices.device import Device
from penstock.alicat._devices.factory import client_for, open_device, port_key
from penstock.alicat._instrument.events import DeviceEvent, EventStream
from penstock.alicat._instrument.kinds import Capability, Medium
from penstock.alicat._instrument.reading import FieldSchema, Reading
from penstock.alicat._instrument.results import (
    DeviceResult,
    ErrorPolicy,
    MeasurementSet,
    SafeState,
    poll_in_turn,
)
from penstock.alicat.commands import Command, TableCommand
from penstock.alicat.errors import (
    AlicatError,
    AlicatUnsupportedCommandError,
    AlicatValidationError,
)
from penstock.alicat.modbus.client import ModbusClient
from penstock.alicat.modbus.device import ModbusFlowMeter
from penstock.alicat.modbus.opening import ModbusProtocol, modbus_client_for, open_modbus_device
from penstock.alicat.modbus.registers import MASS_FLOW_CONTROLLER_REGISTERS, RegisterMap
from penstock.alicat.registry import Statistic
from penstock.alicat.transport import SerialSettings, Transport

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from anyio.abc import ByteStream


Req = TypeVar("Req")
Resp = TypeVar("Resp")
T = TypeVar("T")


@dataclass(slots=True)
class _Bus:
    client: AlicatProtocolClient | ModbusClient
    owned: bool
    baudrate: int | None


@dataclass(slots=True)
class _Member:
    device: Device | ModbusFlowMeter
    bus: object
    """Key of its bus in the manager; devices opened elsewhere have the client's identity."""
    owned: bool
    end_subscription: Callable[[], None]
    rate_hz: float | None

    @property
    def revision(self) -> int:
        return self.device.session.revision if isinstance(self.device, Device) else 0


class AlicatManager:
    """Holds named devices and asks them together.

    Ports are polled in parallel, the devices of one port one after another, each as soon as the one
    before has answered or timed out. Devices added with the same port share it; it is closed with
    the last of them. Use it from one event loop only; it is not thread-safe::

        async with AlicatManager(error_policy=ErrorPolicy.RETURN) as manager:
            await manager.add("fuel", "/dev/ttyUSB0", unit_id="A")
            await manager.add("air", "/dev/ttyUSB0", unit_id="B")
            for name, result in (await manager.poll()).items():
                print(name, result.value.values if result.ok else result.error)

    It is a source for :func:`penstock.record.record`, whose files identify it by ``source_id``.
    ``waiting`` and ``client_for`` are for :mod:`penstock.alicat.sync`.
    """

    def __init__(
        self,
        *,
        error_policy: ErrorPolicy = ErrorPolicy.RAISE,
        source_id: str = "alicat",
        waiting: Waiting = ANYIO,
        client_for: Callable[..., Awaitable[tuple[AlicatProtocolClient, bool]]] = client_for,
    ) -> None:
        self._error_policy = error_policy
        self._source_id = source_id
        self._past_revisions = 0
        self._revision: int | None = 0
        self._subscribers: list[Callable[[str, DeviceEvent], None]] = []
        self._members: dict[str, _Member] = {}
        self._buses: dict[object, _Bus] = {}
        self._waiting = waiting
        self._client_for = client_for
        self._membership = BusScheduler(waiting)
        self._closed = False

    @property
    def error_policy(self) -> ErrorPolicy:
        """What a poll does with failures."""
        return self._error_policy

    @property
    def source_id(self) -> str:
        """Identifies this source in a recording."""
        return self._source_id

    @property
    def revision(self) -> int:
        """A number that grows when a device is added or removed, or its data frame changes."""
        # A recording looks at it after every poll.
        if self._revision is None:
            now = sum(member.revision for member in self._members.values())
            self._revision = self._past_revisions + now
        return self._revision

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
        device = self._member(name).device
        if not isinstance(device, Device):
            raise AlicatValidationError(f"{name!r} is a Modbus device; use get_modbus({name!r})")
        return device

    def get_modbus(self, name: str) -> ModbusFlowMeter:
        """The device with this name, which was added by :meth:`add_modbus`.

        Raises:
            AlicatValidationError: there is none, or it is asked by the text protocol.
        """
        device = self._member(name).device
        if isinstance(device, Device):
            raise AlicatValidationError(f"{name!r} is not a Modbus device; use get({name!r})")
        return device

    def poll_groups(self) -> tuple[tuple[str, ...], ...]:
        """Return the names by port.

        Devices of different groups can be polled without waiting for each other.
        """
        groups: dict[object, list[str]] = {}
        for name, member in self._members.items():
            groups.setdefault(member.bus, []).append(name)
        return tuple(tuple(names) for names in groups.values())

    def field_schemas(self) -> Mapping[str, tuple[FieldSchema, ...]]:
        """The fields of every device's readings, by name."""
        return {name: member.device.field_schema() for name, member in self._members.items()}

    def device_facts(self, name: str) -> Mapping[str, str]:
        """The facts that the instrument reported: its unit id, model, serial number and so on.

        Raises:
            AlicatValidationError: there is no such device.
        """
        device = self._member(name).device
        return device.info.facts() if isinstance(device, Device) else device.facts()

    def rates(self) -> Mapping[str, float]:
        """The polls a second of the devices that were added with a ``rate_hz`` of their own."""
        return {
            name: member.rate_hz
            for name, member in self._members.items()
            if member.rate_hz is not None
        }

    def utilisation(self, rate_hz: float = 0.0) -> Mapping[str, float]:
        """The share of each port's time that polling takes, by the names of the ports.

        Estimated from the baud rate and the length of the frames, at ``rate_hz`` polls a second of
        each device that was not added with a rate of its own. Above 1 the polls cannot all be
        made; above 0.7 commands wait noticeably. Ports whose baud rate is not known and Modbus
        lines are left out.
        """
        polls: dict[object, list[tuple[int, float]]] = {}
        clients: dict[object, AlicatProtocolClient] = {}
        for member in self._members.values():
            if isinstance(member.device, Device):
                characters = member.device.data_frame_format.characters
                rate = rate_hz if member.rate_hz is None else member.rate_hz
                polls.setdefault(member.bus, []).append((characters, rate))
                clients[member.bus] = member.device.client
        return {
            client.label: utilisation(client.transport.baudrate, polls[bus])
            for bus, client in clients.items()
            if client.transport.baudrate
        }

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
        safe_state: SafeState = SafeState.LEAVE,
        rate_hz: float | None = None,
    ) -> Device:
        """Open an instrument and hold it as ``name``.

        The manager closes a port that was passed as a path, an open stream or a transport; the
        caller closes a client or a device. ``rate_hz`` is the rate at which a recorder polls it, if
        that is not the recording's own. ``safe_state`` is the state of a controller after its
        removal. If opening fails, nothing is held, and a port opened for it is closed.

        Raises:
            AlicatValidationError: the name or the unit id on that port is taken, the manager is
                closed, the port is open with another baud rate, or ``rate_hz`` is not a rate.
            AlicatError: as for :func:`open_device`.
        """
        async with self._changing_members():
            self._check_addition(name, rate_hz)
            if isinstance(source, Device):
                self._hold(name, source, id(source.client), owned=False, rate_hz=rate_hz)
                return source
            unit_id = check_unit_id(unit_id)
            key = _bus_key(source)
            bus = self._buses.get(key)
            if bus is None:
                client, owned = await self._client_for(source, serial=serial, timeout=timeout)
                bus = _Bus(client, owned, client.transport.baudrate)
            else:
                self._check_shared(bus, key, unit_id, serial)
            shared = bus.client
            if not isinstance(shared, AlicatProtocolClient):
                raise _other_protocol(shared.label, "Modbus")
            async with self._opening_on(bus, key):
                device = await open_device(
                    shared,
                    unit_id=unit_id,
                    timeout=timeout,
                    model_hint=model_hint,
                    assume_capabilities=assume_capabilities,
                    assume_media=assume_media,
                    safe_state=safe_state,
                )
            self._hold(name, device, key, owned=True, rate_hz=rate_hz)
            return device

    async def add_modbus(
        self,
        name: str,
        source: ModbusFlowMeter | str | os.PathLike[str] | ByteStream | Transport | ModbusClient,
        *,
        unit: int = 1,
        protocol: ModbusProtocol | str = ModbusProtocol.RTU,
        serial: SerialSettings | None = None,
        timeout: float = 0.5,
        registers: RegisterMap = MASS_FLOW_CONTROLLER_REGISTERS,
        units: Mapping[Statistic | str, str] | None = None,
        assume_capabilities: Capability = Capability.NONE,
        assume_same_instrument: bool = False,
        rate_hz: float | None = None,
    ) -> ModbusFlowMeter:
        """Open an instrument over Modbus, and hold it as ``name``.

        It is polled with the others. :meth:`request` and :meth:`execute` are for the text protocol
        and fail for it. Devices added with the same port share it. The arguments are those of
        :func:`penstock.alicat.modbus.open_modbus_device`, and ``rate_hz`` that of :meth:`add`.

        Raises:
            AlicatValidationError: as for :meth:`add`, or the port is open for the text protocol.
            AlicatError: as for ``open_modbus_device``.
        """
        async with self._changing_members():
            self._check_addition(name, rate_hz)
            if isinstance(source, ModbusFlowMeter):
                self._hold(name, source, id(source.client), owned=False, rate_hz=rate_hz)
                return source
            key = _bus_key(source)
            bus = self._buses.get(key)
            if bus is None:
                client, owned = await modbus_client_for(source, protocol, serial, timeout)
                bus = _Bus(client, owned, client.baudrate)
            else:
                self._check_shared(bus, key, str(unit), serial)
            shared = bus.client
            if not isinstance(shared, ModbusClient):
                raise _other_protocol(shared.label, "the text protocol")
            async with self._opening_on(bus, key):
                device = await open_modbus_device(
                    shared,
                    unit=unit,
                    registers=registers,
                    units=units,
                    assume_capabilities=assume_capabilities,
                    assume_same_instrument=assume_same_instrument,
                )
            self._hold(name, device, key, owned=True, rate_hz=rate_hz)
            return device

    @asynccontextmanager
    async def _opening_on(self, bus: _Bus, key: object) -> AsyncGenerator[None, None]:
        """Hold the bus after the block. If the block fails, close a port that only it needed."""
        try:
            yield
        except BaseException:
            if bus.owned and not self._names_on(key):
                with self._waiting.scope(shield=True):
                    await bus.client.aclose()
            raise
        self._buses[key] = bus

    async def remove(self, name: str) -> None:
        """Remove a device, and close its port with the last device on it.

        Raises:
            AlicatValidationError: there is no such device.
        """
        async with self._changing_members():
            member = self._member(name)
            del self._members[name]
            self._past_revisions += member.revision + 1
            self._revision = None
            await self._release(member)

    async def close(self) -> None:
        """Remove all devices and close the ports. May be called more than once.

        Raises:
            ExceptionGroup: ports failed to close; all others are closed.
        """
        with self._waiting.scope(shield=True):
            async with self._changing_members():
                self._closed = True
                errors: list[Exception] = []
                for name in reversed(self.names):
                    member = self._members.pop(name)
                    self._past_revisions += member.revision + 1
                    self._revision = None
                    try:
                        await self._release(member)
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
        results: dict[str, DeviceResult[Reading]] = {}
        if names is not None and len(names) == 1:
            # As a recording asks, thousands of times a second; what poll_in_turn() does.
            name = names[0]
            device = self._member(name).device
            requested_ns, requested_unix_ns = monotonic_ns(), time_ns()
            try:
                results[name] = DeviceResult.of_reading(await device.poll())
                return results
            except AlicatError as error:
                results[name] = DeviceResult[Reading].failure(
                    error, requested_monotonic_ns=requested_ns, requested_unix_ns=requested_unix_ns
                )
            self._raise_failures(results, "devices failed to answer a poll")
            return results
        wanted = self.names if names is None else tuple(dict.fromkeys(names))
        by_bus: dict[object, list[tuple[str, Device | ModbusFlowMeter]]] = {}
        for name in wanted:
            member = self._member(name)
            by_bus.setdefault(member.bus, []).append((name, member.device))
        if len(by_bus) == 1:
            (devices,) = by_bus.values()
            await poll_in_turn(devices, results)
        else:
            await self._waiting.together(
                [partial(poll_in_turn, devices, results) for devices in by_bus.values()]
            )
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
        """Call ``callback`` with the device's name and the event, for each event of a device.

        The subscription covers the devices that are added later too. Returns a function that ends
        it. See :meth:`Session.subscribe`.
        """
        self._subscribers.append(callback)
        return lambda: self._subscribers.remove(callback)

    @asynccontextmanager
    async def events(self, *, buffer_size: int = 1024) -> AsyncGenerator[EventStream, None]:
        """The events of all devices as a stream, until the context ends.

        The stream never blocks a device: if more than ``buffer_size`` events wait, the oldest are
        dropped and counted in :attr:`EventStream.dropped`.
        """
        stream = EventStream(buffer_size)
        end = self.subscribe(lambda name, event: stream.put(replace(event, device=name)))
        try:
            yield stream
        finally:
            end()
            stream.close()

    async def _ask_each(
        self, names: Sequence[str], ask: Callable[[Device, str], Awaitable[T]]
    ) -> Mapping[str, DeviceResult[T]]:
        """Ask the devices of one bus one after another, and several buses concurrently."""
        wanted = tuple(dict.fromkeys(names))
        by_bus: dict[object, list[tuple[str, Device | ModbusFlowMeter]]] = {}
        for name in wanted:
            member = self._member(name)
            by_bus.setdefault(member.bus, []).append((name, member.device))
        results: dict[str, DeviceResult[T]] = {}

        async def ask_bus(devices: list[tuple[str, Device | ModbusFlowMeter]]) -> None:
            for name, device in devices:
                asked = monotonic_ns(), time_ns()
                try:
                    if not isinstance(device, Device):
                        raise AlicatUnsupportedCommandError(
                            f"{name!r} is a Modbus device, which has no commands of the text "
                            f"protocol; use get_modbus({name!r})"
                        )
                    value = await ask(device, name)
                except AlicatError as error:
                    results[name] = DeviceResult[T].failure(
                        error, requested_monotonic_ns=asked[0], requested_unix_ns=asked[1]
                    )
                else:
                    results[name] = DeviceResult(value, None, *asked, monotonic_ns(), time_ns())

        await self._waiting.together([partial(ask_bus, devices) for devices in by_bus.values()])
        self._raise_failures(results, "devices failed to carry out a command")
        return {name: results[name] for name in wanted}

    @asynccontextmanager
    async def _changing_members(self) -> AsyncGenerator[None, None]:
        if not self._membership.try_acquire(0):
            await self._membership.acquire(0)
        try:
            yield
        finally:
            self._membership.release()

    def _check_addition(self, name: str, rate_hz: float | None) -> None:
        if self._closed:
            raise AlicatValidationError("the manager is closed; create a new one")
        if name in self._members:
            raise AlicatValidationError(f"the name {name!r} is taken; choose another")
        if rate_hz is not None and not 0 < rate_hz < math.inf:
            raise AlicatValidationError(
                f"rate_hz must be a number of polls a second above 0, not {rate_hz!r}"
            )

    def _hold(
        self,
        name: str,
        device: Device | ModbusFlowMeter,
        bus: object,
        *,
        owned: bool,
        rate_hz: float | None,
    ) -> None:
        def pass_on(event: DeviceEvent) -> None:
            self._revision = None  # whatever changes a device's columns is an event
            for callback in tuple(self._subscribers):
                callback(name, event)

        end = device.subscribe(pass_on) if isinstance(device, Device) else _nothing
        self._members[name] = _Member(device, bus, owned, end, rate_hz)
        self._past_revisions += 1
        self._revision = None

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
            held = (
                f"the devices are {', '.join(self._members)}" if self._members else "add it first"
            )
            raise AlicatValidationError(f"no device is named {name!r}; {held}")
        return member

    def _names_on(self, key: object) -> dict[str, str]:
        """The names of a bus's devices that the manager owns, by unit id."""
        return {
            member.device.unit_id: name
            for name, member in self._members.items()
            if member.owned and member.bus == key
        }

    def _check_shared(
        self, bus: _Bus, key: object, unit_id: str, serial: SerialSettings | None
    ) -> None:
        held = self._names_on(key).get(unit_id)
        if held is not None:
            raise AlicatValidationError(
                f"unit {unit_id} on {bus.client.label} is already held as {held!r}"
            )
        if serial is not None and bus.baudrate not in (None, serial.baudrate):
            raise AlicatValidationError(
                f"{bus.client.label} is open at {bus.baudrate} baud, so unit {unit_id} cannot be "
                f"asked at {serial.baudrate}: set all instruments of a bus to one baud rate"
            )

    async def _release(self, member: _Member) -> None:
        member.end_subscription()
        if not member.owned:
            return
        bus = self._buses[member.bus]
        try:
            await member.device.close()
        finally:
            if isinstance(bus.client, AlicatProtocolClient):
                bus.client.forget_unit(member.device.unit_id)
            if not self._names_on(member.bus):
                del self._buses[member.bus]
                if bus.owned:
                    await bus.client.aclose()


def _nothing() -> None:
    """Ends the subscription of a Modbus device, which has no events."""


def _other_protocol(label: str, spoken: str) -> AlicatValidationError:
    return AlicatValidationError(
        f"{label} is open for {spoken}; an instrument with another protocol needs its own port"
    )


def _bus_key(source: object) -> object:
    return port_key(source) if isinstance(source, (str, os.PathLike)) else id(source)
