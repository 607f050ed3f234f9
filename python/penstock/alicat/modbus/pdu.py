"""Modbus requests and what their replies hold, without addressing and checksums.

Only what reads and writes 16-bit registers: functions 3, 4 and 16. Function 6 is left out: its
reply repeats the request, so the echo of a two-wire adapter would pass for the instrument's answer.

Source of the formats: MODBUS Application Protocol Specification V1.1b3.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import NoReturn, Protocol

from penstock.alicat.errors import (
    AlicatCommandRejectedError,
    AlicatParseError,
    AlicatValidationError,
    ErrorContext,
)

__all__ = ["ModbusExceptionError", "ReadRegisters", "Request", "WriteRegisters"]

READ_HOLDING = 3
READ_INPUT = 4
WRITE_MULTIPLE = 16
EXCEPTION_FLAG = 0x80

_MOST_READ = 125
_MOST_WRITTEN = 123
_MEANINGS = {
    1: "it does not have this function",
    2: "it does not have these registers",
    3: "it does not take these values",
    4: "it failed to do it",
    5: "it has begun and takes long",
    6: "it is busy",
    7: "it cannot do it in its present state",
    8: "its memory has a parity error",
    10: "the gateway has no path to it",
    11: "it does not answer the gateway",
}


class ModbusExceptionError(AlicatCommandRejectedError):
    """The instrument, or a gateway before it, answered with an exception code."""

    def __init__(self, code: int, *, context: ErrorContext | None = None) -> None:
        self.code = code
        meaning = _MEANINGS.get(code, "the code is none of the specification's")
        super().__init__(
            f"the instrument refused the request with Modbus exception {code}: {meaning}",
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

    ``input_registers`` reads input registers (function 4) in place of holding registers.

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
        return struct.pack(">BHH", self.function, self.address, self.count)

    def decode(self, pdu: bytes) -> tuple[int, ...]:
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
        count = len(self.values)
        return struct.pack(
            f">BHHB{count}H", WRITE_MULTIPLE, self.address, count, 2 * count, *self.values
        )

    def decode(self, pdu: bytes) -> tuple[int, ...]:
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
