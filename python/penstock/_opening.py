"""Functions that open something, whose result is awaited or entered with ``async with``."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from contextlib import AbstractAsyncContextManager
from functools import wraps
from types import TracebackType
from typing import Any, Generic, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R", bound=AbstractAsyncContextManager[Any])


class Opening(Coroutine[Any, Any, R], Generic[R]):
    """What is not open yet: ``await`` it, or use it with ``async with``, which closes it again.

    It is a coroutine, so a task can be made of it. Use it once.
    """

    __slots__ = ("_coroutine", "_opened")

    def __init__(self, coroutine: Coroutine[Any, Any, R]) -> None:
        self._coroutine = coroutine

    def __await__(self) -> Generator[Any, Any, R]:
        return self._coroutine.__await__()

    async def __aenter__(self) -> R:
        self._opened = await self._coroutine
        entered: R = await self._opened.__aenter__()
        return entered

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        return await self._opened.__aexit__(kind, value, traceback)

    def send(self, value: Any) -> Any:
        """Step the coroutine."""
        return self._coroutine.send(value)

    def throw(self, *error: Any) -> Any:
        """Step the coroutine with an exception."""
        return self._coroutine.throw(*error)

    def close(self) -> None:
        """End what has not been awaited, without opening anything."""
        self._coroutine.close()


def opening(function: Callable[P, Coroutine[Any, Any, R]]) -> Callable[P, Opening[R]]:
    """Let the result of a coroutine function be entered with ``async with`` too."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> Opening[R]:
        return Opening(function(*args, **kwargs))

    return call
