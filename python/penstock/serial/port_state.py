"""What the two halves of a port share: the device, who uses it, and what became of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import anyio
import anyio.to_thread
from anyio.streams.file import FileStreamAttribute

from penstock.serial.attributes import SerialStreamAttribute
from penstock.serial.backend import SerialBackend
from penstock.serial.config import SerialConfig
from penstock.serial.exceptions import (
    SerialClosedError,
    SerialDisconnectedError,
    closed_error,
    disconnected_error,
    errno_to_exception,
)
from penstock.serial.pending_ioctl import PendingIoctl
from penstock.serial.port_facts import PortFacts
from penstock.serial.portinfo import PortInfo
from penstock.serial.readiness import Readiness, native_reader, readiness_for
from penstock.serial.rs485 import software_mode
from penstock.serial.worker_calls import run_to_end, run_undeterred

if TYPE_CHECKING:
    from penstock._core import SerialReader

__all__ = ["PortState"]


T = TypeVar("T")


class PortState(PortFacts):
    """The state of an open port, and the one way in which its errors are told."""

    _marking = False

    def __init__(self, device: SerialBackend, port_info: PortInfo | None) -> None:
        super().__init__(device, port_info)
        self._closed = False
        self._gone = False
        self._receiving = False
        self._sending = False
        # Bytes as the driver gave them that a receiver did not take: the next receive gets them.
        self._kept = b""
        self.bind_device()
        self._follow(device.config)
        self._pending: set[PendingIoctl] = set()
        self._readiness: Readiness | None = None
        self._reader: SerialReader | None = None
        self._yield: Callable[[], Awaitable[None]] = self._first_yield

    def bind_device(self) -> None:
        # Once, not each time: an attribute fewer to look up for each byte that comes in.
        self._read = self._device.read
        self._readinto = self._device.readinto
        self._write = self._device.write

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
        if self._port_info is not None:
            attributes[SerialStreamAttribute.port_info] = lambda: self._port_info
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
                self._reader = native_reader(fd)
        return readiness

    async def _first_yield(self) -> None:
        await self._waiting_room().checkpoint()

    async def _until_done(self, pending: PendingIoctl) -> None:
        self._pending.add(pending)
        try:
            await anyio.wait_readable(pending.fileno())
            self._finish_ioctl(pending)
        except anyio.ClosedResourceError as exc:
            self._fail_closed(exc)
        finally:
            self._pending.discard(pending)

    def _finish_ioctl(self, pending: PendingIoctl) -> None:
        """Raise what an ioctl that has returned failed with, as a SerialError."""
        try:
            pending.finish()
        except OSError as exc:
            raise errno_to_exception(exc, context="ioctl", path=self.path) from exc

    async def _in_worker(self, function: Callable[..., T], *args: object) -> T:
        self._check_usable()
        with self._noticing_disconnect():
            return await anyio.to_thread.run_sync(function, *args)

    async def _change(
        self,
        function: Callable[..., T],
        *args: object,
        undo: Callable[[T], object] | None = None,
    ) -> T:
        self._check_usable()
        with self._noticing_disconnect():
            return await run_to_end(function, *args, undo=undo)

    async def _undo_change(self, function: Callable[..., T], *args: object) -> T:
        self._check_usable()
        with self._noticing_disconnect():
            return await run_undeterred(function, *args)

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
        except OSError as exc:
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

    def _refuse(self, *_: object) -> NoReturn:
        raise closed_error(self.path)

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
