"""``serial.threaded``: a thread that reads a port and hands the bytes to a protocol object."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any

from penstock.serial.compat._definitions import PortNotOpenError, SerialException, iterbytes
from penstock.serial.compat._port import Serial

__all__ = ["FramedPacket", "LineReader", "Packetizer", "Protocol", "ReaderThread"]


class Protocol:
    """The methods that a :class:`ReaderThread` calls, to be overridden."""

    def connection_made(self, transport: ReaderThread) -> None:
        """Called when the thread runs; ``transport`` is the thread."""

    def data_received(self, data: bytes) -> None:
        """Called with received bytes."""

    def connection_lost(self, exc: Exception | None) -> None:
        """Called when the thread ends, because of ``exc`` unless that is None."""
        if isinstance(exc, Exception):
            raise exc


class Packetizer(Protocol):
    """Cuts the stream at each ``TERMINATOR`` and calls ``handle_packet``."""

    TERMINATOR = b"\0"

    def __init__(self) -> None:
        self.buffer: bytearray = bytearray()
        self.transport: ReaderThread | None = None

    def connection_made(self, transport: ReaderThread) -> None:
        """Keep ``transport``. An override calls this one."""
        self.transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the transport, and raise ``exc`` unless it is None."""
        self.transport = None
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Buffer ``data``, and pass on each packet that is complete."""
        self.buffer.extend(data)
        while self.TERMINATOR in self.buffer:
            packet, self.buffer = self.buffer.split(self.TERMINATOR, 1)
            self.handle_packet(packet)

    def handle_packet(self, packet: bytes | bytearray) -> None:
        """Called with each packet, without its terminator. A subclass must define it."""
        raise NotImplementedError("please implement functionality in handle_packet")


class FramedPacket(Protocol):
    """Calls ``handle_packet`` with the bytes between ``START`` and ``STOP``."""

    START = b"("
    STOP = b")"

    def __init__(self) -> None:
        self.packet: bytearray = bytearray()
        self.in_packet: bool = False
        self.transport: ReaderThread | None = None

    def connection_made(self, transport: ReaderThread) -> None:
        """Keep ``transport``. An override calls this one."""
        self.transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        """Drop a packet that is not complete, and raise ``exc`` unless it is None."""
        self.transport = None
        self.in_packet = False
        self.packet.clear()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Collect ``data``, and pass on each packet that is complete."""
        for byte in iterbytes(data):
            if byte == self.START:
                self.in_packet = True
            elif byte == self.STOP:
                self.in_packet = False
                packet = bytes(self.packet)
                self.packet.clear()
                self.handle_packet(packet)
            elif self.in_packet:
                self.packet += byte
            else:
                self.handle_out_of_packet_data(byte)

    def handle_packet(self, packet: bytes) -> None:
        """Called with each packet, without ``START`` and ``STOP``. A subclass must define it."""
        raise NotImplementedError("please implement functionality in handle_packet")

    def handle_out_of_packet_data(self, data: bytes) -> None:
        """A byte between two packets."""


class LineReader(Packetizer):
    """Lines of text: calls ``handle_line``, and has :meth:`write_line`."""

    TERMINATOR = b"\r\n"
    ENCODING = "utf-8"
    UNICODE_HANDLING = "replace"

    def handle_packet(self, packet: bytes | bytearray) -> None:
        """Decode a line, and pass it to :meth:`handle_line`."""
        self.handle_line(packet.decode(self.ENCODING, self.UNICODE_HANDLING))

    def handle_line(self, line: str) -> None:
        """Called with each line, without its terminator. A subclass must define it."""
        raise NotImplementedError("please implement functionality in handle_line")

    def write_line(self, text: str) -> None:
        """Send ``text`` and a terminator."""
        assert self.transport is not None
        self.transport.write(text.encode(self.ENCODING, self.UNICODE_HANDLING) + self.TERMINATOR)


class ReaderThread(threading.Thread):
    """Reads a port until it is closed or stopped. As a context manager it returns the protocol."""

    def __init__(self, serial_instance: Serial, protocol_factory: Callable[[], Any]) -> None:
        super().__init__(daemon=True)
        self.serial = serial_instance
        self.protocol_factory = protocol_factory
        self.alive: bool = True
        self.protocol: Any = None
        self._lock = threading.Lock()
        self._connection_made = threading.Event()

    def stop(self) -> None:
        """End the thread; the port stays open."""
        self.alive = False
        self.serial.cancel_read()
        self.join(2)

    def run(self) -> None:
        """Read the port until it is closed or fails, or until :meth:`stop`; the thread's work."""
        self.protocol = self.protocol_factory()
        try:
            self.protocol.connection_made(self)
        except Exception as exc:
            self.alive = False
            self.protocol.connection_lost(exc)
            self._connection_made.set()
            return
        self._connection_made.set()
        error: Exception | None = None
        while self.alive and self.serial.is_open:
            try:
                data = self.serial.read(self.serial.in_waiting or 1)
            except PortNotOpenError:
                break  # closed by another thread: not an error
            except SerialException as exc:
                error = exc
                break
            if data:
                try:
                    self.protocol.data_received(data)
                except Exception as exc:
                    error = exc
                    break
        self.alive = False
        self.protocol.connection_lost(error)
        self.protocol = None

    def write(self, data: Any) -> int:
        """Write, from any thread."""
        with self._lock:
            return self.serial.write(data)

    def close(self) -> None:
        """End the thread and close the port."""
        with self._lock:
            self.stop()
            self.serial.close()

    def connect(self) -> tuple[ReaderThread, Any]:
        """Return this transport and its protocol once the thread runs."""
        self._check_alive("already stopped")
        self._connection_made.wait()
        self._check_alive("connection_lost already called")
        return self, self.protocol

    def _check_alive(self, refusal: str) -> None:
        if not self.alive:
            raise RuntimeError(refusal)

    def __enter__(self) -> Any:
        self.start()
        return self.connect()[1]

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
