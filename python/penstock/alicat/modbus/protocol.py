"""Modbus without I/O: questions and answers, and their frames on a line (RTU) and on TCP.

Of the requests only what reads and writes 16-bit registers: functions 3, 4 and 16. Function 6 is
left out: its reply repeats the request, so the echo of a two-wire adapter would pass for the
instrument's answer.

Source of the formats: MODBUS Application Protocol Specification V1.1b3.

**RTU**: unit number, request or reply, and a checksum of 16 bits. Frames have no delimiters. On a
line, 3.5 characters of silence separate them, which an operating system does not report. The length
of a reply follows from its function, so no silence is needed.

Source: MODBUS over Serial Line Specification and Implementation Guide V1.02.

**TCP**: a header with a number and a length before each request and reply.

Source: MODBUS Messaging on TCP/IP Implementation Guide V1.0b.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple, NoReturn, Protocol

from penstock.alicat.errors import (
    AlicatCommandRejectedError,
    AlicatParseError,
    AlicatValidationError,
    ErrorContext,
)

__all__ = [
    "Framing",
    "ModbusExceptionCode",
    "ModbusExceptionError",
    "ReadRegisters",
    "Reply",
    "Request",
    "RtuFraming",
    "TcpFraming",
    "WriteRegisters",
    "crc16",
    "silence_between_frames",
]


READ_HOLDING = 3
READ_INPUT = 4
WRITE_MULTIPLE = 16
EXCEPTION_FLAG = 0x80

_MOST_READ = 125
_MOST_WRITTEN = 123


class ModbusExceptionCode(IntEnum):
    """Why a request is refused: the codes of the specification (section 7)."""

    ILLEGAL_FUNCTION = 1
    ILLEGAL_DATA_ADDRESS = 2
    ILLEGAL_DATA_VALUE = 3
    SERVER_DEVICE_FAILURE = 4
    ACKNOWLEDGE = 5
    SERVER_DEVICE_BUSY = 6
    NEGATIVE_ACKNOWLEDGE = 7
    MEMORY_PARITY_ERROR = 8
    GATEWAY_PATH_UNAVAILABLE = 10
    GATEWAY_TARGET_DEVICE_FAILED_TO_RESPOND = 11


_MEANINGS = {
    ModbusExceptionCode.ILLEGAL_FUNCTION: "it does not have this function",
    ModbusExceptionCode.ILLEGAL_DATA_ADDRESS: "it does not have these registers",
    ModbusExceptionCode.ILLEGAL_DATA_VALUE: "it does not take these values",
    ModbusExceptionCode.SERVER_DEVICE_FAILURE: "it failed to do it",
    ModbusExceptionCode.ACKNOWLEDGE: "it has begun and takes a long time",
    ModbusExceptionCode.SERVER_DEVICE_BUSY: "it is busy",
    ModbusExceptionCode.NEGATIVE_ACKNOWLEDGE: "it cannot do it in its present state",
    ModbusExceptionCode.MEMORY_PARITY_ERROR: "its memory has a parity error",
    ModbusExceptionCode.GATEWAY_PATH_UNAVAILABLE: "the gateway has no path to it",
    ModbusExceptionCode.GATEWAY_TARGET_DEVICE_FAILED_TO_RESPOND: "it does not answer the gateway",
}


class ModbusExceptionError(AlicatCommandRejectedError):
    """The instrument, or a gateway before it, answered with an exception code.

    Attributes:
        code: a :class:`ModbusExceptionCode`; the number itself if the specification lacks it.
    """

    def __init__(self, code: int, *, context: ErrorContext | None = None) -> None:
        self.code: ModbusExceptionCode | int
        try:
            self.code = ModbusExceptionCode(code)
        except ValueError:
            self.code, meaning = code, "the specification does not list this code"
        else:
            meaning = _MEANINGS[self.code]
        super().__init__(
            f"the instrument refused the request with Modbus exception {int(code)}: {meaning}",
            context=context,
        )


class Request(Protocol):
    """A request and the form of its reply."""

    def encode(self) -> bytes:
        """The protocol data unit to send."""

    def decode(self, pdu: bytes) -> tuple[int, ...]:
        """The registers that a reply holds; none for a write.

        Raises:
            ModbusExceptionError: it is an exception reply.
            AlicatParseError: it is not the reply to this request.
        """


@dataclass(frozen=True, slots=True)
class ReadRegisters:
    """Read ``count`` registers (1 to 125) from the wire address ``address`` on.

    ``input_registers`` reads input registers (function 4) instead of holding registers.

    Raises:
        AlicatValidationError: address or count is out of range.
    """

    address: int
    count: int
    input_registers: bool = False

    def __post_init__(self) -> None:
        _check_range(self.address, self.count, _MOST_READ)

    @property
    def function(self) -> int:
        """The function code."""
        return READ_INPUT if self.input_registers else READ_HOLDING

    def encode(self) -> bytes:
        """The request as a PDU: function code and data, without unit number and checksum."""
        return struct.pack(">BHH", self.function, self.address, self.count)

    def decode(self, pdu: bytes) -> tuple[int, ...]:
        """The values of the registers in a reply's PDU. AlicatParseError if it is another reply."""
        size = 2 * self.count
        if len(pdu) != 2 + size or pdu[0] != self.function or pdu[1] != size:
            _refuse(pdu, self.function, f"{self.count} registers")
        return struct.unpack(f">{self.count}H", pdu[2:])


