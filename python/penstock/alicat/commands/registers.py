"""Numbered registers, for old firmware and for settings without a command.

A register is 16 or 32 bits wide, and what a value means is in the manual of its firmware. Gas (46),
controlled quantity (122), loop algorithm (85) and gains (21 to 23) are known. Writing a wrong value
can make an instrument useless, so it must be confirmed.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.alicat.commands.arguments import whole
from penstock.alicat.commands.command import (
    Command,
    CommandContext,
    always,
    match_reply,
    parse_error,
    reply_shape,
)

__all__ = [
    "READ_REGISTER",
    "WRITE_REGISTER",
    "ReadRegisterRequest",
    "RegisterValue",
    "WriteRegisterRequest",
]

_LAST_REGISTER = 999
_LOWEST, _HIGHEST = -(2**31), 2**32 - 1


@dataclass(frozen=True, slots=True)
class ReadRegisterRequest:
    """Ask for the value of a register."""

    register: int


@dataclass(frozen=True, slots=True)
class WriteRegisterRequest:
    """Write ``value`` into a register."""

    register: int
    value: int
    confirm: bool = False


@dataclass(frozen=True, slots=True)
class RegisterValue:
    """What a register holds."""

    unit_id: str
    register: int
    value: int


# "A   046 = 8"; the number is padded or not.
_REGISTER = reply_shape(rb"[Rr]?0*(\d{1,3})\s*=\s*(-?\d{1,10})")


def _decode(
    line: bytes, request: ReadRegisterRequest | WriteRegisterRequest, context: CommandContext
) -> RegisterValue:
    wanted = READ_REGISTER.wanted
    match = match_reply(_REGISTER, line, context, wanted)
    if int(match[2]) != request.register:
        raise parse_error(line, context, f"{wanted} {request.register}")
    return RegisterValue(context.unit_id, request.register, int(match[3]))


def _number(register: int) -> str:
    return whole(register, 0, _LAST_REGISTER, "the number of a register")


READ_REGISTER: Command[ReadRegisterRequest, RegisterValue] = Command(
    name="read_register",
    token="$$R",
    separator="",
    wanted="the value of a register",
    arguments=lambda request, context: (_number(request.register),),
    decode=_decode,
)


WRITE_REGISTER: Command[WriteRegisterRequest, RegisterValue] = Command(
    name="write_register",
    token="$$W",
    separator="",
    wanted="the value of a register",
    arguments=lambda request, context: (
        f"{_number(request.register)}="
        f"{whole(request.value, _LOWEST, _HIGHEST, 'the value of a register')}",
    ),
    decode=_decode,
    changes=always,
    saves=always,
    confirm=lambda request: (
        ""
        if request.confirm
        else f"a wrong value in register {request.register} can make the instrument useless"
    ),
    # Register 122 chooses the controlled quantity, 19 the columns of the data frame.
    invalidates_format=always,
)
