"""What an archive asks of the store that it is in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from penstock.record.errors import RecordError

__all__ = ["ArchiveError", "Store", "StoredObject"]


class ArchiveError(RecordError):
    """The store of an archive does not take, or does not give, what it is asked for."""


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object in a store.

    Attributes:
        name: relative to the archive, with ``/``.
        size: bytes.
        modified: Unix time in seconds, by the store's clock.
    """

    name: str
    size: int
    modified: float


class Store(Protocol):
    """Named objects, each complete or not there. Methods block, and raise ArchiveError.

    An object is durable when its call returns. Any thread may call, one at a time.
    """

    def put(self, name: str, data: bytes) -> None:
        """Create or replace an object, in one step."""

    def create(self, name: str, data: bytes) -> bool:
        """Create an object; False if there is one of this name, which then stays."""

    def read(self, name: str) -> bytes | None:
        """An object; None if it is not there."""

    def list(self, folder: str) -> list[StoredObject]:
        """All objects below a folder, in the order of their names."""

    def delete(self, name: str) -> None:
        """Remove an object; nothing happens if it is not there."""

    def location(self, name: str) -> str:
        """The path or URL of an object."""
