"""The seam between the protocol and whatever moves its bytes.

A transport is an ordered byte stream with a name. :class:`ByteStreamTransport` makes one of any
AnyIO byte stream: a serial port, a TCP stream to a serial server, one end of a memory pipe in a
test. It adds nothing to the path of a byte: the client calls the stream's own ``send`` and
``receive``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from .errors import AlicatConfigurationError, AlicatConnectionError, AlicatError, ErrorContext

if TYPE_CHECKING:
    from anyio.abc import ByteStream

    from penstock.serial import SerialConfig

__all__ = [
    "ByteStreamTransport",
    "SerialSettings",
    "Transport",
    "idle_gap_for",
    "open_serial_transport",
    "port_address",
]


@runtime_checkable
class Transport(Protocol):
    """What the protocol client needs of a byte stream.

    Errors of the stream pass as they are (``OSError`` and AnyIO's resource errors); the client
    turns them into :class:`AlicatConnectionError`.
    """

    @property
    def label(self) -> str:
        """The name to use in errors: a device path, a host and port."""

    @property
    def baudrate(self) -> int | None:
        """Bits a second on the wire, or ``None`` where that says nothing (TCP, memory)."""

    async def send(self, data: bytes) -> None:
        """Send all of ``data``."""

    async def receive(self, max_bytes: int = 65536) -> bytes:
        """Wait for bytes; never empty. A cancelled call has taken none."""

    def input_waiting(self) -> int | None:
        """Bytes that :meth:`receive` would return at once; ``None`` where nobody can tell."""

    async def aclose(self) -> None:
        """Close; may be called more than once."""


@dataclass(frozen=True, slots=True)
class SerialSettings:
    """How to open a serial port. Instruments leave the factory at 19200 baud, 8N1.

    ``exclusive`` keeps a second program off the port: the protocol has no way to share it.
    """

    port: str
    baudrate: int = 19200
    bytesize: int = 8
    parity: str = "none"
    stopbits: int = 1
    rtscts: bool = False
    xonxoff: bool = False
    exclusive: bool = True

    def to_serial_config(self) -> SerialConfig:
        """The same as a :class:`penstock.serial.SerialConfig`.

        Raises:
            AlicatConfigurationError: a value is none that a serial port can have.
        """
        from penstock.serial import ByteSize, FlowControl, Parity, SerialConfig, StopBits

        try:
            return SerialConfig(
                baudrate=self.baudrate,
                byte_size=ByteSize(str(self.bytesize)),
                parity=Parity(str(self.parity).lower()),
                stop_bits=StopBits(str(self.stopbits)),
                flow_control=FlowControl(xon_xoff=self.xonxoff, rts_cts=self.rtscts),
                exclusive=self.exclusive,
            )
        except ValueError as error:
            raise AlicatConfigurationError(
                f"serial settings for {self.port} are not valid: {error}",
                context=ErrorContext(port=self.port, baudrate=self.baudrate),
            ) from error


def idle_gap_for(baudrate: int | None) -> float:
    """Seconds of silence after which a reply in progress counts as ended.

    Twenty character times, because bytes of one reply follow each other without a pause, and
    25 ms, because USB adapters hand bytes over in bursts up to 16 ms apart (the FTDI latency
    timer's default) and a loaded machine adds a few more.
    """
    return 0.025 + (200.0 / baudrate if baudrate else 0.0)


class ByteStreamTransport:
    """A :class:`Transport` over an AnyIO byte stream.

    Args:
        stream: Anything with ``send``, ``receive`` and ``aclose``. Its ``input_waiting()``, which
            serial ports have, is used where present: it lets the client see bytes that came
            unasked before it sends the next command.
        label: The name to use in errors.
        baudrate: Bits a second on the wire, if the stream ends in one.
    """

    def __init__(
        self, stream: ByteStream, *, label: str | None = None, baudrate: int | None = None
    ) -> None:
        self._stream = stream
        self._label = label or type(stream).__name__
        self._baudrate = baudrate
        # Bound once: a poll then costs the stream's own calls and none of this class.
        self.send = stream.send
        self.receive = stream.receive
        waiting: Callable[[], int] | None = getattr(stream, "input_waiting", None)
        self.input_waiting: Callable[[], int | None] = waiting or _unknown

    @property
    def label(self) -> str:
        """The name to use in errors."""
        return self._label

    @property
    def baudrate(self) -> int | None:
        """Bits a second on the wire, or ``None``."""
        return self._baudrate

    @property
    def stream(self) -> ByteStream:
        """The stream underneath."""
        return self._stream

    async def aclose(self) -> None:
        """Close the stream."""
        await self._stream.aclose()


def _unknown() -> None:
    return None


_HOST_AND_PORT = re.compile(r"(\[[0-9A-Fa-f:.%]+\]|[A-Za-z0-9._-]+):(\d{1,5})")


def port_address(port: str) -> str:
    """What :mod:`penstock.serial` calls a port: ``tcp://host:port``, and ``host:port`` where there
    is no file of that name, are raw TCP connections to a serial server (``socket://``)."""
    scheme, separator, rest = port.partition("://")
    if separator and scheme.casefold() == "tcp":
        return f"socket://{rest}"
    if not separator and _HOST_AND_PORT.fullmatch(port) and not os.path.exists(port):
        return f"socket://{port}"
    return port


async def open_serial_transport(settings: SerialSettings) -> ByteStreamTransport:
    """Open the serial port that ``settings`` describe.

    Raises:
        AlicatConnectionError: the port does not exist, is in use, or may not be opened.
        AlicatConfigurationError: the port cannot take these settings.
    """
    from penstock.serial import open_serial_port

    config = settings.to_serial_config()
    try:
        port = await open_serial_port(port_address(settings.port), config)
    except AlicatError:
        raise
    except (ValueError, NotImplementedError) as error:
        raise AlicatConfigurationError(
            f"the port {settings.port} does not take these settings: {error}",
            context=ErrorContext(port=settings.port, baudrate=settings.baudrate),
        ) from error
    except OSError as error:
        raise AlicatConnectionError(
            f"cannot open the port: {_told(error)}",
            context=ErrorContext(port=settings.port, baudrate=settings.baudrate),
        ) from error
    return ByteStreamTransport(port, label=settings.port, baudrate=settings.baudrate)


def _told(error: OSError) -> str:
    from penstock.serial import PortBusyError

    if isinstance(error, PortBusyError):
        return f"{error}; instruments on one port share one AlicatManager"
    return str(error)
