"""Serial ports as asyncio transports and streams, with pyserial-asyncio's signatures.

For existing protocols and streams; new programs use :func:`penstock.serial.open_serial_port`.
Change ``import serial_asyncio`` to
``from penstock.serial import transport as serial_asyncio``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar, cast

from penstock.serial._devices.backend import SerialBackend
from penstock.serial._port.waiter import run_to_end
from penstock.serial.compat import Serial, SerialException, serial_for_url
from penstock.serial.exceptions import disconnected_error, errno_to_exception

__all__ = [
    "SerialTransport",
    "connection_for_serial",
    "create_serial_connection",
    "open_serial_connection",
]

P = TypeVar("P", bound=asyncio.BaseProtocol)

_LARGEST_READ = 65_536
_LARGEST_WRITE = 16_384
_HIGH_WATER = 64 * 1024
_STREAM_LIMIT = 2**16  # asyncio's own default


async def create_serial_connection(
    loop: asyncio.AbstractEventLoop,
    protocol_factory: Callable[[], P],
    *args: Any,
    **kwargs: Any,
) -> tuple[SerialTransport, P]:
    """Open a port in a worker thread and connect it with a new protocol; return both.

    Arguments and errors are those of :func:`penstock.serial.compat.serial_for_url`: a path or a
    URL, ``baudrate=`` and so on.
    """
    if "://" in str(kwargs.get("url", args[0] if args else "")):
        # A server may take long to answer, so a cancelled caller does not wait for it.
        port = await loop.run_in_executor(None, lambda: serial_for_url(*args, **kwargs))
    else:
        port = await run_to_end(lambda: serial_for_url(*args, **kwargs), undo=Serial.close)
    return await connection_for_serial(loop, protocol_factory, port)


async def connection_for_serial(
    loop: asyncio.AbstractEventLoop,
    protocol_factory: Callable[[], P],
    serial_instance: Serial,
) -> tuple[SerialTransport, P]:
    """Connect an open port with a new protocol; the transport owns the port from then on.

    Returns once the protocol's ``connection_made`` has been called.
    """
    protocol = protocol_factory()
    transport = SerialTransport(loop, protocol, serial_instance)
    try:
        await transport.connected
    except asyncio.CancelledError:
        transport.abort()
        raise
    return transport, protocol


async def open_serial_connection(
    *,
    loop: asyncio.AbstractEventLoop | None = None,
    limit: int | None = None,
    **kwargs: Any,
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Open a port, ``url=…`` and the other settings, and return asyncio's streams over it.

    ``await writer.drain()`` waits for room, ``writer.close()`` and ``await writer.wait_closed()``
    send what is left and close the port. ``limit`` is the reader's, 64 KiB by default.
    """
    loop = asyncio.get_running_loop() if loop is None else loop
    reader = asyncio.StreamReader(limit=_STREAM_LIMIT if limit is None else limit, loop=loop)
    protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
    transport, _ = await create_serial_connection(loop, lambda: protocol, **kwargs)
    return reader, asyncio.StreamWriter(transport, protocol, reader, loop)


