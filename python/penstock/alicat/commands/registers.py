"""What an instrument stores under numbers: registers, and the texts of users.

Registers are for old firmware and for settings without a command. A register is 16 or 32 bits wide,
and what a value means is in the manual of its firmware. Gas (46), controlled quantity (122), loop
algorithm (85) and gains (21 to 23) are known. Writing a wrong value can make an instrument useless,
so it must be confirmed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from penstock.alicat.commands.command import (
    FROM_10V05,
    Command,
    CommandContext,
    always,
    match_reply,
    parse_error,
    reply_shape,
    whole,
)
from penstock.alicat.errors import AlicatValidationError

__all__ = [
    "READ_REGISTER",
    "USER_DATA",
    "WRITE_REGISTER",
    "ReadRegisterRequest",
    "RegisterValue",
    "UserDataRequest",
    "UserDataSetting",
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


def _decode_register(
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
    decode=_decode_register,
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
    decode=_decode_register,
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


_LAST_SLOT = 3
_LONGEST_TEXT = 32


@dataclass(frozen=True, slots=True)
class UserDataRequest:
    """Store ``value`` (up to 32 printable ASCII characters) in slot 0 to 3; ``None`` asks."""

    slot: int
    value: str | None = None


@dataclass(frozen=True, slots=True)
class UserDataSetting:
    """The text of a slot; empty if nothing was stored."""

    unit_id: str
    slot: int
    value: str


# The answer for an empty slot is the letter alone.
_TEXT = re.compile(rb"([A-Z])(?:\s+([0-3])(?: (.*))?)?\s*$")


def _user_data_arguments(request: UserDataRequest, context: CommandContext) -> tuple[str, ...]:
    slot = whole(request.slot, 0, _LAST_SLOT, "slot")
    if request.value is None:
        return (slot,)
    value = request.value
    if len(value) > _LONGEST_TEXT or not value.isascii() or not value.isprintable():
        raise AlicatValidationError(
            f"user data must be up to {_LONGEST_TEXT} printable ASCII characters, not {value!r}"
        )
    if value != value.strip():
        # Framing strips the ends of a line, so such a text would not be read back unchanged.
        raise AlicatValidationError(f"user data must not begin or end with a space, as {value!r}")
    return slot, value


def _decode_user_data(
    line: bytes, request: UserDataRequest, context: CommandContext
) -> UserDataSetting:
    match = match_reply(_TEXT, line, context, USER_DATA.wanted)
    if match[2] is not None and int(match[2]) != request.slot:
        raise parse_error(line, context, USER_DATA.wanted)
    text = (match[3] or b"").decode("ascii", "replace")
    return UserDataSetting(context.unit_id, request.slot, text)


USER_DATA: Command[UserDataRequest, UserDataSetting] = Command(
    name="user_data",
    token="UD",
    wanted="its user data",
    arguments=_user_data_arguments,
    decode=_decode_user_data,
    firmware=FROM_10V05,
    changes=lambda request: request.value is not None,
    saves=lambda request: request.value is not None,
)
