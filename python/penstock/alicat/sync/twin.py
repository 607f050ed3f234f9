"""Blocking devices made of asynchronous ones."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, Self, TypeVar

from penstock.alicat._frames.reading import FieldSchema
from penstock.alicat.sync.waiting import run_without_loop

__all__ = ["SyncTwin", "blocking", "immediate"]

P = ParamSpec("P")
R = TypeVar("R")
D = TypeVar("D")


def blocking(
    method: Callable[Concatenate[D, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[Any, P], R]:
    """The blocking twin of a device's asynchronous method, for a class with such a ``_device``."""
    name = method.__name__

    @functools.wraps(method)
    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        # By name, so that a device of a subclass runs its own.
        coroutine: Coroutine[Any, Any, R] = getattr(self._device, name)(*args, **kwargs)
        return run_without_loop(coroutine)

    return call


def immediate(
    method: Callable[Concatenate[D, P], R],
) -> Callable[Concatenate[Any, P], R]:
    """The same for a method that is not a coroutine."""
    name = method.__name__

    @functools.wraps(method)
    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        result: R = getattr(self._device, name)(*args, **kwargs)
        return result

    return call


class _Device(Protocol):
    @property
    def unit_id(self) -> str: ...
    def field_schema(self) -> tuple[FieldSchema, ...]: ...
    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...


Twin = TypeVar("Twin", bound=_Device)


class SyncTwin(Generic[Twin]):
    """The base of the blocking twins of all devices.

    May be used from several threads: their questions queue on the bus. A call ends by its timeouts;
    a signal handler that raises (Ctrl-C) ends it too, and leaves its unit owing an answer, which
    the next call deals with.
    """

    def __init__(self, device: Twin) -> None:
        self._device = device

    @property
    def asynchronous(self) -> Twin:
        """The device whose twin this is."""
        return self._device

    @property
    def unit_id(self) -> str:
        """Its letter on the bus, or its Modbus unit number as text."""
        return self._device.unit_id

    def field_schema(self) -> tuple[FieldSchema, ...]:
        """Name, kind and unit of every field of its readings, in order, before the first."""
        return self._device.field_schema()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        run_without_loop(self._device.__aexit__(exc_type, exc, traceback))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._device!r}>"
