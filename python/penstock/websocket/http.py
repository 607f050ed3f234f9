"""Requests, responses and header fields of the opening handshake."""

from __future__ import annotations

import http
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field

__all__ = ["Headers", "HeadersLike", "Request", "Response"]


class Headers(MutableMapping[str, str]):
    """Header fields: a mapping whose names have no case, and may occur several times.

    `headers[name]` is the first value, `get_all` has all of them, and setting an item adds one.
    Iterating yields the names in lower case.

    Args:
        fields: The initial fields, in their order.
    """

    def __init__(self, fields: HeadersLike = ()) -> None:
        self._fields: list[tuple[str, str]] = []
        self.update_from(fields)

    def update_from(self, fields: HeadersLike) -> None:
        """Add all `fields`."""
        pairs = fields.items() if isinstance(fields, Mapping) else fields
        if isinstance(fields, Headers):
            pairs = fields.raw_items()
        for name, value in pairs:
            self[name] = value

    def __getitem__(self, name: str) -> str:
        values = self.get_all(name)
        if not values:
            raise KeyError(name)
        return values[0]

    def __setitem__(self, name: str, value: str) -> None:
        self._fields.append((name, str(value)))

    def __delitem__(self, name: str) -> None:
        lower = name.lower()
        self._fields = [pair for pair in self._fields if pair[0].lower() != lower]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and bool(self.get_all(name))

    def __iter__(self) -> Iterator[str]:
        return iter({name.lower(): None for name, _ in self._fields})

    def __len__(self) -> int:
        return len({name.lower() for name, _ in self._fields})

    def __repr__(self) -> str:
        return f"Headers({self._fields!r})"

    def copy(self) -> Headers:
        """Return a copy."""
        return Headers(self)

    def get_all(self, name: str) -> list[str]:
        """Return all values of that name, in their order."""
        lower = name.lower()
        return [value for other, value in self._fields if other.lower() == lower]

    def raw_items(self) -> Iterator[tuple[str, str]]:
        """Iterate over all fields, in their order."""
        return iter(self._fields)

    def serialize(self) -> bytes:
        """Return the fields as they are sent, with the empty line that ends them.

        Raises:
            ValueError: If a name or a value has a character that would end its line, or that is not
                in ISO 8859-1, in which received fields are decoded.
        """
        for name, value in self._fields:
            if any(not 0x20 < ord(c) < 0x7F or c in ':"' for c in name) or not name:
                raise ValueError(f"{name!r} is not a name of a header field; use letters and '-'")
            if any((ord(c) < 0x20 and c != "\t") or c == "\x7f" for c in value):
                raise ValueError(f"the value of {name} has a control character: {value!r}")
            if any(ord(c) > 0xFF for c in value):
                raise ValueError(
                    f"the value of {name} is not in ISO 8859-1: {value!r}; quote it, for example"
                    " with urllib.parse.quote()"
                )
        text = "".join(f"{name}: {value}\r\n" for name, value in self._fields) + "\r\n"
        return text.encode("latin-1")


HeadersLike = Headers | Mapping[str, str] | Iterable[tuple[str, str]]


@dataclass
class Request:
    """A client's handshake request.

    Attributes:
        path: The request target: path and query.
        headers: The header fields.
    """

    path: str
    headers: Headers


@dataclass
class Response:
    """A server's response to a handshake request.

    Attributes:
        status_code: 101 if the handshake has succeeded.
        reason_phrase: The text after the status.
        headers: The header fields.
        body: The body, if there is one.
    """

    status_code: int
    reason_phrase: str
    headers: Headers = field(default_factory=Headers)
    body: bytes = b""

    def serialize(self) -> bytes:
        """Return the response as it is sent."""
        first = f"HTTP/1.1 {self.status_code} {self.reason_phrase}\r\n".encode("latin-1")
        return first + self.headers.serialize() + self.body


def plain_response(status: int, text: str) -> Response:
    """Return a response with a text as its body, after which the connection is closed."""
    body = text.encode()
    headers = Headers(
        {
            "Content-Type": "text/plain; charset=utf-8",
            "Content-Length": str(len(body)),
            "Connection": "close",
        }
    )
    if status == 426:
        headers["Upgrade"] = "websocket"
        headers["Sec-WebSocket-Version"] = "13"
    return Response(status, http.HTTPStatus(status).phrase, headers, body)
