"""A command as one object: its bytes, the shape of its answer, and who may be told to do it.

Every command of the protocol is a :class:`Command` or a :class:`TableCommand`, and ``Commands``
holds them all. A command does no input or output: a session asks it for its bytes, sends them, and
gives it the line that comes back. So each can be tested as a table of bytes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, TypeVar

from ..data_frame import DataFrameFormat
from ..errors import AlicatParseError, AlicatProtocolError
from ..events import EventKind
from ..firmware import FirmwareFamily, FirmwareVersion
from ..frame_decoder import FrameDecoder
from ..kinds import Capability, DeviceKind, Medium
from ..registry import Statistic
from ..replies import refuse_line

__all__ = [
    "ALL_KINDS",
    "CONTROLLERS",
    "FLOW_KINDS",
    "NUMERIC_FAMILIES",
    "V8_AND_NEWER",
    "V10_ONLY",
    "Command",
    "CommandContext",
    "CommandSpec",
    "FirmwareRange",
    "ReplyIdentity",
    "ReportedUnit",
    "TableCommand",
    "always",
    "match_reply",
    "parse_error",
    "reply_shape",
]

Req = TypeVar("Req")
Resp = TypeVar("Resp")


class ReplyIdentity(Enum):
    """How an answer tells whose it is."""

    LETTERED = "lettered"
    """It begins with the unit's letter."""
    LETTERLESS = "letterless"
    """It does not: it can be told from another unit's only if no other owes an answer."""


ALL_KINDS = frozenset(DeviceKind)
CONTROLLERS = frozenset({DeviceKind.FLOW_CONTROLLER, DeviceKind.PRESSURE_CONTROLLER})
FLOW_KINDS = frozenset({DeviceKind.FLOW_METER, DeviceKind.FLOW_CONTROLLER})


@dataclass(frozen=True, slots=True)
class FirmwareRange:
    """The firmware that has a command: per family, from one version to another.

    Families that are not named do not have it.
    """

    families: frozenset[FirmwareFamily]
    first: FirmwareVersion | None = None
    """The first version of its family that has the command; other families: all."""
    last: FirmwareVersion | None = None
    """The last version of its family that has the command; other families: all."""

    def __contains__(self, firmware: object) -> bool:
        if not isinstance(firmware, FirmwareVersion) or firmware.family not in self.families:
            return False
        first, last = self.first, self.last
        if first is not None and first.family is firmware.family and firmware < first:
            return False
        return not (last is not None and last.family is firmware.family and firmware > last)


ALL_FAMILIES = frozenset(FirmwareFamily)
NUMERIC_FAMILIES = ALL_FAMILIES - {FirmwareFamily.GP}
V8_AND_NEWER = frozenset({FirmwareFamily.V8_V9, FirmwareFamily.V10})
V10_ONLY = frozenset({FirmwareFamily.V10})
ANY_FIRMWARE = FirmwareRange(ALL_FAMILIES)


@dataclass(frozen=True, slots=True)
class CommandContext:
    """What a command needs to know of the unit that it is for."""

    unit_id: str
    firmware: FirmwareVersion
    data_frame_format: DataFrameFormat | None = None
    decoder: FrameDecoder | None = None
    """Decodes the unit's data frames; for commands that are answered by one."""

    @property
    def prefix(self) -> str:
        """What GP firmware wants between the letter and a command that writes."""
        return "$$" if self.firmware.family is FirmwareFamily.GP else ""


@dataclass(frozen=True, slots=True)
class ReportedUnit:
    """The engineering unit that an answer bears, and the quantity that it belongs to."""

    quantity: Statistic | None
    """``None``: the setpoint."""
    label: str


def _no_arguments(request: Any, context: CommandContext) -> tuple[str, ...]:
    return ()


def _no_units(request: Any, answer: Any) -> tuple[ReportedUnit, ...]:
    return ()


def _never(request: Any) -> bool:
    return False


def always(request: Any) -> bool:
    """For commands that do something whatever their arguments."""
    return True


def _nothing_to_confirm(request: Any) -> str:
    return ""


