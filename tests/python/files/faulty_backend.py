"""The running loop's file backend, with calls that fail or wait on request."""

from __future__ import annotations

import errno
import inspect
import os
from collections.abc import Callable, Generator
from typing import Any

from penstock.files._backend import current_backend

Fault = Callable[[int, str], object]

CALLS = frozenset(
    {
        *("open", "close", "read", "write", "fsync", "fdatasync", "truncate", "replace"),
        *("unlink", "copy_range", "call"),
    }
)


def no_fault(number: int, name: str) -> None:
    """Let the call succeed."""


class FaultyBackend:
    """Forwards calls to the real backend, and records their names.

    Args:
        fault: called before each call with the call's number and name. Its exception becomes the
            call's result. An awaitable that it returns is awaited.
        afterwards: the same, after the call.
    """

    def __init__(self, *, fault: Fault = no_fault, afterwards: Fault = no_fault) -> None:
        self.calls: list[str] = []
        self._fault = fault
        self._afterwards = afterwards

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(current_backend(), name)
        if name not in CALLS:
            return attribute

        def call(*arguments: Any, **keywords: Any) -> _Call:
            return _Call(self, name, lambda: attribute(*arguments, **keywords))

        return call

    async def perform(self, name: str, call: _Call) -> Any:
        """Make a call between its two faults."""
        number = len(self.calls)
        self.calls.append(name)
        await _settled(self._fault(number, name))
        result = await call.begin()
        await _settled(self._afterwards(number, name))
        return result


class _Call:
    """An operation of the backend with its faults."""

    def __init__(self, backend: FaultyBackend, name: str, make: Callable[[], Any]) -> None:
        self._make = make
        self._operation: Any = None
        self._whole = backend.perform(name, self)

    def begin(self) -> Any:
        self._operation = self._make()
        return self._operation

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._whole.__await__()

    def close(self) -> None:
        self._whole.close()

    def request_end(self) -> None:
        if self._operation is not None:
            self._operation.request_end()


def failing(*names: str, number: int = errno.EIO) -> Fault:
    """Return a fault that makes all calls with these names fail with this errno."""

    def fault(_: int, name: str) -> None:
        if name in names:
            raise system_error(number)

    return fault


def system_error(number: int) -> OSError:
    """Return the OSError that the system raises for this errno."""
    return OSError(number, os.strerror(number))


async def _settled(result: Any) -> None:
    if inspect.isawaitable(result):
        await result
