"""Four texts that an instrument keeps for its user."""

from __future__ import annotations

import re
from dataclasses import dataclass

from penstock.alicat.commands.arguments import FROM_10V05, whole
from penstock.alicat.commands.command import Command, CommandContext, match_reply, parse_error
from penstock.alicat.errors import AlicatValidationError

__all__ = ["USER_DATA", "UserDataRequest", "UserDataSetting"]

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


def _arguments(request: UserDataRequest, context: CommandContext) -> tuple[str, ...]:
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


def _decode(line: bytes, request: UserDataRequest, context: CommandContext) -> UserDataSetting:
    match = match_reply(_TEXT, line, context, USER_DATA.wanted)
    if match[2] is not None and int(match[2]) != request.slot:
        raise parse_error(line, context, USER_DATA.wanted)
    text = (match[3] or b"").decode("ascii", "replace")
    return UserDataSetting(context.unit_id, request.slot, text)


USER_DATA: Command[UserDataRequest, UserDataSetting] = Command(
    name="user_data",
    token="UD",
    wanted="its user data",
    arguments=_arguments,
    decode=_decode,
    firmware=FROM_10V05,
    changes=lambda request: request.value is not None,
    saves=lambda request: request.value is not None,
)
