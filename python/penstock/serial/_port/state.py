"""What the two halves of a port share: the device, its state, and the mapping of errors."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import anyio
from anyio.lowlevel import checkpoint
from anyio.streams.file import FileStreamAttribute

from penstock.serial._devices.backend import SerialBackend
from penstock.serial._port.readiness import Readiness, native_reader, readiness_for
from penstock.serial._port.waiter import EventLoopWaiter, Waiter
from penstock.serial._tty.device import TtyDevice
from penstock.serial._tty.driver_modes import software_mode
from penstock.serial._values import PortInfo, SerialCapabilities, SerialStreamAttribute
from penstock.serial.config import SerialConfig
from penstock.serial.exceptions import (
    SerialClosedError,
    SerialDisconnectedError,
    closed_error,
    disconnected_error,
    errno_to_exception,
)

if TYPE_CHECKING:
    from penstock._core import SerialReader


T = TypeVar("T")


def _refuse(path: str, *_: object) -> NoReturn:
    raise closed_error(path)


class PortFacts:
    """What a port of either kind reports without asking the device."""

    def __init__(self, device: SerialBackend, port_info: PortInfo | None) -> None:
        self._device = device
        # What the system knows of it, or how to find that out when somebody asks.
        self._description: PortInfo | Callable[[], PortInfo | None] | None = port_info

    @property
    def path(self) -> str:
        """The path as it was given."""
        return self._device.path

    @property
    def config(self) -> SerialConfig:
        """The settings in force, as they were requested."""
        return self._device.config

    @property
    def actual_baudrate(self) -> int:
        """The rate that the driver reports; it may differ from the requested one by rounding."""
        return self._device.actual_baudrate

    @property
    def capabilities(self) -> SerialCapabilities:
        """What the driver supports. The first look asks it, and may take as long as it takes."""
        return self._device.capabilities

    @property
    def port_info(self) -> PortInfo | None:
        """What the system knows of the device, or None (a pty, for one).

        The first look reads it. If the device is gone by then, it is None.
        """
        description = self._description
        if callable(description):
            description = self._description = description()
        return description


class PortState(PortFacts):
    """The state of an open port, and the one place that maps its errors."""

    _marking = False

    def __init__(self, device: SerialBackend, port_info: PortInfo | None) -> None:
        super().__init__(device, port_info)
        self._closed = False
        self._gone = False
        self._receiving = False
        self._sending = False
        # Bytes that no receiver took, as the driver delivered them. The next receive gets them.
        self._kept = b""
        # How often the input was discarded. Bytes read before a reset are not kept after it.
        self._resets = 0
        self._answer_is_due = False
        self.bind_device()
        self._follow(device.config)
        self._waiter = self._make_waiter()
        self._readiness: Readiness | None = None
        self._reader: SerialReader | None = None
        self._yield: Callable[[], Awaitable[None]] = self._first_yield

    def bind_device(self) -> None:
        # Once, not in each call: this saves an attribute look-up for every byte.
        self._read = self._device.read
        self._readinto = self._device.readinto
        self._write = self._device.write
        self._count_waiting: Callable[[], int] = self._device.input_waiting

    @property
    def is_open(self) -> bool:
        """False once the port was closed or the device was found to be gone."""
        return not (self._closed or self._gone)

    @property
    def extra_attributes(self) -> Mapping[Any, Callable[[], Any]]:
        attributes: dict[Any, Callable[[], Any]] = {
            FileStreamAttribute.path: lambda: Path(self.path),
            SerialStreamAttribute.capabilities: lambda: self.capabilities,
            SerialStreamAttribute.config: lambda: self.config,
        }
        if self.port_info is not None:
            attributes[SerialStreamAttribute.port_info] = lambda: self.port_info
        if not self._closed:
            attributes[FileStreamAttribute.fileno] = self._device.fileno
        return attributes

    def _follow(self, config: SerialConfig) -> None:
        self._marking = config.mark_errors
        self._switched_by = software_mode(config)

    def _waiting_room(self) -> Readiness:
        readiness = self._readiness
        if readiness is None or not readiness.is_current():
            fd = self._device.fileno()
            readiness = self._readiness = readiness_for(fd)
            self._yield = readiness.checkpoint
            if self._device.is_plain_descriptor:
                self._reader = reader = native_reader(fd)
                # A socket's count also tells that the connection has ended.
                if reader is not None and isinstance(self._device, TtyDevice):
                    self._count_waiting = reader.input_waiting
        return readiness

    def expect_answer(self) -> None:
        """Let the next receive wait before it reads: the answer to a request is still to come.

        A read that finds nothing costs more than a poll, because it raises an exception. A device
        that keeps bytes of its own is read first, because a poll would not show them.
        """
        self._answer_is_due = self._device.is_plain_descriptor

    def take_expectation(self) -> bool:
        """Return whether the receive that begins waits first: once for each request."""
        due, self._answer_is_due = self._answer_is_due, False
        return due and not self._closed

    def _make_waiter(self) -> Waiter:
        return EventLoopWaiter()

    async def _first_yield(self) -> None:
        await self._waiting_room().checkpoint()

    async def _in_worker(self, function: Callable[..., T], *args: object) -> T:
        self._check_usable()
        with self._noticing_disconnect():
            return await self._waiter.call(function, *args)

    async def _change(
        self,
        function: Callable[..., T],
        *args: object,
        undo: Callable[[T], object] | None = None,
    ) -> T:
        self._check_usable()
        with self._noticing_disconnect():
            return await self._waiter.call_to_end(function, *args, undo=undo)

    async def _undo_change(self, function: Callable[..., T], *args: object) -> T:
        self._check_usable()
        with self._noticing_disconnect():
            return await self._waiter.call_shielded(function, *args)

    @contextmanager
    def _sole_sender(self) -> Iterator[None]:
        if self._sending:
            raise anyio.BusyResourceError("sending to")
        self._sending = True
        try:
            yield
        finally:
            self._sending = False

    @contextmanager
    def _noticing_disconnect(self) -> Iterator[None]:
        try:
            yield
        except (OSError, anyio.ClosedResourceError) as exc:
            if self._closed and not isinstance(exc, SerialClosedError):
                self._fail_closed(exc)
            if isinstance(exc, SerialDisconnectedError):
                self._gone = True
            raise

    def _check_usable(self) -> None:
        if self._closed:
            raise closed_error(self.path)
        if self._gone:
            raise disconnected_error(self.path)

    def _refuse_further_calls(self) -> None:
        # Functions that do not refer to the port: a closed port is freed with its last reference,
        # not by the garbage collector.
        self._read = self._readinto = self._write = partial(_refuse, self.path)
        self._yield = checkpoint

    def _fail(self, exc: OSError) -> NoReturn:
        if self._closed:
            self._fail_closed(exc)
        error = errno_to_exception(exc, context="io", path=self.path)
        if isinstance(error, SerialDisconnectedError):
            self._gone = True
        if error is exc:
            raise exc
        raise error from exc

    def _fail_closed(self, exc: BaseException) -> NoReturn:
        if isinstance(exc, SerialClosedError):
            raise exc
        raise closed_error(self.path) from exc

    def _fail_disconnected(self) -> NoReturn:
        self._gone = True
        raise disconnected_error(self.path)
