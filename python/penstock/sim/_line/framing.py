"""The framing of requests and answers on a line: lines of ASCII, Modbus RTU and Modbus TCP.

The bus is independent of protocols: a framing turns bytes into requests and messages into bytes.

Sources for Modbus: MODBUS over Serial Line Specification and Implementation Guide V1.02; MODBUS
Messaging on TCP/IP Implementation Guide V1.0b. It shares no code with ``penstock.alicat``, so that
one mistake cannot be in both.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final, Protocol

#: The size of an instrument's input buffer for one request.
_REQUEST_LIMIT: Final = 256


@dataclass(frozen=True, slots=True)
class Request:
    """One request that has arrived in full."""

    address: str
    """The address: the letter of a unit, or a number as text."""
    body: bytes
    """The request without address and framing."""
    end: int
    """The number of bytes of the last piece up to the end of the request."""
    number: int = 0
    """The number that the answer has to repeat, if requests are numbered."""


class Framing(Protocol):
    """Cuts requests out of bytes, and makes the bytes of an answer. Keeps state of one line."""

    def feed(self, data: bytes, at: float) -> list[Request]:
        """Take bytes that the host wrote at ``at``; return the requests that end in them.

        ``at`` is on the bus's clock, for framings that end a frame by silence.
        """
        ...

    def encode(self, request: Request, messages: list[bytes]) -> bytes:
        """The bytes of an answer that consists of ``messages``; none at all is silence."""
        ...

    def reset(self) -> None:
        """Drop a partial request, as when the cable is pulled."""
        ...


class LineFraming:
    """Alicat ASCII: the unit id is the first letter, a carriage return ends every line."""

    def __init__(self) -> None:
        self._partial = bytearray()

    def feed(self, data: bytes, at: float) -> list[Request]:
        """Take bytes; see :class:`Framing`. Empty lines and padding are skipped."""
        requests = []
        begin = 0
        while (end := data.find(b"\r", begin)) >= 0:
            self._collect(data[begin:end])
            begin = end + 1
            overflown = len(self._partial) > _REQUEST_LIMIT
            line = bytes(self._partial).strip(b"\n\0 ")
            self._partial.clear()
            if line:
                body = b"?overflow" if overflown else line[1:]
                requests.append(Request(line[:1].decode("latin-1").upper(), body, begin))
        self._collect(data[begin:])
        return requests

    def encode(self, request: Request, messages: list[bytes]) -> bytes:
        """Every message as a line; see :class:`Framing`."""
        return b"".join(message + b"\r" for message in messages)

    def reset(self) -> None:
        """Drop a partial line."""
        self._partial.clear()

    def _collect(self, piece: bytes) -> None:
        # One byte more than the limit is kept as the mark of a request that is too long.
        self._partial += piece[: max(0, _REQUEST_LIMIT + 1 - len(self._partial))]


#: Sizes of requests with the functions whose requests all have the same size, checksum included.
_FIXED: Final = dict.fromkeys((1, 2, 3, 4, 5, 6), 8)
_WRITE_COILS, _WRITE_REGISTERS = 15, 16
_LONGEST_RTU: Final = 256
#: Seconds of silence that end a frame. The specification has 3.5 characters, 2 ms at 19200 baud;
#: an operating system may hand over the pieces of one frame further apart than that.
_SILENCE: Final = 0.1
_HEADER: Final = struct.Struct(">HHHB")
_LONGEST_COUNTED: Final = 254


def modbus_checksum(data: bytes) -> bytes:
    """The checksum that follows ``data`` on a line."""
    remainder = 0xFFFF
    for byte in data:
        remainder ^= byte
        for _ in range(8):
            remainder, low = remainder >> 1, remainder & 1
            if low:
                remainder ^= 0xA001
    return remainder.to_bytes(2, "little")


class ModbusRtuFraming:
    """Unit number, request and checksum; silence between frames.

    A frame with a wrong checksum is not answered. The following bytes are ignored until the line is
    silent, as by any receiver of Modbus RTU. An address is the unit number as text; number 0 is for
    all units, and no unit answers it.
    """

    def __init__(self) -> None:
        self._partial = bytearray()
        self._last = 0.0

    def feed(self, data: bytes, at: float) -> list[Request]:
        """Take bytes; see :class:`~penstock.sim.Framing`."""
        if at - self._last > _SILENCE:
            self._partial.clear()
        self._last = at
        before = len(self._partial)
        self._partial += data
        requests = []
        taken = 0
        while (size := self._size()) is not None and len(self._partial) >= size:
            frame = bytes(self._partial[:size])
            if frame[-2:] != modbus_checksum(frame[:-2]):
                break
            del self._partial[:size]
            taken += size
            requests.append(Request(str(frame[0]), frame[1:-2], max(0, taken - before)))
        if len(self._partial) > _LONGEST_RTU:
            del self._partial[_LONGEST_RTU:]
        return requests

    def encode(self, request: Request, messages: list[bytes]) -> bytes:
        """The bytes of an answer; see :class:`~penstock.sim.Framing`."""
        if request.address == "0":
            return b""
        content = bytes([int(request.address)])
        return b"".join(content + m + modbus_checksum(content + m) for m in messages)

    def reset(self) -> None:
        """Drop a partial frame."""
        self._partial.clear()

    def _size(self) -> int | None:
        """The size of the frame that begins here, as far as it can be told."""
        partial = self._partial
        if len(partial) < 4:
            return None
        function = partial[1]
        if function in _FIXED:
            return _FIXED[function]
        if function in (_WRITE_COILS, _WRITE_REGISTERS):
            return None if len(partial) < 7 else 9 + partial[6]
        # Only the silence after it shows how long an unknown function is: take what is there.
        return len(partial)


class ModbusTcpFraming:
    """A header with a number, a length and the unit before each request and each answer.

    After an invalid header, all bytes are ignored until there is a new connection.
    """

    def __init__(self) -> None:
        self._partial = bytearray()
        self._lost = False

    def feed(self, data: bytes, at: float) -> list[Request]:
        """Take bytes; see :class:`~penstock.sim.Framing`."""
        before = len(self._partial)
        self._partial += data
        requests = []
        taken = 0
        while not self._lost and len(self._partial) >= _HEADER.size:
            number, protocol, counted, unit = _HEADER.unpack_from(self._partial)
            if protocol != 0 or not 2 <= counted <= _LONGEST_COUNTED:
                self._lost = True
                break
            size = _HEADER.size - 1 + counted
            if len(self._partial) < size:
                break
            body = bytes(self._partial[_HEADER.size : size])
            del self._partial[:size]
            taken += size
            requests.append(Request(str(unit), body, max(0, taken - before), number))
        if self._lost:
            self._partial.clear()
        return requests

    def encode(self, request: Request, messages: list[bytes]) -> bytes:
        """The bytes of an answer; see :class:`~penstock.sim.Framing`."""
        unit = int(request.address)
        return b"".join(
            _HEADER.pack(request.number, 0, 1 + len(message), unit) + message
            for message in messages
        )

    def reset(self) -> None:
        """Drop a partial request: the connection was closed."""
        self._partial.clear()
        self._lost = False
