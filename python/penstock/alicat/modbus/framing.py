"""The interface of both framings of Modbus on a byte stream."""

from __future__ import annotations

from typing import NamedTuple, Protocol

__all__ = ["Framing", "Reply"]


class Reply(NamedTuple):
    """A reply, and the number of the unit that it is from."""

    unit: int
    pdu: bytes


class Framing(Protocol):
    """Makes frames of requests and cuts replies out of bytes. Does no I/O; for one connection."""

    numbers_requests: bool
    """Whether a reply carries the number of its request. Late replies are then skipped."""

    def frame(self, unit: int, pdu: bytes) -> bytes:
        """Return the bytes of a request, to which the next reply must belong."""

    def feed(self, data: bytes) -> None:
        """Add bytes as they came."""

    def next_reply(self) -> Reply | None:
        """Take the next reply, or ``None`` until more bytes come.

        Raises:
            AlicatParseError: the bytes are no frame. What was held is dropped.
        """

    def clear(self) -> int:
        """Drop the buffered bytes, and return their number."""
