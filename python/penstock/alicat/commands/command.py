"""A command as one object: its bytes, its arguments, and the form of its answer.

Every command of the protocol is a :class:`Command` or a :class:`TableCommand`, and ``Commands``
holds them all. A command does no I/O: a session sends the bytes that it encodes, and passes the
answer line to its decoder. So each command can be tested as a table of bytes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, TypeVar

from penstock.alicat._bus.replies import refuse_line
from penstock.alicat._instrument.data_frame import DataFrameFormat
from penstock.alicat._instrument.events import EventKind
from penstock.alicat._instrument.kinds import (
    Capability,
    DeviceKind,
    FirmwareFamily,
    FirmwareVersion,
    Medium,
)
from penstock.alicat._instrument.reading import FrameDecoder
from penstock.alicat._instrument.setpoints import decimal_text
from penstock.alicat.errors import AlicatParseError, AlicatProtocolError, AlicatValidationError
from penstock.alicat.registry import Statistic

__all__ = [
    "ALL_KINDS",
    "CONTROLLERS",
    "FLOW_KINDS",
    "FROM_10V05",
    "NUMBER",
    "NUMERIC_FAMILIES",
    "UNIT",
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
    "bounded",
    "decode_flag",
    "match_reply",
    "parse_error",
    "refuse_save_alone",
    "reply_shape",
    "saving",
    "whole",
]


Req = TypeVar("Req")
Resp = TypeVar("Resp")


class ReplyIdentity(Enum):
    """How an answer shows which unit sent it."""

    LETTERED = "lettered"
    """It begins with the unit's letter."""
    LETTERLESS = "letterless"
    """The answer has no letter, so it can be assigned only if no other unit owes an answer."""


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
NUMERIC_FAMILIES = ALL_FAMILIES - {FirmwareFamily.GP, FirmwareFamily.BASIS}
V8_AND_NEWER = frozenset({FirmwareFamily.V8_V9, FirmwareFamily.V10})
V10_ONLY = frozenset({FirmwareFamily.V10})
ANY_FIRMWARE = FirmwareRange(ALL_FAMILIES)


@dataclass(frozen=True, slots=True)
class CommandContext:
    """What a command needs to know about its unit."""

    unit_id: str
    firmware: FirmwareVersion
    data_frame_format: DataFrameFormat | None = None
    decoder: FrameDecoder | None = None
    """Decodes the unit's data frames; for commands that are answered by one."""

    @property
    def prefix(self) -> str:
        """What GP firmware requires between the letter and a command that writes."""
        return "$$" if self.firmware.family is FirmwareFamily.GP else ""


@dataclass(frozen=True, slots=True)
class ReportedUnit:
    """The engineering unit in an answer, and the quantity that it belongs to."""

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
    """For commands that change something whatever their arguments."""
    return True


def _nothing_to_confirm(request: Any) -> str:
    return ""


def _at_once(request: Any) -> float:
    return 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandSpec(Generic[Req]):
    """The part that all commands share: their bytes, and the instruments that have them."""

    name: str
    token: str
    """The text after the unit's letter, without arguments."""
    wanted: str
    """What the answer is, as error messages name it."""
    separator: str = " "
    """The text between the token and its arguments."""
    arguments: Callable[[Req, CommandContext], tuple[str, ...]] = _no_arguments
    """Formats the arguments; raises :class:`AlicatValidationError` for values that the instrument
    cannot accept."""
    device_kinds: frozenset[DeviceKind] = ALL_KINDS
    media: Medium = Medium.GAS | Medium.LIQUID
    required_capabilities: Capability = Capability.NONE
    firmware: FirmwareRange = ANY_FIRMWARE
    changes: Callable[[Req], bool] = _never
    """Whether a request changes something. Such a request is never sent a second time."""
    confirm: Callable[[Req], str] = _nothing_to_confirm
    """The consequence that needs a confirmation, as words for "... : repeat it with confirm=True";
    empty if the request needs none."""
    saves: Callable[[Req], bool] = _never
    """Whether a request writes to the EEPROM, which wears out."""
    event: EventKind = EventKind.SETTING
    """The kind of event that reports a change."""
    invalidates_format: Callable[[Req], bool] = _never
    """Whether the request may change the columns or units of the data frame."""
    number: str = ""
    """The field of the request that holds a number in the unit of the setpoint, if it has one. The
    session proves the unit of such a number before it sends it."""

    def encode(self, context: CommandContext, request: Req) -> bytes:
        """The bytes to send.

        Raises:
            AlicatValidationError: an argument is not possible.
        """
        arguments = self.arguments(request, context)
        prefix = context.prefix
        if not self.changes(request) or self.token.startswith(prefix):
            prefix = ""
        written = self.token
        if arguments:
            written += self.separator + " ".join(arguments)
        return f"{context.unit_id}{prefix}{written}\r".encode("ascii")