@dataclass(frozen=True, slots=True)
class WriteRegisters:
    """Write ``values`` (1 to 123 of 16 bits) to the registers from the wire address ``address`` on.

    Raises:
        AlicatValidationError: address, number of values or a value is out of range.
    """

    address: int
    values: tuple[int, ...]

    def __post_init__(self) -> None:
        _check_range(self.address, len(self.values), _MOST_WRITTEN)
        for value in self.values:
            if not 0 <= value <= 0xFFFF:
                raise AlicatValidationError(
                    f"{value!r} does not fit into a register, which holds 0 to 65535"
                )

    def encode(self) -> bytes:
        """The request as a PDU: function code and data, without unit number and checksum."""
        count = len(self.values)
        return struct.pack(
            f">BHHB{count}H", WRITE_MULTIPLE, self.address, count, 2 * count, *self.values
        )

    def decode(self, pdu: bytes) -> tuple[int, ...]:
        """Check the receipt in a reply's PDU. AlicatParseError if it is another reply."""
        if pdu != struct.pack(">BHH", WRITE_MULTIPLE, self.address, len(self.values)):
            _refuse(pdu, WRITE_MULTIPLE, f"the receipt of {len(self.values)} registers")
        return ()


def _check_range(address: int, count: int, most: int) -> None:
    if not 1 <= count <= most:
        raise AlicatValidationError(f"a request covers 1 to {most} registers, not {count}")
    if not 0 <= address <= 0x10000 - count:
        raise AlicatValidationError(
            f"{count} registers from address {address} are not within addresses 0 to 65535"
        )


def _refuse(pdu: bytes, function: int, wanted: str) -> NoReturn:
    context = ErrorContext(raw_response=pdu)
    if len(pdu) == 2 and pdu[0] == function | EXCEPTION_FLAG:
        raise ModbusExceptionError(pdu[1], context=context)
    raise AlicatParseError(
        f"{pdu!r} is not {wanted} in reply to function {function}",
        field_name="pdu",
        expected=wanted,
        actual=pdu,
        context=context,
    )


class Reply(NamedTuple):
    """A reply, and the number of the unit that it is from."""

    unit: int
    pdu: bytes


class Framing(Protocol):
    """Makes frames of requests and cuts replies out of bytes. Does no I/O; for one connection."""

    numbers_requests: bool
    """Whether a reply carries the number of its request. Late replies are then skipped."""

    def frame(self, unit: int, pdu: bytes) -> bytes:
        """Return the bytes of a request, to which the next reply must belong."""

    def feed(self, data: bytes) -> None:
        """Add bytes as they came."""

    def next_reply(self) -> Reply | None:
        """Take the next reply, or ``None`` until more bytes come.

        Raises:
            AlicatParseError: the bytes are not a frame. What was held is dropped.
        """

    def clear(self) -> int:
        """Drop the buffered bytes, and return their number."""


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
        """Return the bytes of a request, to which the next reply must belong."""
        content = bytes([unit]) + pdu
        self._sent = content + crc16(content).to_bytes(2, "little")
        return self._sent

    def feed(self, data: bytes) -> None:
        """Add bytes as they came."""
        self._buffer += data

    def next_reply(self) -> Reply | None:
        """Take the next reply, or ``None`` until more bytes come. Skips an echo of the request.

        Raises:
            AlicatParseError: the bytes are not a frame. What was held is dropped.
        """
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
        """Drop the buffered bytes, and return their number."""
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
        """Return the bytes of a request, with the next transaction number."""
        self._number = (self._number + 1) & 0xFFFF
        return _HEADER.pack(self._number, 0, _COUNTED + len(pdu), unit) + pdu

    def feed(self, data: bytes) -> None:
        """Add bytes as they came."""
        self._buffer += data

    def next_reply(self) -> Reply | None:
        """Take the reply to the last request, or ``None`` until more bytes come.

        Raises:
            AlicatParseError: the bytes are not a frame. What was held is dropped.
        """
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
        """Drop the buffered bytes, and return their number."""
        dropped = len(self._buffer)
        self._buffer.clear()
        return dropped
