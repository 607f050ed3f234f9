"""The interface between the protocol and a byte stream.

A transport is an ordered byte stream with a name. :class:`ByteStreamTransport` makes one of any
AnyIO byte stream: a serial port, a TCP stream to a serial server, one end of a memory pipe in a
test. It adds no call to the path of a byte: the client calls the stream's own ``send`` and
``receive``.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from penstock.alicat.errors import (
    AlicatConfigurationError,
    AlicatConnectionError,
    AlicatError,
    ErrorContext,
)

if TYPE_CHECKING:
    from anyio.abc import ByteStream

    from penstock.serial import SerialConfig

__all__ = [
    "ByteStreamTransport",
    "ExchangeCall",
    "ExchangePart",
    "SerialSettings",
    "Transport",
    "describe_open_failure",
    "is_raw_tcp",
    "known_baudrate",
    "open_serial_transport",
    "port_address",
    "takes_nothing",
]


@runtime_checkable
class Transport(Protocol):
    """The byte stream that the protocol client needs.

    Errors of the stream pass as they are (``OSError`` and AnyIO's resource errors); the client
    turns them into :class:`AlicatConnectionError`.
    """

    @property
    def label(self) -> str:
        """The name to use in errors: a device path, a host and port."""

    @property
    def baudrate(self) -> int | None:
        """Bits per second on the wire; ``None`` if it has none (TCP, memory)."""

    async def send(self, data: bytes) -> None:
        """Send all of ``data``."""

    async def receive(self, max_bytes: int = 65536) -> bytes:
        """Wait for bytes; never empty. A cancelled call has taken none."""

    def input_waiting(self) -> int | None:
        """Bytes that :meth:`receive` would return at once; ``None`` if that is unknown."""

    async def aclose(self) -> None:
        """Close; may be called more than once."""


@dataclass(frozen=True, slots=True)
class SerialSettings:
    """How to open a serial port. Instruments leave the factory at 19200 baud, 8N1.

    ``exclusive`` keeps other programs from opening the port, which the protocol cannot share.
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
        try:
            return _config_of(
                self.baudrate,
                self.bytesize,
                self.parity,
                self.stopbits,
                self.rtscts,
                self.xonxoff,
                self.exclusive,
            )
        except (TypeError, ValueError) as error:
            raise AlicatConfigurationError(
                f"serial settings for {self.port} are not valid: {error}",
                context=ErrorContext(port=self.port, baudrate=self.baudrate),
            ) from error


# A program opens its ports with a few settings, and again after each loss.
@functools.lru_cache(maxsize=64, typed=True)
def _config_of(
    baudrate: int,
    bytesize: int,
    parity: str,
    stopbits: int,
    rtscts: bool,
    xonxoff: bool,
    exclusive: bool,
) -> SerialConfig:
    from penstock.serial import ByteSize, FlowControl, Parity, SerialConfig, StopBits

    return SerialConfig(
        baudrate=baudrate,
        byte_size=ByteSize(str(bytesize)),
        parity=Parity(str(parity).lower()),
        stop_bits=StopBits(str(stopbits)),
        flow_control=FlowControl(xon_xoff=xonxoff, rts_cts=rtscts),
        exclusive=exclusive,
    )


class ExchangePart(Protocol):
    """What came of a command; see :class:`penstock.serial.ExchangePart`."""

    @property
    def data(self) -> bytes:
        """All bytes that arrived until the end of the line or the deadline."""

    @property
    def taken(self) -> int:
        """The bytes of the command that the driver took at once."""


class ExchangeCall(Protocol):
    """``exchange_part()`` of a stream; see :class:`penstock.serial.SerialPort`."""

    def __call__(
        self,
        request: bytes,
        delimiter: bytes = b"",
        *,
        timeout: float,
        max_bytes: int,
        refuse_strays: bool = False,
    ) -> Coroutine[Any, Any, ExchangePart | None]: ...


class _Receive(Protocol):
    def __call__(self, max_bytes: int = 65536) -> Coroutine[Any, Any, bytes]: ...


class ByteStreamTransport:
    """A :class:`Transport` over an AnyIO byte stream.

    Args:
        stream: Anything with ``send``, ``receive`` and ``aclose``. If it has ``input_waiting()``,
            as serial ports do, the client uses it to detect unsolicited bytes before the next
            command. If it has ``send_nowait(data)``, the client uses that too: it sends what needs
            no waiting and returns the number of bytes. If it has ``receive_by(deadline,
            max_bytes)``, as serial ports do, answers need no cancel scope. If it has
            ``exchange_part()``, as serial ports do, the client asks by it: see
            :class:`penstock.serial.SerialPort`.
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
        self.send: Callable[[bytes], Coroutine[Any, Any, None]] = stream.send
        self.receive: _Receive = stream.receive
        self.send_nowait: Callable[[bytes], int] = getattr(stream, "send_nowait", takes_nothing)
        #: ``receive_by`` of the stream, or None.
        self.receive_by: Callable[[float, int], Coroutine[Any, Any, bytes]] | None = getattr(
            stream, "receive_by", None
        )
        #: ``exchange_part`` of the stream, or None.
        self.exchange_part: ExchangeCall | None = getattr(stream, "exchange_part", None)
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


def takes_nothing(data: bytes) -> int:
    """The ``send_nowait`` of a stream that has none."""
    return 0


_HOST_AND_PORT = re.compile(r"(\[[0-9A-Fa-f:.%]+\]|[A-Za-z0-9._-]+):(\d{1,5})")


def port_address(port: str) -> str:
    """Return the name of a port for :mod:`penstock.serial`.

    ``tcp://host:port``, and ``host:port`` where there is no file of that name, are raw TCP
    connections to a serial server (``socket://``).
    """
    scheme, separator, rest = port.partition("://")
    if separator and scheme.casefold() == "tcp":
        return f"socket://{rest}"
    if not separator and _HOST_AND_PORT.fullmatch(port) and not os.path.exists(port):
        return f"socket://{port}"
    return port


def is_raw_tcp(port: str) -> bool:
    """Whether a port is a raw TCP connection, at whose far end the baud rate is not set here."""
    return port_address(port).casefold().startswith("socket://")


def known_baudrate(settings: SerialSettings) -> int | None:
    """The rate of the line; ``None`` where a serial server at its far end decides it."""
    return None if is_raw_tcp(settings.port) else settings.baudrate


async def open_serial_transport(settings: SerialSettings) -> ByteStreamTransport:
    """Open the serial port that ``settings`` describe.

    Raises:
        AlicatConnectionError: the port does not exist, is in use, or may not be opened.
        AlicatConfigurationError: the port cannot take these settings.
    """
    from penstock.serial import open_serial_port

    config = settings.to_serial_config()
    with describe_open_failure(settings):
        port = await open_serial_port(port_address(settings.port), config)
    return ByteStreamTransport(port, label=settings.port, baudrate=known_baudrate(settings))


@contextmanager
def describe_open_failure(settings: SerialSettings) -> Generator[None, None, None]:
    """Turn the errors of opening a port into errors of this package."""
    try:
        yield
    except AlicatError:
        raise
    except (ValueError, NotImplementedError) as error:
        raise AlicatConfigurationError(
            f"the port {settings.port} does not accept these settings: {error}",
            context=ErrorContext(port=settings.port, baudrate=settings.baudrate),
        ) from error
    except OSError as error:
        raise AlicatConnectionError(
            f"cannot open the port: {_explanation(error, settings.port)}",
            context=ErrorContext(port=settings.port, baudrate=settings.baudrate),
        ) from error


def _explanation(error: OSError, port: str) -> str:
    from penstock.serial import PortBusyError

    # With the name that the caller has passed, not the one that it leads to.
    text = str(error).replace(port_address(port), port)
    if isinstance(error, PortBusyError):
        return f"{text}; instruments on one port share one AlicatManager"
    return text
