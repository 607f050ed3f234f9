"""The interface between a recorder and instruments: protocols only, for any family.

This module imports no instrument package. A source has an id, names of devices, and ``poll``. Each
further ability is a small protocol that a source may implement: the fields of its devices
(:class:`SchemaSource`), the identity of the devices (:class:`DescribedSource`), which of them share
a bus (:class:`GroupedPollSource`), the rate of each (:class:`RatedSource`), events besides readings
(:class:`EventSource`), and devices that send readings unasked (:class:`PushSource`).
:class:`penstock.alicat.AlicatManager` satisfies all but the last.

*Rejected:* one protocol with all of it. A source of one file of numbers would have to invent buses,
rates and events.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Literal, Protocol, runtime_checkable

FieldKind = Literal["float", "int", "bool", "text", "timestamp"]
"""What a field holds. ``int`` is 64 bits with sign; ``timestamp`` an aware datetime."""

FieldValue = float | int | bool | str | datetime
"""A value of a field. A field that is not declared beforehand holds numbers as ``float``."""


class ReadingLike(Protocol):
    """One decoded reply: the measured values by field name, and the status codes."""

    @property
    def values(self) -> Mapping[str, FieldValue]: ...

    @property
    def status(self) -> Collection[str]: ...


class Stamped(Protocol):
    """An exchange with a device, stamped on both clocks: when it was asked, when its answer came.

    The ``_at`` stamps are aware UTC datetimes read from the wall clock, the ``_monotonic_ns``
    stamps come from ``time.monotonic_ns``.
    """

    @property
    def requested_at(self) -> datetime: ...

    @property
    def received_at(self) -> datetime: ...

    @property
    def requested_monotonic_ns(self) -> int: ...

    @property
    def received_monotonic_ns(self) -> int: ...


class DeviceResultLike(Stamped, Protocol):
    """A reply, or the error in its place, with its own four time stamps.

    ``received_*`` of a failed poll is the moment at which it was given up.

    Three more attributes are used where a result has them: ``requested_unix_ns`` and
    ``received_unix_ns``, the ``_at`` stamps in nanoseconds since 1970, which saves a conversion and
    keeps the digits below a microsecond; and ``first_byte_monotonic_ns``, when the first byte of
    the reply came, or None. A source that has the last declares ``stamps_first_byte = True``.
    """

    @property
    def value(self) -> ReadingLike | None: ...

    @property
    def error(self) -> Exception | None: ...


class FieldSchemaLike(Protocol):
    """A field of a device, known before its first sample."""

    @property
    def name(self) -> str: ...

    @property
    def kind(self) -> FieldKind: ...

    @property
    def unit(self) -> str | None: ...


class SourceEvent(Protocol):
    """Something that happened to a device besides its readings, stamped on both clocks.

    ``kind`` is a word of the source's own, such as ``"setpoint"`` or ``"reconnected"``; ``message``
    is a sentence for people and ``data`` the same for programs.
    """

    @property
    def device(self) -> str:
        """The name of the device that the event concerns."""

    @property
    def kind(self) -> str:
        """The kind of event, such as ``"setpoint"``."""

    @property
    def message(self) -> str:
        """A sentence for people."""

    @property
    def monotonic_ns(self) -> int:
        """When it happened, in nanoseconds of the monotonic clock."""

    @property
    def unix_ns(self) -> int:
        """When it happened, in nanoseconds since 1970 by the wall clock."""

    @property
    def data(self) -> Mapping[str, object]:
        """The same for programs: values that JSON can hold."""


class PollSource(Protocol):
    """Something that can be asked for the present values of named devices.

    ``source_id`` tells one source from others in a recording; it does not change.

    ``poll`` should *return* a failure as a result with an error. If it raises an exception, each
    polled device gets a row with this error, and the replies of devices that did answer in the
    same call are lost; so give a manager the error policy RETURN.
    """

    @property
    def source_id(self) -> str:
        """The id of the source in a recording, such as a port. It does not change."""

    @property
    def names(self) -> Sequence[str]:
        """The devices that can be polled, by name. The order is that of the recording."""

    async def poll(self, names: Sequence[str] | None = None) -> Mapping[str, DeviceResultLike]:
        """Poll the named devices, or all of them, once each; return a result for each name.

        The recorder may cancel a poll when the recording ends. It polls different groups
        concurrently (:class:`GroupedPollSource`), but one group only once at a time.
        """


@runtime_checkable
class GroupedPollSource(Protocol):
    """A source that states which devices share a bus: groups may be polled concurrently."""

    def poll_groups(self) -> Sequence[Sequence[str]]:
        """The names of the devices, one sequence for each bus; each device is in one group."""


@runtime_checkable
class SchemaSource(Protocol):
    """A source that declares the fields of its devices before the first sample.

    ``revision`` grows whenever ``field_schemas()`` or ``device_facts()`` would answer differently.
    """

    @property
    def revision(self) -> int:
        """A number that grows with each change of the schemas or of the facts."""

    def field_schemas(self) -> Mapping[str, Sequence[FieldSchemaLike]]:
        """The fields of each known device, by the device's name, in the order of columns."""


@runtime_checkable
class DescribedSource(Protocol):
    """A source that identifies its devices.

    ``device_facts`` gives what identifies a device, such as ``model`` and ``serial``. The fact
    ``unit_id``, the device's address on its bus, goes into every row.
    """

    def device_facts(self, name: str) -> Mapping[str, str]:
        """The facts of the device ``name``; empty while it is not known."""


@runtime_checkable
class RatedSource(Protocol):
    """A source whose devices are to be polled at rates of their own.

    In polls a second. Devices that are not named follow the recording's rate.
    """

    def rates(self) -> Mapping[str, float]:
        """Polls a second by device name, for the devices that have a rate of their own."""


@runtime_checkable
class EventSource(Protocol):
    """A source that reports events of its devices.

    Entering the context begins to collect; leaving it ends that, and the stream then gives the
    events that wait in it and ends. The stream never blocks the source: a reader that does not keep
    up loses the oldest events.
    """

    def events(self) -> AbstractAsyncContextManager[AsyncIterator[SourceEvent]]:
        """A context whose value is the stream of events."""


@runtime_checkable
class PushSource(Protocol):
    """A source some of whose devices send readings by themselves.

    ``pushed_names`` are those devices; they are not polled. Entering the context lets them begin to
    send, leaving it makes them stop; the stream then gives the readings that wait in it and ends.
    Each item is the name of a device and what it sent.
    """

    @property
    def pushed_names(self) -> Collection[str]:
        """The devices that send by themselves."""

    def pushed(
        self,
    ) -> AbstractAsyncContextManager[AsyncIterator[tuple[str, DeviceResultLike]]]:
        """A context whose value is the stream of pairs: the name of a device, and its reading."""
