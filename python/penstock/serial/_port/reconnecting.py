"""A port that reconnects: the same device is opened again after it was unplugged."""

from __future__ import annotations

import errno
import math
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Literal, Self, TypeVar

import anyio
from anyio.abc import ByteStream, TaskGroup
from anyio.streams.memory import MemoryObjectSendStream

from penstock.serial._port.port import SerialPort, open_serial_port
from penstock.serial._values import CommEvent, ControlLines, ErrorCounters, ModemLines, PortInfo
from penstock.serial._watching import watch_serial_ports
from penstock.serial.config import SerialConfig
from penstock.serial.discovery import canonical_port_name, find_serial_port, list_serial_ports
from penstock.serial.exceptions import (
    ConfigurationError,
    PortNotFoundError,
    SerialClosedError,
    SerialDisconnectedError,
    SerialError,
    closed_error,
    disconnected_error,
)

T = TypeVar("T")

_CLOSE_S = 1.0


@dataclass(kw_only=True)
class Backoff:
    """Exponential back-off: the delays between attempts, in seconds.

    Each delay is twice the last one, up to ``longest``. It is changed by a random part of itself,
    up to ``jitter`` either way, so that programs that lost the same hub do not retry together.
    """

    first: float = 0.05
    longest: float = 5.0
    jitter: float = 0.25
    uniform: Callable[[float, float], float] = field(default=random.uniform, repr=False)
    _attempts: int = field(default=0, init=False, repr=False)

    def __post_init__(self) -> None:
        if not 0 < self.first <= self.longest < math.inf:
            raise ValueError(
                f"first and longest must be seconds above 0 in this order, not {self.first} and "
                f"{self.longest}"
            )
        if not 0 <= self.jitter < 1:
            raise ValueError(f"jitter must be from 0 up to, not including, 1, not {self.jitter}")

    def next_delay(self) -> float:
        """Count an attempt, and return the seconds to wait before the next one."""
        # 2.0 ** 1100 would overflow; the cap is reached long before.
        delay = min(self.first * 2.0 ** min(self._attempts, 64), self.longest)
        self._attempts += 1
        return min(delay * self.uniform(1 - self.jitter, 1 + self.jitter), self.longest)

    def reset(self) -> None:
        """Begin again with the shortest delay, after a success."""
        self._attempts = 0


@dataclass(frozen=True, slots=True)
class ConnectionEvent:
    """A change of the connection.

    Attributes:
        kind: ``connected``: the port is open. ``disconnected``: it was lost. ``failed``: an attempt
            to open it did not succeed.
        path: The path of the port.
        error: Why it was lost, or why the attempt failed.
        delay: Seconds until the next attempt, which begins earlier if a port is plugged in. None:
            there is no next attempt.
    """

    kind: Literal["connected", "disconnected", "failed"]
    path: str
    error: SerialError | None = None
    delay: float | None = None


