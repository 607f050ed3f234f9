"""Modbus RTU: unit number, request or reply, and a checksum of 16 bits.

Frames have no delimiters. On a line, 3.5 characters of silence separate them, which an operating
system does not report. The length of a reply follows from its function, so no silence is needed.

Source: MODBUS over Serial Line Specification and Implementation Guide V1.02.
"""

from __future__ import annotations

from typing import NoReturn

from penstock.alicat.errors import AlicatParseError, ErrorContext
from penstock.alicat.modbus.framing import Reply
from penstock.alicat.modbus.pdu import EXCEPTION_FLAG, READ_HOLDING, READ_INPUT, WRITE_MULTIPLE

__all__ = ["RtuFraming", "crc16", "silence_between_frames"]

_POLYNOMIAL = 0xA001
_CRC_SIZE = 2
_EXCEPTION_SIZE = 5
_RECEIPT_SIZE = 8
_BITS_A_CHARACTER = 11
#: Above 19200 baud the silence is fixed.
_SHORTEST_SILENCE_S = 0.00175


def _table_entry(byte: int) -> int:
    for _ in range(8):
        byte = byte >> 1 ^ (_POLYNOMIAL if byte & 1 else 0)
    return byte


_TABLE = tuple(_table_entry(byte) for byte in range(256))


def crc16(data: bytes) -> int:
    """The checksum of a frame's bytes. It is sent with its low byte first."""
    crc = 0xFFFF
    for byte in data:
        crc = crc >> 8 ^ _TABLE[(crc ^ byte) & 0xFF]
    return crc


def silence_between_frames(baudrate: int | None) -> float:
    """Seconds of silence before a request: 3.5 characters, at least 1.75 ms; 0 without a line."""
    if baudrate is None:
        return 0.0
    return max(_SHORTEST_SILENCE_S, 3.5 * _BITS_A_CHARACTER / baudrate)


class RtuFraming:
    """Frames of Modbus RTU, as the asking side sees them. See :class:`Framing`."""

    numbers_requests = False

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._sent = b""

    def frame(self, unit: int, pdu: bytes) -> bytes:
        content = bytes([unit]) + pdu
        self._sent = content + crc16(content).to_bytes(2, "little")
        return self._sent

    def feed(self, data: bytes) -> None:
        self._buffer += data

    def next_reply(self) -> Reply | None:
        buffer = self._buffer
        # First, because the echo of a read has the form of a reply at some addresses.
        self._drop_echo()
        size = self._size()
        if size is None or len(buffer) < size:
            return None
        content = bytes(buffer[: size - _CRC_SIZE])
        if crc16(content) == int.from_bytes(buffer[size - _CRC_SIZE : size], "little"):
            del buffer[:size]
            return Reply(content[0], content[1:])
        if self._sent.startswith(buffer):
            return None
        self._refuse("its checksum is wrong")

    def clear(self) -> int:
        dropped = len(self._buffer)
        self._buffer.clear()
        return dropped

    def _size(self) -> int | None:
        """The size of the frame that begins here; ``None`` until that can be told."""
        buffer = self._buffer
        if len(buffer) < 3:
            return None
        function = buffer[1]
        if function & EXCEPTION_FLAG:
            return _EXCEPTION_SIZE
        if function in (READ_HOLDING, READ_INPUT):
            return 3 + buffer[2] + _CRC_SIZE
        if function == WRITE_MULTIPLE:
            return _RECEIPT_SIZE
        self._refuse(f"function {function} was not asked for")

    def _drop_echo(self) -> None:
        # Two-wire adapters echo what they send.
        if self._sent and self._buffer.startswith(self._sent):
            del self._buffer[: len(self._sent)]
            self._sent = b""

    def _refuse(self, why: str) -> NoReturn:
        # The start of the next frame is unknown, so everything is dropped.
        held = bytes(self._buffer)
        self._buffer.clear()
        raise AlicatParseError(
            f"{held[:60]!r} is not a Modbus RTU frame: {why}; check baud rate, parity and wiring",
            field_name="frame",
            expected="a Modbus RTU frame",
            actual=held,
            context=ErrorContext(raw_response=held),
        )
