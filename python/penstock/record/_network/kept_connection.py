"""The one connection of a transport: made when it is needed, and kept until it is lost."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Generic, Protocol, TypeVar

from penstock.record._network.protocol import Away


class Connection(Protocol):
    """What is not mended: whoever uses it makes another one."""

    @property
    def loss(self) -> Away | None:
        """Why and when it was lost, as an error; None while it is not."""

    async def close(self) -> None:
        """Close it."""


C = TypeVar("C", bound=Connection)


class KeptConnection(Generic[C]):
    """A connection for one task at a time.

    Args:
        begin: makes a connection that is ready for rows; one that it cannot make ready, it closes.
    """

    def __init__(self, begin: Callable[[], Awaitable[C]]) -> None:
        self._begin = begin
        self._connection: C | None = None

    async def get(self) -> C:
        """The connection. The loss of one is raised once, before there is another.

        Raises:
            Away: it was lost, or there can be none now.
        """
        connection = self._connection
        if connection is not None and (loss := connection.loss) is not None:
            self._connection = None
            await connection.close()
            raise loss
        if connection is None:
            connection = self._connection = await self._begin()
        return connection

    def release(self) -> C | None:
        """The connection, which the caller closes; None without one. The next one is made anew."""
        connection, self._connection = self._connection, None
        return connection
