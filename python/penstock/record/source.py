"""What a recorder needs of the instruments: protocols only, so that any family fits.

Nothing here imports an instrument package. :class:`penstock.alicat.AlicatManager` satisfies
:class:`PollSource`; so does any object with ``names`` and ``poll``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Protocol, runtime_checkable

__all__ = [
    "DeviceResultLike",
    "FieldSchemaLike",
    "GroupedPollSource",
    "PollSource",
    "ReadingLike",
    "SchemaSource",
]


class ReadingLike(Protocol):
    """One decoded reply: the measured values by field name, and the status codes."""

    @property
    def unit_id(self) -> str: ...

    @property
    def values(self) -> Mapping[str, float | str]: ...

    @property
    def status(self) -> Collection[str]: ...


class DeviceResultLike(Protocol):
    """A reply or the error that stood in its place, with its own four time stamps.

    ``received_*`` of a failed poll is the moment at which it was given up. The ``_at`` stamps are
    aware UTC datetimes read from the wall clock, the ``_monotonic_ns`` stamps come from
    ``time.monotonic_ns``.
    """

    @property
    def value(self) -> ReadingLike | None: ...

    @property
    def error(self) -> Exception | None: ...

    @property
    def requested_at(self) -> datetime: ...

    @property
    def received_at(self) -> datetime: ...

    @property
    def requested_monotonic_ns(self) -> int: ...

    @property
    def received_monotonic_ns(self) -> int: ...


class FieldSchemaLike(Protocol):
    """A field of a device, known before its first sample; ``kind`` is ``"float"`` or ``"str"``."""

    @property
    def name(self) -> str: ...

    @property
    def kind(self) -> str: ...

    @property
    def unit(self) -> str | None: ...


class PollSource(Protocol):
    """Something that can be asked for the present values of named devices.

    ``poll`` should *return* failures as results with an error. An exception that it raises is
    recorded too, as a failed row for each device that was asked, but then the replies of the
    devices that did answer in the same call are lost: give a manager the error policy RETURN.
    """

    @property
    def names(self) -> Sequence[str]: ...

    async def poll(self, names: Sequence[str] | None = None) -> Mapping[str, DeviceResultLike]: ...


@runtime_checkable
class GroupedPollSource(Protocol):
    """A source that tells which devices share a bus: groups may be polled side by side."""

    def poll_groups(self) -> Sequence[Sequence[str]]: ...


@runtime_checkable
class SchemaSource(Protocol):
    """A source that tells the fields of its devices before the first sample."""

    def field_schemas(self) -> Mapping[str, Sequence[FieldSchemaLike]]: ...