class ReconnectingSerialPort(ByteStream):
    """A byte stream over a device that may be unplugged and plugged in again.

    Use it as an async context manager: inside, a task keeps the port open. The device is:

    * with ``path`` alone, the one at a path, a link or a URL. Once a USB device with a serial
      number has been opened there, only that device is opened again, at whatever path it appears.
    * with ``vid``, ``pid`` or ``serial_number``, the first port that has them.

    While the device is absent, a receive waits for it. With ``receiving="fail"``, a receive raises
    :class:`SerialDisconnectedError` once for each loss, so that the program can drop an incomplete
    message. A send and every other call wait too, or raise :class:`SerialDisconnectedError` with
    ``sending="fail"``. A send that the loss interrupts always raises it, because nobody knows how
    much has arrived. Every call raises :class:`ConfigurationError` for a name or URL that can never
    be opened. Changed settings and control lines are applied again after each reconnection.

    Belongs to one event loop and is not thread-safe. As on a port, one task may receive while
    another sends.
    """

    def __init__(
        self,
        path: str | None = None,
        config: SerialConfig | None = None,
        *,
        vid: int | None = None,
        pid: int | None = None,
        serial_number: str | None = None,
        sending: Literal["wait", "fail"] = "wait",
        receiving: Literal["wait", "fail"] = "wait",
        backoff: Backoff | None = None,
    ) -> None:
        if path is None and vid is None and pid is None and serial_number is None:
            raise ValueError("name the device: give a path, or vid, pid or serial_number")
        for name, value in (("sending", sending), ("receiving", receiving)):
            if value not in ("wait", "fail"):
                raise ValueError(f"{name} must be 'wait' or 'fail', not {value!r}")
        self._path = path
        self._config = SerialConfig() if config is None else config
        self._wanted = {"vid": vid, "pid": pid, "serial_number": serial_number}
        self._identity: PortInfo | None = None
        self._sending_waits = sending == "wait"
        self._receiving_waits = receiving == "wait"
        self._backoff = Backoff() if backoff is None else backoff
        self._port: SerialPort | None = None
        self._up = anyio.Event()
        self._lost = anyio.Event()
        self._plugged_in = anyio.Event()
        self._loss_reported = True
        self._error: SerialError | None = None
        self._permanent_error: ConfigurationError | None = None
        self._listeners: list[MemoryObjectSendStream[ConnectionEvent]] = []
        self._tasks: TaskGroup | None = None
        # Not the group's own scope, which also contains the block of 'async with'.
        self._life = anyio.CancelScope()
        self._ended = anyio.Event()
        self._closed = False

    # ---- life ----------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        self._check_not_closed()
        if self._tasks is not None:
            raise RuntimeError("a reconnecting port can be entered only once")
        self._tasks = anyio.create_task_group()
        await self._tasks.__aenter__()
        self._tasks.start_soon(self._run)
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._tasks is not None
        try:
            await self.aclose()
        finally:
            # Without the block's exception, which must not be wrapped in a group.
            await self._tasks.__aexit__(None, None, None)

    async def aclose(self) -> None:
        """Close the port and stop reconnecting. Waiting tasks get :class:`SerialClosedError`.

        Any task of the event loop may call it.
        """
        if not self._closed:
            self._closed = True
            self._up.set()
            for listener in self._listeners:
                listener.close()
            try:
                if self._port is not None:
                    await self._port.aclose()
            finally:
                self._life.cancel()
        if self._tasks is not None:
            await self._ended.wait()

    @property
    def is_connected(self) -> bool:
        """Whether the device is open, as far as is known."""
        return self._port is not None and self._port.is_open

    @property
    def path(self) -> str:
        """The path of the connected device; otherwise what was requested."""
        if self._port is not None:
            return self._port.path
        if self._path is not None:
            return self._path
        return ", ".join(f"{k}={v}" for k, v in self._wanted.items() if v is not None)

    @property
    def config(self) -> SerialConfig:
        """The settings in force, or those that the next connection gets."""
        return self._config

    @property
    def port(self) -> SerialPort | None:
        """The port while the device is connected; a new one after each reconnection."""
        return self._port

    async def wait_connected(self) -> None:
        """Return once the device is open."""
        await self._current(wait=True)

    async def events(self) -> AsyncIterator[ConnectionEvent]:
        """Yield the changes of the connection from now on, until the port is closed.

        Any number of tasks may listen; each gets every event.
        """
        send, receive = anyio.create_memory_object_stream[ConnectionEvent](math.inf)
        self._check_not_closed()
        self._listeners.append(send)
        with send, receive:
            try:
                async for event in receive:
                    yield event
            finally:
                if send in self._listeners:
                    self._listeners.remove(send)

    # ---- bytes ---------------------------------------------------------------------------------

    async def receive(self, max_bytes: int = 65_536) -> bytes:
        """As :meth:`SerialPort.receive`, from one connection after another."""
        return await self._receiving(lambda port: port.receive(max_bytes))

    async def receive_into(self, buffer: bytearray | memoryview) -> int:
        """As :meth:`SerialPort.receive_into`."""
        return await self._receiving(lambda port: port.receive_into(buffer))

    async def receive_available(self, *, limit: int | None = None) -> bytes:
        """As :meth:`SerialPort.receive_available`."""
        return await self._receiving(lambda port: port.receive_available(limit=limit))

    async def send(self, item: bytes) -> None:
        """As :meth:`SerialPort.send`; see the class for what a loss does."""
        await self._using(lambda port: port.send(item))

    async def send_eof(self) -> None:
        """As :meth:`SerialPort.send_eof`: wait until the output buffer is empty."""
        await self._using(lambda port: port.send_eof())

    async def drain(self) -> None:
        """As :meth:`SerialPort.drain`; raises if the connection is lost, and its bytes with it."""
        await self._using(lambda port: port.drain())

    async def drain_exact(self) -> None:
        """As :meth:`SerialPort.drain_exact`; raises if the connection is lost."""
        await self._using(lambda port: port.drain_exact())

    # ---- settings and lines --------------------------------------------------------------------

    async def configure(self, config: SerialConfig) -> None:
        """As :meth:`SerialPort.configure`; also for later connections."""
        await self._using(lambda port: port.configure(config))
        self._config = config.with_changes(
            initial_rts=self._config.initial_rts, initial_dtr=self._config.initial_dtr
        )

    async def set_control_lines(self, *, rts: bool | None = None, dtr: bool | None = None) -> None:
        """As :meth:`SerialPort.set_control_lines`; also for later connections."""
        await self._using(lambda port: port.set_control_lines(rts=rts, dtr=dtr))
        if rts is not None:
            self._config = self._config.with_changes(initial_rts=rts)
        if dtr is not None:
            self._config = self._config.with_changes(initial_dtr=dtr)

    async def control_lines(self) -> ControlLines:
        """As :meth:`SerialPort.control_lines`."""
        return await self._using(lambda port: port.control_lines())

    async def modem_lines(self) -> ModemLines:
        """As :meth:`SerialPort.modem_lines`."""
        return await self._using(lambda port: port.modem_lines())

    async def wait_modem_event(
        self, *, cts: bool = True, dsr: bool = True, ri: bool = True, cd: bool = True
    ) -> CommEvent:
        """As :meth:`SerialPort.wait_modem_event`; raises if the connection is lost."""
        return await self._using(lambda port: port.wait_modem_event(cts=cts, dsr=dsr, ri=ri, cd=cd))

    async def error_counters(self) -> ErrorCounters:
        """As :meth:`SerialPort.error_counters`: the driver's, which may restart at 0."""
        return await self._using(lambda port: port.error_counters())

    async def send_break(self, duration: float = 0.25) -> None:
        """As :meth:`SerialPort.send_break`; ends and raises if the connection is lost."""
        await self._using(lambda port: port.send_break(duration))

    async def reset_input_buffer(self) -> None:
        """As :meth:`SerialPort.reset_input_buffer`."""
        await self._using(lambda port: port.reset_input_buffer())

    async def reset_output_buffer(self) -> None:
        """As :meth:`SerialPort.reset_output_buffer`."""
        await self._using(lambda port: port.reset_output_buffer())

    # ---- details -------------------------------------------------------------------------------

    async def _receiving(self, call: Callable[[SerialPort], Awaitable[T]]) -> T:
        while True:
            if not self._receiving_waits and not self._loss_reported:
                self._loss_reported = True
                raise self._loss()
            port = await self._current(wait=True)
            try:
                with self._noticing_loss(port):
                    return await call(port)
            except SerialDisconnectedError:
                self._check_not_closed()
                if not self._receiving_waits:
                    self._loss_reported = True
                    raise

    async def _using(self, call: Callable[[SerialPort], Awaitable[T]]) -> T:
        port = await self._current(wait=self._sending_waits)
        with self._noticing_loss(port):
            return await call(port)

    async def _current(self, *, wait: bool) -> SerialPort:
        while True:
            self._check_not_closed()
            if self._tasks is None:
                raise RuntimeError("a reconnecting port is used inside 'async with'")
            if self._permanent_error is not None:
                raise self._permanent_error
            port = self._port
            if port is not None and port.is_open:
                return port
            if port is not None:
                self._lose(port, None)
            if not wait:
                raise self._loss()
            await self._up.wait()

    def _loss(self) -> SerialDisconnectedError:
        error = disconnected_error(self.path)
        error.__cause__ = self._error
        return error

    @contextmanager
    def _noticing_loss(self, port: SerialPort) -> Iterator[None]:
        try:
            yield
        except SerialDisconnectedError as exc:
            self._lose(port, exc)
            raise
        except SerialClosedError as exc:
            # Closed by the task that keeps it open, which noticed the loss first.
            self._check_not_closed()
            raise disconnected_error(port.path) from exc

    def _lose(self, port: SerialPort, error: SerialError | None) -> None:
        if port is self._port and not self._closed:
            self._port = None
            self._error = error
            self._up = anyio.Event()
            self._loss_reported = False
            self._lost.set()
            self._tell(ConnectionEvent("disconnected", port.path, error))

    def _check_not_closed(self) -> None:
        if self._closed:
            raise closed_error(self.path)

    def _tell(self, event: ConnectionEvent) -> None:
        if not self._closed:
            for listener in self._listeners:
                listener.send_nowait(event)

    async def _run(self) -> None:
        try:
            with self._life:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(self._keep)
                    tasks.start_soon(self._watch)
        finally:
            self._ended.set()

    async def _keep(self) -> None:
        self._backoff.reset()
        connected_before = False
        while True:
            try:
                port = await self._connect(connected_before=connected_before)
            except ConfigurationError as exc:
                # No later attempt can succeed: every use of the port raises it.
                self._permanent_error = exc
                self._up.set()
                self._tell(ConnectionEvent("failed", self.path, exc))
                return
            connected_before = True
            since = anyio.current_time()
            self._plugged_in = anyio.Event()
            self._lost = anyio.Event()
            self._port = port
            self._loss_reported = True
            self._up.set()
            self._tell(ConnectionEvent("connected", port.path))
            try:
                await self._lost.wait()
            finally:
                # The device is gone, or reported to be, so there is no wait for its output.
                with anyio.move_on_after(_CLOSE_S, shield=True):
                    await port.aclose()
            if anyio.current_time() - since >= self._backoff.longest:
                self._backoff.reset()
            else:
                # As after a failed attempt. Otherwise a server that closes at once, or a loose
                # cable, would be tried without a pause.
                await self._pause(self._backoff.next_delay())

    async def _pause(self, delay: float) -> None:
        with anyio.move_on_after(delay):
            await self._plugged_in.wait()

    async def _connect(self, *, connected_before: bool) -> SerialPort:
        while True:
            self._plugged_in = anyio.Event()
            try:
                port = await open_serial_port(await self._find(), self._config)
            except SerialError as exc:
                if isinstance(exc, ConfigurationError) and not connected_before:
                    raise
                self._error = exc
                delay = self._backoff.next_delay()
                self._tell(ConnectionEvent("failed", self.path, exc, delay))
                await self._pause(delay)
                continue
            if self._identity is None and port.port_info is not None:
                self._identity = port.port_info
            return port

    async def _find(self) -> str:
        """Return the device's present path; raises :class:`PortNotFoundError` if it has none."""
        known = self._identity
        if known is not None and known.serial_number is not None:
            for port in await list_serial_ports():
                if _is_same_device(port, known):
                    return self._as_requested(port.device)
            raise _absent(f"{known.description} with serial number {known.serial_number}")
        if any(value is not None for value in self._wanted.values()):
            found = await find_serial_port(device=self._path, **self._wanted)  # type: ignore[arg-type]
            if found is None:
                raise _absent(f"a port with {self.path}")
            return found.device
        assert self._path is not None
        if known is not None:
            here = await find_serial_port(device=self._path)
            if here is not None and (here.vid, here.pid) != (known.vid, known.pid):
                raise _absent(f"{known.description} (at {self._path} is {here.description} now)")
        return self._path

    def _as_requested(self, device: str) -> str:
        # The user's name for it, if that is a link to the device.
        path = self._path
        same = path is not None and canonical_port_name(path) == canonical_port_name(device)
        return path if same and path is not None else device

    async def _watch(self) -> None:
        async with aclosing(watch_serial_ports()) as events:
            async for event in events:
                port = self._port
                if event.action == "added":
                    self._plugged_in.set()
                elif port is not None and canonical_port_name(port.path) == event.port.device:
                    self._lose(port, disconnected_error(port.path))


def _is_same_device(port: PortInfo, known: PortInfo) -> bool:
    fields = ("vid", "pid", "serial_number", "interface")
    return all(getattr(port, name) == getattr(known, name) for name in fields)


def _absent(what: str) -> PortNotFoundError:
    return PortNotFoundError(errno.ENODEV, f"{what} is not plugged in")