@dataclass(frozen=True, slots=True, kw_only=True)
class Command(CommandSpec[Req], Generic[Req, Resp]):
    """A command that is answered by one line.

    ``Req`` is a dataclass of its arguments, ``Resp`` the type of the decoded answer.
    """

    decode: Callable[[bytes, Req, CommandContext], Resp]
    """Decodes the answer line, or raises an :class:`AlicatProtocolError` for every line that is not
    this command's answer. Nothing else checks the line."""
    identity: ReplyIdentity = ReplyIdentity.LETTERED
    reported_units: Callable[[Req, Resp], tuple[ReportedUnit, ...]] = _no_units
    """The units in an answer; the session compares them with the format in force."""
    patience_s: Callable[[Req], float] = _at_once
    """Seconds that the instrument waits before it answers the request."""


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
    return re.compile(rb"([A-Z])\s+" + pattern + rb"\Z")


def match_reply(
    shape: re.Pattern[bytes], line: bytes, context: CommandContext, wanted: str
) -> re.Match[bytes]:
    """Match an answer and its unit's letter. The letter is group 1.

    Raises:
        AlicatProtocolError: the line is not such an answer; the class says why.
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


#: Most settings came with firmware 10v05.
FROM_10V05 = FirmwareRange(V10_ONLY, first=FirmwareVersion(FirmwareFamily.V10, 10, 5))

#: A number in an answer, and a unit's code and label.
NUMBER = rb"([+-]?\d+(?:\.\d*)?)"
UNIT = rb"(\d{1,3})\s+(\S+(?: \S+)?)"


_FLAG = reply_shape(rb"([01])")


def decode_flag(line: bytes, context: CommandContext, wanted: str) -> bool:
    """The answer of a setting that is on (1) or off (0).

    Raises:
        AlicatProtocolError: the line is not such an answer; the class says why.
    """
    return match_reply(_FLAG, line, context, wanted)[2] == b"1"


def saving(save: bool | None) -> tuple[str, ...]:
    """The argument that keeps a setting over a power cycle; left out where not stated."""
    return () if save is None else (str(int(save)),)


def refuse_save_alone(save: bool | None) -> tuple[str, ...]:
    """No argument; ``save`` without a value is a mistake.

    Raises:
        AlicatValidationError: ``save`` is stated.
    """
    if save is not None:
        raise AlicatValidationError("save=... needs a new value: state the value too")
    return ()


def whole(value: int, low: int, high: int, what: str) -> str:
    """A whole number from ``low`` to ``high``.

    Raises:
        AlicatValidationError: it is none, or outside.
    """
    number: object = value
    if isinstance(number, bool) or not isinstance(number, int) or not low <= number <= high:
        raise AlicatValidationError(
            f"{what} must be a whole number from {low} to {high}, not {value!r}"
        )
    return str(int(value))


def bounded(value: float, low: float, high: float, what: str) -> str:
    """A number from ``low`` to ``high``, as a plain decimal.

    Raises:
        AlicatValidationError: it is not a finite number, or outside.
    """
    text = decimal_text(value, what)
    if not low <= value <= high:
        raise AlicatValidationError(f"{what} must be from {low:g} to {high:g}, not {value!r}")
    return text
