"""Events of an instrument, other than its readings, for subscribers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from time import monotonic_ns, time_ns
from types import MappingProxyType
from typing import Self

from penstock._bounded_queue import BoundedQueue
from penstock.overflow import OverflowPolicy


class EventKind(StrEnum):
    """The kind of an event."""

    CONNECTION_LOST = "connection_lost"
    """The line or the instrument went away; its session ended."""
    RECONNECTED = "reconnected"
    """The same instrument, by its serial number, is back."""
    UNIT_CHANGED = "unit_changed"
    """An answer carried another engineering unit than the format in force."""
    FORMAT_CHANGED = "format_changed"
    """The data frame has other columns or units than before."""
    SETPOINT = "setpoint"
    GAS = "gas"
    TARE = "tare"
    SETTING = "setting"
    """Any other command that changed something."""


@dataclass(frozen=True, slots=True)
class DeviceEvent:
    """One event, stamped on both clocks in nanoseconds when it was noticed."""

    kind: EventKind
    unit_id: str
    message: str
    monotonic_ns: int
    unix_ns: int
    data: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))
    device: str = ""
    """The name of the device in its manager; empty outside of one."""

    @classmethod
    def now(
        cls,
        kind: EventKind,
        unit_id: str,
        message: str,
        data: Mapping[str, object] | None = None,
    ) -> Self:
        """An event with the present time."""
        known = MappingProxyType(dict(data or {}))
        return cls(kind, unit_id, message, monotonic_ns(), time_ns(), known)


class Subscribers:
    """The callbacks for events, called in the order in which they were added."""

    def __init__(self) -> None:
        self._callbacks: list[Callable[[DeviceEvent], None]] = []

    def add(self, callback: Callable[[DeviceEvent], None]) -> Callable[[], None]:
        """Call ``callback`` with every event. Returns a function that ends the subscription."""
        self._callbacks.append(callback)
        return lambda: self._callbacks.remove(callback)

    def tell(self, event: DeviceEvent) -> None:
        """Call each callback with an event. An exception of a callback is raised."""
        for callback in tuple(self._callbacks):
            callback(event)


class EventStream:
    """Events in the order in which they happened, as an asynchronous iterator for one task.

    It ends once its context has ended and the waiting events were read.
    """

    def __init__(self, capacity: int) -> None:
        self._events: BoundedQueue[DeviceEvent] = BoundedQueue(capacity, OverflowPolicy.DROP_OLDEST)

    @property
    def dropped(self) -> int:
        """Events that were lost because the reader did not keep up."""
        return self._events.dropped

    def put(self, event: DeviceEvent) -> None:
        """Add an event."""
        self._events.put(event)

    def close(self) -> None:
        """End the stream: no more events are added."""
        self._events.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> DeviceEvent:
        return await self._events.get()
