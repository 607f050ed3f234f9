"""The errors of the Alicat part: one family, each with the context of its failure.

The message is one sentence for a person: the question and the instrument, what happened, what to
do. The :class:`ErrorContext` beside it is for programs. No other exception is raised, so ``except
AlicatError`` around a measurement loop is complete. Timeouts and lost connections are also the
standard ``TimeoutError`` and ``ConnectionError``.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import Self

    from penstock.alicat._instrument.kinds import DeviceKind, FirmwareVersion, Medium

__all__ = [
    "AlicatCapabilityError",
    "AlicatCommandRejectedError",
    "AlicatConfigurationError",
    "AlicatConnectionError",
    "AlicatDiscoveryError",
    "AlicatError",
    "AlicatFirmwareError",
    "AlicatIdentityError",
    "AlicatMediumMismatchError",
    "AlicatMissingHardwareError",
    "AlicatParseError",
    "AlicatProtocolError",
    "AlicatStreamingModeError",
    "AlicatTimeoutError",
    "AlicatTransportError",
    "AlicatUnitChangedError",
    "AlicatUnitIdMismatchError",
    "AlicatUnsupportedCommandError",
    "AlicatValidationError",
    "ErrorContext",
    "InvalidUnitIdError",
    "UnknownFluidError",
    "UnknownGasError",
    "UnknownStatisticError",
    "UnknownUnitError",
]

_NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorContext:
    """The circumstances of an error. Every field may be unknown (``None``)."""

    command_name: str | None = None
    command_bytes: bytes | None = None
    raw_response: bytes | None = None
    unit_id: str | None = None
    port: str | None = None
    baudrate: int | None = None
    firmware: FirmwareVersion | None = None
    device_kind: DeviceKind | None = None
    device_media: Medium | None = None
    command_media: Medium | None = None
    elapsed_s: float | None = None
    extra: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)

    def __post_init__(self) -> None:
        object.__setattr__(self, "extra", MappingProxyType(dict(self.extra)))

    def merged(self, **updates: Any) -> ErrorContext:
        """A copy with the values of ``updates``; a name that is not a field goes into ``extra``."""
        known = {name: value for name, value in updates.items() if name in _FIELD_NAMES}
        others = {name: value for name, value in updates.items() if name not in _FIELD_NAMES}
        return replace(self, **known, extra={**self.extra, **others})


_FIELD_NAMES = frozenset(f.name for f in fields(ErrorContext)) - {"extra"}
_NO_CONTEXT = ErrorContext()


class AlicatError(Exception):
    """Base of every error raised by :mod:`penstock.alicat`."""

    context: ErrorContext

    def __init__(self, message: str = "", *, context: ErrorContext | None = None) -> None:
        super().__init__(message)
        self.context = context or _NO_CONTEXT

    def with_context(self, **updates: Any) -> Self:
        """A copy of this error whose context has the values of ``updates``."""
        twin = copy.copy(self)
        twin.context = self.context.merged(**updates)
        twin.__cause__ = self.__cause__
        twin.__traceback__ = self.__traceback__
        return twin

    def __copy__(self) -> Self:
        # Not through __reduce__: subclasses take other constructor arguments than ``args``.
        cls = type(self)
        twin = cls.__new__(cls, *self.args)
        twin.args = self.args
        twin.__dict__.update(self.__dict__)
        return twin


class AlicatConfigurationError(AlicatError):
    """The request is not possible; no byte was sent."""


class _UnknownNameError(AlicatConfigurationError):
    _what = "name"
    _remedy = ""

    def __init__(
        self,
        value: str | int,
        *,
        suggestions: tuple[str, ...] = (),
        context: ErrorContext | None = None,
    ) -> None:
        self.value = value
        self.suggestions = suggestions
        hint = self._remedy
        if suggestions:
            hint = f"; did you mean {' or '.join(suggestions)}?"
        super().__init__(f"unknown {self._what} {value!r}{hint}", context=context)


class UnknownGasError(_UnknownNameError):
    """No gas has this name or number."""

    _what = "gas"
    _remedy = ": gas_list() names those that the instrument has, including mixes"


class UnknownFluidError(_UnknownNameError):
    """No liquid has this name or number.

    No command takes a liquid yet; the name is here for programs that catch it.
    """

    _what = "fluid"


class UnknownUnitError(_UnknownNameError):
    """No engineering unit has this name or code."""

    _what = "unit"
    _remedy = ": write it as the instrument does, such as SCCM, SLPM or PSIA"


class UnknownStatisticError(_UnknownNameError):
    """No statistic has this name or code."""

    _what = "statistic"
    _remedy = ": name it as a column of the data frame, such as mass_flow or abs_press"


class InvalidUnitIdError(AlicatConfigurationError):
    """A unit id is one letter, A to Z."""


class AlicatValidationError(AlicatConfigurationError):
    """An argument is out of range, or a needed confirmation is missing; no byte was sent."""


class AlicatMediumMismatchError(AlicatConfigurationError):
    """The command is for gas and the instrument for liquid, or the other way round."""


class AlicatTransportError(AlicatError):
    """The bytes could not be sent or received."""


class AlicatTimeoutError(AlicatTransportError, TimeoutError):
    """No complete reply arrived in time. It is unknown whether the command was executed."""


class AlicatConnectionError(AlicatTransportError, ConnectionError):
    """The port could not be opened, or was lost."""


class AlicatProtocolError(AlicatError):
    """Bytes arrived, but they are not the reply to the question."""

    failure_code = "reply"


class AlicatParseError(AlicatProtocolError):
    """A reply does not have the required form; none of its values is used."""

    def __init__(
        self,
        message: str,
        *,
        field_name: str | None = None,
        expected: object = None,
        actual: object = None,
        context: ErrorContext | None = None,
    ) -> None:
        self.field_name = field_name
        self.expected = expected
        self.actual = actual
        super().__init__(message, context=context)


class AlicatCommandRejectedError(AlicatProtocolError):
    """The instrument rejected the command (``?`` and its variants)."""

    failure_code = "rejected"


class AlicatStreamingModeError(AlicatProtocolError):
    """An instrument on this port is streaming; questions cannot be answered meanwhile."""


class AlicatUnitIdMismatchError(AlicatProtocolError):
    """The reply carries another unit id than the question."""

    failure_code = "identity"

    def __init__(
        self,
        message: str,
        *,
        expected: str | None = None,
        actual: str | None = None,
        context: ErrorContext | None = None,
    ) -> None:
        self.expected = expected
        self.actual = actual
        super().__init__(message, context=context)


class AlicatCapabilityError(AlicatError):
    """The instrument cannot do this; no byte was sent."""


class AlicatUnsupportedCommandError(AlicatCapabilityError):
    """This kind of instrument does not have the command."""


class AlicatMissingHardwareError(AlicatCapabilityError):
    """The instrument lacks the hardware that the command needs."""


class AlicatFirmwareError(AlicatCapabilityError):
    """The instrument's firmware does not have the command."""

    def __init__(
        self,
        message: str,
        *,
        command: str | None = None,
        reason: str | None = None,
        actual: FirmwareVersion | None = None,
        required_min: FirmwareVersion | None = None,
        required_max: FirmwareVersion | None = None,
        context: ErrorContext | None = None,
    ) -> None:
        self.command = command
        self.reason = reason
        self.actual = actual
        self.required_min = required_min
        self.required_max = required_max
        super().__init__(message, context=context)


class AlicatDiscoveryError(AlicatError):
    """The search for instruments failed.

    :func:`find_devices` returns its failures and raises none; the name is here for programs that
    catch it.
    """


class AlicatUnitChangedError(AlicatProtocolError):
    """The instrument uses another engineering unit than the caller."""

    failure_code = "unit"

    def __init__(
        self,
        message: str,
        *,
        expected: str | None = None,
        actual: str | None = None,
        context: ErrorContext | None = None,
    ) -> None:
        self.expected = expected
        self.actual = actual
        super().__init__(message, context=context)


class AlicatIdentityError(AlicatProtocolError):
    """The instrument that answers is not the one that was opened."""

    failure_code = "identity"
