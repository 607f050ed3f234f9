"""The framing of requests and answers on a line.

The bus is independent of protocols: a framing turns bytes into requests and messages into bytes.
Lines that end with a carriage return are one framing; Modbus RTU and Modbus TCP are in
``modbus_framing``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

__all__ = ["Framing", "LineFraming", "Request"]

#: The size of an instrument's input buffer for one request.
_REQUEST_LIMIT: Final = 256


@dataclass(frozen=True, slots=True)
class Request:
    """One request that has arrived in full."""

    address: str
    """The address: the letter of a unit, or a number as text."""
    body: bytes
    """The request without address and framing."""
    end: int
    """The number of bytes of the last piece up to the end of the request."""
    number: int = 0
    """The number that the answer has to repeat, if requests are numbered."""


class Framing(Protocol):
    """Cuts requests out of bytes, and makes the bytes of an answer. Keeps state of one line."""

    def feed(self, data: bytes, at: float) -> list[Request]:
        """Take bytes that the host wrote at ``at``; return the requests that end in them.

        ``at`` is on the bus's clock, for framings that end a frame by silence.
        """
        ...

    def encode(self, request: Request, messages: list[bytes]) -> bytes:
        """The bytes of an answer that consists of ``messages``; none at all is silence."""
        ...

    def reset(self) -> None:
        """Drop a partial request, as when the cable is pulled."""
        ...


class LineFraming:
    """Alicat ASCII: the unit id is the first letter, a carriage return ends every line."""

    def __init__(self) -> None:
        self._partial = bytearray()

    def feed(self, data: bytes, at: float) -> list[Request]:
        """Take bytes; see :class:`Framing`. Empty lines and padding are skipped."""
        requests = []
        begin = 0
        while (end := data.find(b"\r", begin)) >= 0:
            self._collect(data[begin:end])
            begin = end + 1
            overflown = len(self._partial) > _REQUEST_LIMIT
            line = bytes(self._partial).strip(b"\n\0 ")
            self._partial.clear()
            if line:
                body = b"?overflow" if overflown else line[1:]
                requests.append(Request(line[:1].decode("latin-1").upper(), body, begin))
        self._collect(data[begin:])
        return requests

    def encode(self, request: Request, messages: list[bytes]) -> bytes:
        """Every message as a line; see :class:`Framing`."""
        return b"".join(message + b"\r" for message in messages)

    def reset(self) -> None:
        """Drop a partial line."""
        self._partial.clear()

    def _collect(self, piece: bytes) -> None:
        # One byte more than the limit is kept as the mark of a request that is too long.
        self._partial += piece[: max(0, _REQUEST_LIMIT + 1 - len(self._partial))]
