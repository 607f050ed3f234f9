"""What opens a file when it is awaited: :class:`Opener`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from types import TracebackType
from typing import Any, Generic, TypeVar

from anyio.abc import AsyncResource

__all__ = ["Opener"]

R = TypeVar("R", bound=AsyncResource)


class Opener(Generic[R]):
    """Something that is not open yet: ``await`` it, or use it with ``async with``."""

    def __init__(self, open_now: Callable[[], Awaitable[R]]) -> None:
        self._open = open_now
        self._opened: R | None = None

    def __await__(self) -> Generator[Any, Any, R]:
        return self._open().__await__()

    async def __aenter__(self) -> R:
        self._opened = opened = await self._open()
        return opened

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._opened is not None:
            await self._opened.aclose()
