"""The serial port as an AnyIO byte stream."""

from __future__ import annotations

import errno
import warnings
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import anyio
import anyio.to_thread
from anyio.abc import ByteStream
from anyio.lowlevel import checkpoint, checkpoint_if_cancelled
from anyio.streams.file import FileStreamAttribute

from penstock.serial.attributes import SerialStreamAttribute
from penstock.serial.backend import SerialBackend
from penstock.serial.buffers import BytesLike
from penstock.serial.capabilities import SerialCapabilities
from penstock.serial.config import SerialConfig
from penstock.serial.drain import until_buffer_is_empty, until_on_the_wire
from penstock.serial.exceptions import (
    ConfigurationError,
    SerialClosedError,
    SerialDisconnectedError,
    SerialError,
    closed_error,
    disconnected_error,
    errno_to_exception,
)
from penstock.serial.lines import ControlLines, ModemLines
from penstock.serial.portinfo import PortInfo
from penstock.serial.readiness import Readiness, readiness_for

__all__ = ["SerialPort"]

T = TypeVar("T")

_LARGEST_READ = 65_536  # a tty hands out 4 KiB at a time; a larger buffer would only be memory
_CLOSE_LINGER_S = 30.0  # what the kernel itself waits for unsent output (closing_wait)


class SerialPort(ByteStream):
    """An open serial port; get one from :func:`open_serial_port`.

    A port belongs to the event loop in which it is used and is not thread-safe. One task may
    receive while another sends; a second receiver or sender gets
    :class:`anyio.BusyResourceError`. Every method raises :class:`SerialClosedError` once the
    port is closed and :class:`SerialDisconnectedError` once the device is gone; all errors are
    :class:`SerialError`.
    """

    def __init__(
        self, backend: SerialBackend, config: SerialConfig, *, port_info: PortInfo | None = None
    ) -> None:
        """Wrap an open *backend*, already configured with *config*."""
        self._device = backend
        self._device.config = config
        self._port_info = port_info
        self._closed = False
        self._gone = False
        self._closing_done: anyio.Event | None = None
        self._break_interrupt: anyio.Event | None = None
        self._receiving = False
        self._sending = False
        # Bytes that were read when their receiver was cancelled: the next receive gets them.
        self._kept = b""
        # Bound once: an attribute fewer to look up for each byte that comes in.
        self._read = backend.read
        self._readinto = backend.readinto
        self._write = backend.write
        self._readiness: Readiness | None = None
        self._yield: Callable[[], Awaitable[None]] = self._first_yield

    @classmethod
    async def open(cls, path: str, /, **config_fields: Any) -> SerialPort:
        """Open *path* with ``SerialConfig(**config_fields)``; see :func:`open_serial_port`."""
        from penstock.serial.opening import open_serial_port

        return await open_serial_port(path, SerialConfig(**config_fields))

    @property
    def path(self) -> str:
        """The path as it was given."""
        return self._device.path

    @property
    def is_open(self) -> bool:
        """False once the port was closed or the device was found to be gone."""
        return not (self._closed or self._gone)

    @property
    def config(self) -> SerialConfig:
        """The settings in force, as they were asked for."""
        return self._device.config

    @property
    def actual_baudrate(self) -> int:
        """The rate that the driver reports, which may differ from the asked one by rounding."""
        return self._device.actual_baudrate

    @property
    def capabilities(self) -> SerialCapabilities:
        return self._device.capabilities

    @property
    def port_info(self) -> PortInfo | None:
        """What the system knows of the device, or None (a pty, for one)."""
        return self._port_info

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

    # ---- receiving -------------------------------------------------------------------------

    async def receive(self, max_bytes: int = _LARGEST_READ) -> bytes:
        """Return the bytes that are there, 1 to *max_bytes*; wait for the first one.

        Never returns ``b""``: a port has no end of stream, a device that goes away raises
        :class:`SerialDisconnectedError`. Cancelling loses no byte.
        """
        if max_bytes < 1:
            raise ValueError(f"max_bytes must be at least 1, not {max_bytes}")
        if self._receiving:
            raise anyio.BusyResourceError("receiving from")
        self._receiving = True
        try:
            data: bytes | None
            if self._kept:
                data = self._take_kept(max_bytes)
            else:
                size = max_bytes if max_bytes < _LARGEST_READ else _LARGEST_READ
                # The system call first: when data waits, it is the only one.
                try:
                    data = self._read(size)
                except BlockingIOError:
                    data = None  # waiting in here would chain every later error to this one
                except OSError as exc:
                    self._fail(exc)
                if data is None:
                    return await self._park(partial(self._read, size), self._keep)
                if not data:
                    self._fail_disconnected()
            try:
                await self._yield()
            except BaseException:
                self._kept = data + self._kept
                raise
            return data
        finally:
            self._receiving = False

    async def receive_into(self, buffer: bytearray | memoryview) -> int:
        """Receive into *buffer* and return the count, 1 to its length; else as :meth:`receive`.

        After a cancellation the buffer's content is unspecified; the bytes are not lost.
        Raises ValueError for an empty buffer, TypeError for a read-only or a strided one.
        """
        view = _writable_bytes(buffer)
        if self._receiving:
            raise anyio.BusyResourceError("receiving from")
        self._receiving = True
        try:
            if self._kept:
                data = self._take_kept(len(view))
                count = len(data)
                view[:count] = data
            else:
                count = -1
                try:
                    count = self._readinto(view)
                except BlockingIOError:
                    pass
                except OSError as exc:
                    self._fail(exc)
                if count < 0:
                    return await self._park(
                        partial(self._readinto, view), lambda n: self._keep(bytes(view[:n]))
                    )
                if not count:
                    self._fail_disconnected()
            try:
                await self._yield()
            except BaseException:
                self._kept = bytes(view[:count]) + self._kept
                raise
            return count
        finally:
            self._receiving = False

    async def receive_available(self, *, limit: int | None = None) -> bytes:
        """Return what is there in one read, at most *limit* bytes; wait for the first one.

        Without *limit*, up to ``config.read_chunk_size``; the kernel hands out 4 KiB at a time.
        """
        if limit is not None and limit < 1:
            raise ValueError(f"limit must be at least 1 or None, not {limit}")
        chunk = self._device.config.read_chunk_size
        size = chunk if limit is None else min(limit, chunk)
        if not self._kept or self._receiving:
            return await self.receive(size)
        kept = self._take_kept(size)
        try:
            rest = self._read(size - len(kept)) if len(kept) < size else b""
        except OSError:
            rest = b""  # what was kept comes first; the next receive meets the error again
        self._kept = kept + rest + self._kept
        return await self.receive(size)

    async def _park(self, attempt: Callable[[], T], keep: Callable[[T], None]) -> T:
        try:
            result = await self._waiting_room().read(attempt, keep)
        except anyio.ClosedResourceError as exc:
            self._fail_closed(exc)
        except OSError as exc:
            self._fail(exc)
        if not result:
            self._fail_disconnected()
        return result

    def _keep(self, data: bytes) -> None:
        self._kept += data

    def _take_kept(self, size: int) -> bytes:
        data, self._kept = self._kept[:size], self._kept[size:]
        return data

    # ---- sending ---------------------------------------------------------------------------

    async def send(self, item: bytes) -> None:
        """Hand all of *item* to the driver; returns before the last bit is on the wire.

        Cancelled before the call, it writes nothing; cancelled while it waits for room, an
        unknown part has been written.
        """
        if type(item) is not bytes:
            item = _as_bytes(item)
        if self._sending:
            raise anyio.BusyResourceError("sending to")
        self._sending = True
        try:
            await checkpoint_if_cancelled()
            if not item:
                self._check_usable()
                await self._yield()
                return
            try:
                sent = self._write(item)
            except BlockingIOError:
                sent = 0
            except OSError as exc:
                self._fail(exc)
            if sent == len(item):
                await self._yield()
            else:
                await self._park_sender(memoryview(item)[sent:])
        finally:
            self._sending = False

    async def send_buffer(self, data: BytesLike) -> None:
        """Send any bytes-like object: as :meth:`send`. Strided views are copied first."""
        await self.send(_as_bytes(data))

    async def send_eof(self) -> None:
        """Wait until the output buffer is empty. A serial line has no end to tell the peer."""
        if not self._closed:
            await self.drain()

    async def _park_sender(self, rest: memoryview) -> None:
        try:
            await self._waiting_room().write(self._write, rest)
        except anyio.ClosedResourceError as exc:
            self._fail_closed(exc)
        except OSError as exc:
            self._fail(exc)

    async def drain(self) -> None:
        """Wait until the driver's buffer is empty; the chip's FIFO may still hold bytes."""
        with self._sole_sender():
            self._check_usable()
            with self._noticing_disconnect():
                await until_buffer_is_empty(self.output_waiting, self.config)

    async def drain_exact(self) -> None:
        """Wait until the last bit is on the wire. Can be cancelled at any time."""
        with self._sole_sender():
            self._check_usable()
            with self._noticing_disconnect():
                await until_on_the_wire(self.output_waiting, self._device)

    async def send_break(self, duration: float = 0.25) -> None:
        """Hold the line in the break state for *duration* seconds.

        The break ends also when this is cancelled, and when the port is closed meanwhile (then
        with :class:`SerialClosedError`).
        """
        if not duration >= 0:
            raise ValueError(f"duration must be 0 or more seconds, not {duration}")
        with self._sole_sender():
            interrupt = self._break_interrupt = anyio.Event()
            await self._in_worker(self._device.set_break, True)
            try:
                with anyio.move_on_after(duration):
                    await interrupt.wait()
            finally:
                self._break_interrupt = None
                if not self._closed:  # else closing has ended it
                    with anyio.CancelScope(shield=True):
                        await self._in_worker(self._device.set_break, False)
            if self._closed:
                raise closed_error(self.path)

    # ---- settings, lines and queues --------------------------------------------------------

    async def configure(self, config: SerialConfig) -> None:
        """Apply *config* whole; bytes in flight may be sent or received either way.

        On any error the previous settings are in force again and :attr:`config` is unchanged.
        What the driver took over is read back: a rate more than 2.5 % off, or any other
        setting that it dropped, raises :class:`UnsupportedConfigurationError`.
        """
        if not isinstance(config, SerialConfig):
            raise ConfigurationError(
                errno.EINVAL, f"config must be a SerialConfig, not {config!r}", self.path
            )
        await self._in_worker(self._device.configure, config)

    async def modem_lines(self) -> ModemLines:
        """Return the lines that the other side drives."""
        return await self._in_worker(self._device.modem_lines)

    async def control_lines(self) -> ControlLines:
        """Return RTS and DTR as the driver reports them."""
        return await self._in_worker(self._device.control_lines)

    async def set_control_lines(self, *, rts: bool | None = None, dtr: bool | None = None) -> None:
        """Assert (True), release (False) or leave alone (None) RTS and DTR."""
        for name, value in (("rts", rts), ("dtr", dtr)):
            if value is not None and not isinstance(value, bool):
                raise ConfigurationError(
                    errno.EINVAL, f"{name} must be True, False or None, not {value!r}", self.path
                )
        await self._in_worker(self._device.set_control_lines, rts, dtr)

    async def reset_input_buffer(self) -> None:
        """Discard everything received and not yet read."""
        self._check_usable()
        with self._noticing_disconnect():
            self._device.discard_input()
        self._kept = b""
        await checkpoint()

    async def reset_output_buffer(self) -> None:
        """Discard everything sent and not yet on the wire."""
        self._check_usable()
        with self._noticing_disconnect():
            self._device.discard_output()
        await checkpoint()

    def input_waiting(self) -> int:
        """Return how many bytes can be received without waiting."""
        self._check_usable()
        with self._noticing_disconnect():
            return self._device.input_waiting() + len(self._kept)

    def output_waiting(self) -> int:
        """Return how many bytes wait in the driver's buffer to be sent."""
        self._check_usable()
        with self._noticing_disconnect():
            return self._device.output_waiting()

    # ---- closing ---------------------------------------------------------------------------

    async def aclose(self) -> None:
        """Close the port and put the tty back as it was found.

        Tasks that wait on the port get :class:`SerialClosedError` at once. Output still in the
        driver's buffer gets up to 30 s to leave; if this is cancelled, it is discarded. The
        event loop never waits for the driver.
        """
        if self._closed:
            if self._closing_done is not None:
                await self._closing_done.wait()
            await checkpoint()
            return
        self._closed = True
        done = self._closing_done = anyio.Event()
        self._release_waiters()
        try:
            if not self._gone:
                with anyio.move_on_after(_CLOSE_LINGER_S):
                    await self._linger()
        finally:
            try:
                with anyio.CancelScope(shield=True):
                    # A limiter of its own: forty stuck threads elsewhere must not keep it open.
                    await anyio.to_thread.run_sync(
                        self._device.close, limiter=anyio.CapacityLimiter(1)
                    )
            finally:
                done.set()

    async def _linger(self) -> None:
        try:
            await until_buffer_is_empty(self._device.output_waiting, self._device.config)
        except SerialError:
            return  # gone while closing: nothing is left to wait for

    def _release_waiters(self) -> None:
        self._read = self._readinto = self._write = self._refuse
        self._kept = b""
        if self._break_interrupt is not None:
            self._break_interrupt.set()
        if self._readiness is not None:
            self._readiness.close(partial(closed_error, self.path))

    def __del__(self) -> None:
        if getattr(self, "_closed", True):
            return
        self._closed = True
        try:
            warnings.warn(
                f"serial port {self.path} was never closed; use 'async with' or await aclose()",
                ResourceWarning,
                source=self,
                stacklevel=1,
            )
        finally:  # also where the warning is an error
            if self._readiness is None:
                self._device.close()
            else:
                self._readiness.abandon(self._device.close)

    # ---- shared ----------------------------------------------------------------------------

    def _waiting_room(self) -> Readiness:
        readiness = self._readiness
        if readiness is None or not readiness.is_current():
            readiness = self._readiness = readiness_for(self._device.fileno())
            self._yield = readiness.checkpoint
        return readiness

    async def _first_yield(self) -> None:
        await self._waiting_room().checkpoint()

    async def _in_worker(self, function: Callable[..., T], *args: object) -> T:
        self._check_usable()
        with self._noticing_disconnect():
            return await anyio.to_thread.run_sync(function, *args)

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


def _as_bytes(data: BytesLike) -> bytes:
    # A copy, also for the memoryview of a bytearray: the caller may change it, or be unable to
    # resize it, while the port waits for room.
    view = memoryview(data)
    return view.tobytes()


def _writable_bytes(buffer: bytearray | memoryview) -> memoryview:
    view = memoryview(buffer)
    if view.readonly:
        raise TypeError("receive_into needs a writable buffer, such as a bytearray")
    if not view.c_contiguous:
        raise TypeError("receive_into needs a contiguous buffer, not a strided view")
    if view.nbytes == 0:
        raise ValueError("receive_into needs a buffer of at least 1 byte")
    return view if view.format == "B" and view.ndim == 1 else view.cast("B")
