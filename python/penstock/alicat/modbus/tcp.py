"""Modbus TCP: a header with a number and a length before each request and reply.

Source: MODBUS Messaging on TCP/IP Implementation Guide V1.0b.
"""

from __future__ import annotations

import struct

from penstock.alicat.errors import AlicatParseError, ErrorContext
from penstock.alicat.modbus.framing import Reply

__all__ = ["TcpFraming"]

_HEADER = struct.Struct(">HHHB")
#: The bytes of the header that the length counts: the unit number.
_COUNTED = 1
_LONGEST = 254


class TcpFraming:
    """Frames of Modbus TCP, as the asking side sees them. See :class:`Framing`.

    A reply to an older request than the last one is skipped.
    """

    numbers_requests = True

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._number = 0

    def frame(self, unit: int, pdu: bytes) -> bytes:
        self._number = (self._number + 1) & 0xFFFF
        return _HEADER.pack(self._number, 0, _COUNTED + len(pdu), unit) + pdu

    def feed(self, data: bytes) -> None:
        self._buffer += data

    def next_reply(self) -> Reply | None:
        buffer = self._buffer
        while len(buffer) >= _HEADER.size:
            number, protocol, length, unit = _HEADER.unpack_from(buffer)
            if protocol != 0 or not _COUNTED < length <= _LONGEST:
                held = bytes(buffer)
                buffer.clear()
                raise AlicatParseError(
                    f"{held[:60]!r} is not a Modbus TCP frame: check that the port is that of a "
                    "Modbus TCP server, not of a serial server",
                    field_name="frame",
                    expected="a Modbus TCP frame",
                    actual=held,
                    context=ErrorContext(raw_response=held),
                )
            end = _HEADER.size + length - _COUNTED
            if len(buffer) < end:
                return None
            pdu = bytes(buffer[_HEADER.size : end])
            del buffer[:end]
            if number == self._number:
                return Reply(unit, pdu)
        return None

    def clear(self) -> int:
        dropped = len(self._buffer)
        self._buffer.clear()
        return dropped