class SerialTransport(asyncio.Transport):
    """A transport over an open :class:`penstock.serial.compat.Serial`.

    ``get_extra_info("serial")`` and :attr:`serial` give that port, for its settings and lines.
    Not thread-safe, as asyncio's own transports.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        protocol: asyncio.BaseProtocol,
        serial_instance: Serial,
    ) -> None:
        super().__init__({"serial": serial_instance})
        device = serial_instance.device
        if device is None:
            raise SerialException("the port must be open before it gets a transport")
        self._loop = loop
        self._protocol: asyncio.BaseProtocol = protocol
        self._serial = serial_instance
        self._device: SerialBackend = device
        self._fd = device.fileno()
        self._buffer = bytearray()
        self._closing = False
        self._finished = False
        self._reading = False
        self._paused = False
        self._writing = False
        self._protocol_paused = False
        self.set_write_buffer_limits()
        self.connected: asyncio.Future[None] = loop.create_future()
        """Done once ``connection_made`` has been called."""
        loop.call_soon(self._start)

    @property
    def serial(self) -> Serial:
        """The port."""
        return self._serial

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop of the transport."""
        return self._loop

    def get_protocol(self) -> asyncio.BaseProtocol:
        """The protocol that is called."""
        return self._protocol

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Call ``protocol`` from now on. It gets no ``connection_made``."""
        self._protocol = protocol

    def __repr__(self) -> str:
        state = "closing" if self._closing else "open"
        return f"<{type(self).__name__} {state} {self._serial.name}>"

    # ---- reading -------------------------------------------------------------------------------

    def _start(self) -> None:
        try:
            self._protocol.connection_made(self)
        finally:
            if not self.connected.done():
                self.connected.set_result(None)
            self._watch_input()

    def is_reading(self) -> bool:
        """Whether data are delivered: neither paused nor closing."""
        return not (self._paused or self._closing)

    def pause_reading(self) -> None:
        """Deliver no data until :meth:`resume_reading`; the driver keeps it."""
        self._paused = True
        self._watch_input()

    def resume_reading(self) -> None:
        """Deliver data again, beginning with what the driver has kept."""
        self._paused = False
        self._watch_input()

    def _watch_input(self) -> None:
        wanted = self.is_reading() and not self._finished
        if wanted and not self._reading:
            self._loop.add_reader(self._fd, self._read_ready)
        elif self._reading and not wanted:
            self._loop.remove_reader(self._fd)
        self._reading = wanted

    def _read_ready(self) -> None:
        protocol = self._protocol
        try:
            if isinstance(protocol, asyncio.BufferedProtocol):
                buffer = memoryview(protocol.get_buffer(-1)).cast("B")
                if not buffer:
                    raise RuntimeError("get_buffer() returned an empty buffer")
                if not self._reading:
                    return  # get_buffer() has paused or closed: the descriptor may be reused
                count = self._device.readinto(buffer)
            else:
                data = self._device.read(_LARGEST_READ)
                count = len(data)
        except BlockingIOError:
            return
        except OSError as exc:
            self._fail(self._as_serial_exception(exc))
            return
        except Exception as exc:
            # From get_buffer(). Unread bytes would make the loop call this again and again.
            self._fail(exc)
            return
        if not count:
            self._fail(self._as_serial_exception(disconnected_error(self._serial.port)))
        elif isinstance(protocol, asyncio.BufferedProtocol):
            protocol.buffer_updated(count)
        else:
            cast("asyncio.Protocol", protocol).data_received(data)

    # ---- writing -------------------------------------------------------------------------------

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send ``data``: at once what there is room for, the rest as room becomes available."""
        view = memoryview(data).cast("B")  # may run Python code: before any state is read
        if self._closing:
            return
        if not self._buffer:
            view = view[self._write_some(view) :]
        if view and not self._closing:
            self._buffer += view
            self._watch_output()
            self._maybe_pause_protocol()

    def _write_some(self, view: memoryview | bytearray) -> int:
        try:
            return self._device.write(memoryview(view)) if view else 0
        except BlockingIOError:
            return 0
        except OSError as exc:
            self._fail(self._as_serial_exception(exc))
            return 0

    def _write_ready(self) -> None:
        # Copied: a bytearray cannot shrink while a view of it exists. A driver takes a few KiB at
        # a time, so a copy of all that waits would be made again for each of them.
        count = self._write_some(self._buffer[:_LARGEST_WRITE])
        if self._finished:
            return
        del self._buffer[:count]
        self._watch_output()
        self._maybe_resume_protocol()
        self._finish_if_drained()

    def _watch_output(self) -> None:
        wanted = bool(self._buffer) and not self._finished
        if wanted and not self._writing:
            self._loop.add_writer(self._fd, self._write_ready)
        elif self._writing and not wanted:
            self._loop.remove_writer(self._fd)
        self._writing = wanted

    def can_write_eof(self) -> bool:
        """False: a serial line has no end."""
        return False

    def write_eof(self) -> None:
        """Raise NotImplementedError: a serial line has no end."""
        raise NotImplementedError("a serial line has no end of file")

    def get_write_buffer_size(self) -> int:
        """The number of bytes that the driver has not got yet."""
        return len(self._buffer)

    def get_write_buffer_limits(self) -> tuple[int, int]:
        """The bytes at which the protocol is asked to resume and to pause writing: (low, high)."""
        return self._low_water, self._high_water

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Set when the protocol is asked to pause and to resume writing, in bytes."""
        if high is None:
            high = _HIGH_WATER if low is None else 4 * low
        low = high // 4 if low is None else low
        if not high >= low >= 0:
            raise ValueError(f"high ({high!r}) must be >= low ({low!r}) must be >= 0")
        self._high_water, self._low_water = high, low
        self._maybe_pause_protocol()

    def flush(self) -> None:
        """Drop what the driver has not got yet, as pyserial-asyncio does."""
        self._buffer.clear()
        self._watch_output()
        self._maybe_resume_protocol()
        self._finish_if_drained()

    def _maybe_pause_protocol(self) -> None:
        if not self._protocol_paused and len(self._buffer) > self._high_water:
            self._protocol_paused = True
            self._call_protocol(self._protocol.pause_writing)

    def _maybe_resume_protocol(self) -> None:
        if self._protocol_paused and len(self._buffer) <= self._low_water:
            self._protocol_paused = False
            self._call_protocol(self._protocol.resume_writing)

    def _call_protocol(self, call: Callable[[], None]) -> None:
        # An error of the protocol must not stop the transport.
        try:
            call()
        except Exception as exc:
            self._loop.call_exception_handler(
                {
                    "message": f"protocol.{call.__name__}() failed",
                    "exception": exc,
                    "transport": self,
                    "protocol": self._protocol,
                }
            )

    # ---- closing -------------------------------------------------------------------------------

    def is_closing(self) -> bool:
        """Whether :meth:`close` or :meth:`abort` was called, or the port has failed."""
        return self._closing

    def close(self) -> None:
        """Send what is left, close the port, then call ``connection_lost(None)``."""
        if self._closing:
            return
        self._closing = True
        self._watch_input()
        if not self._buffer:
            self._finish(None)

    def abort(self) -> None:
        """Close the port at once and discard unsent output, including that of an earlier close."""
        self._serial.cut_closing_short()
        self._fail(None)

    def _finish_if_drained(self) -> None:
        # Checked after resume_writing(), which may have written again or aborted.
        if self._closing and not self._buffer:
            self._finish(None)

    def _fail(self, error: Exception | None) -> None:
        self._closing = True
        self._buffer.clear()
        self._finish(error, drained=False)

    def _as_serial_exception(self, exc: OSError) -> SerialException:
        error = errno_to_exception(exc, context="io", path=self._serial.port)
        translated = SerialException(error.errno, str(error))
        translated.__cause__ = error
        return translated

    def _finish(self, error: Exception | None, *, drained: bool = True) -> None:
        if self._finished:
            return
        self._finished = True
        self._watch_input()
        self._watch_output()
        # In a worker thread: a driver may take long to send the rest and to close.
        closing = self._loop.run_in_executor(None, self._close_port, drained)
        closing.add_done_callback(lambda done: self._lose_connection(done, error))

    def _close_port(self, drained: bool) -> None:
        if drained:
            self._serial.close()
        else:
            self._serial.close_at_once()

    def _lose_connection(self, closing: asyncio.Future[None], error: Exception | None) -> None:
        if error is None and not closing.cancelled():
            failure = closing.exception()
            error = failure if isinstance(failure, OSError) else None
        self._protocol.connection_lost(error)