def _at_once(request: Any) -> float:
    return 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandSpec(Generic[Req]):
    """What every command has: its bytes, and who may be told to do it."""

    name: str
    token: str
    """What stands behind the unit's letter, without arguments."""
    wanted: str
    """What the answer is, as error messages name it."""
    arguments: Callable[[Req, CommandContext], tuple[str, ...]] = _no_arguments
    """The arguments as they are written; raises :class:`AlicatValidationError` for values that the
    instrument could not take."""
    device_kinds: frozenset[DeviceKind] = ALL_KINDS
    media: Medium = Medium.GAS | Medium.LIQUID
    required_capabilities: Capability = Capability.NONE
    firmware: FirmwareRange = ANY_FIRMWARE
    changes: Callable[[Req], bool] = _never
    """Whether a request does more than ask. Such a request is never sent a second time."""
    confirm: Callable[[Req], str] = _nothing_to_confirm
    """What a request cannot undo, or lets happen by itself, as words for "... : repeat it with
    confirm=True"; empty where it may be sent without."""
    saves: Callable[[Req], bool] = _never
    """Whether a request writes to the EEPROM, which wears out."""
    event: EventKind = EventKind.SETTING
    """What a change of it is called among the device's events."""
    invalidates_format: Callable[[Req], bool] = _never
    """Whether the data frame may have other columns or units afterwards."""

    def encode(self, context: CommandContext, request: Req) -> bytes:
        """The bytes to send.

        Raises:
            AlicatValidationError: an argument is not possible.
        """
        arguments = self.arguments(request, context)
        prefix = context.prefix if self.changes(request) else ""
        return f"{context.unit_id}{prefix}{' '.join((self.token, *arguments))}\r".encode("ascii")


@dataclass(frozen=True, slots=True, kw_only=True)
class Command(CommandSpec[Req], Generic[Req, Resp]):
    """A command that is answered by one line.

    ``Req`` is a dataclass of its arguments, ``Resp`` what its answer becomes.
    """

    decode: Callable[[bytes, Req, CommandContext], Resp]
    """Makes a value of the answer line, or raises an :class:`AlicatProtocolError` for every line
    that is not this command's answer: it decides what is believed."""
    identity: ReplyIdentity = ReplyIdentity.LETTERED
    reported_units: Callable[[Req, Resp], tuple[ReportedUnit, ...]] = _no_units
    """The units that an answer bears; the session compares them with the format in force."""
    patience_s: Callable[[Req], float] = _at_once
    """Seconds that a request makes the instrument wait before it answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableCommand(CommandSpec[Req], Generic[Req, Resp]):
    """A command that is answered by a table, one line a row, without an end mark."""

    is_row: Callable[[bytes], bool]
    """Whether a line looks like a row of this table and like nothing else."""
    is_last_row: Callable[[bytes], bool] = _never
    """Whether a row is known to be the last one. Otherwise silence ends the table."""
    decode_rows: Callable[[Sequence[bytes], CommandContext], Resp]


def reply_shape(pattern: bytes) -> re.Pattern[bytes]:
    """The shape of a one-line answer: the unit's letter, white space, then ``pattern``."""
    return re.compile(rb"([A-Z])\s+" + pattern + rb"$")


def match_reply(
    shape: re.Pattern[bytes], line: bytes, context: CommandContext, wanted: str
) -> re.Match[bytes]:
    """Match an answer and its unit's letter. The letter is group 1.

    Raises:
        AlicatProtocolError: the line is no such answer; the class tells why.
    """
    match = shape.match(line)
    if match is None or match[1] != context.unit_id.encode():
        refuse_line(line, context.unit_id, wanted=wanted)
    return match


def parse_error(line: bytes, context: CommandContext, wanted: str) -> AlicatProtocolError:
    """The error for an answer whose form is right and whose content is not possible."""
    return AlicatParseError(
        f"unit {context.unit_id}: {line!r} is not {wanted}",
        field_name=wanted,
        expected=wanted,
        actual=line,
    )
