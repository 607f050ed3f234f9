"""The exceptions of `penstock.websocket`, with the names and attributes of `websockets`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.websocket.http import Response

__all__ = [
    "Close",
    "ConcurrencyError",
    "ConnectionClosed",
    "ConnectionClosedError",
    "ConnectionClosedOK",
    "InvalidHandshake",
    "InvalidMessage",
    "InvalidOrigin",
    "InvalidStatus",
    "InvalidURI",
    "InvalidUpgrade",
    "NegotiationError",
    "WebSocketException",
]

_EXPLANATIONS = {
    1000: "OK",
    1001: "going away",
    1002: "protocol error",
    1003: "unsupported data",
    1005: "no status received [internal]",
    1006: "abnormal closure [internal]",
    1007: "invalid frame payload data",
    1008: "policy violation",
    1009: "message too big",
    1010: "mandatory extension",
    1011: "internal error",
    1012: "service restart",
    1013: "try again later",
    1014: "bad gateway",
}


@dataclass(frozen=True)
class Close:
    """Code and reason of a close frame. Code 1005 is a frame without a code (RFC 6455, 7.1.5)."""

    code: int
    reason: str

    def __str__(self) -> str:
        if 3000 <= self.code < 4000:
            explanation = "registered"
        elif 4000 <= self.code < 5000:
            explanation = "private use"
        else:
            explanation = _EXPLANATIONS.get(self.code, "unknown")
        text = f"{self.code} ({explanation})"
        return f"{text} {self.reason}" if self.reason else text


class WebSocketException(Exception):
    """Base of all exceptions of this package."""


class ConnectionClosed(WebSocketException):
    """The connection is closed, or is closing.

    Attributes:
        rcvd: The close frame that was received, or None.
        sent: The close frame that was sent, or None.
        rcvd_then_sent: Which of the two came first, if there are both.
    """

    def __init__(
        self, rcvd: Close | None, sent: Close | None, rcvd_then_sent: bool | None = None
    ) -> None:
        self.rcvd = rcvd
        self.sent = sent
        self.rcvd_then_sent = rcvd_then_sent
        super().__init__(rcvd, sent, rcvd_then_sent)

    @property
    def code(self) -> int:
        """The code that the peer sent, or 1006."""
        return self.rcvd.code if self.rcvd is not None else 1006

    @property
    def reason(self) -> str:
        """The reason that the peer sent, or an empty text."""
        return self.rcvd.reason if self.rcvd is not None else ""

    def __str__(self) -> str:
        if self.rcvd is None:
            if self.sent is None:
                return "no close frame received or sent"
            return f"sent {self.sent}; no close frame received"
        if self.sent is None:
            return f"received {self.rcvd}; no close frame sent"
        if self.rcvd_then_sent:
            return f"received {self.rcvd}; then sent {self.sent}"
        return f"sent {self.sent}; then received {self.rcvd}"


class ConnectionClosedOK(ConnectionClosed):
    """Both ends have closed with code 1000, 1001 or none."""


class ConnectionClosedError(ConnectionClosed):
    """The connection was lost, or was closed with an error's code."""


class InvalidHandshake(WebSocketException):
    """The opening handshake has failed."""


class InvalidMessage(InvalidHandshake):
    """The peer's request or response is not valid HTTP/1.1."""


class InvalidUpgrade(InvalidHandshake):
    """The peer's request or response is HTTP, but not a valid WebSocket handshake."""


class InvalidOrigin(InvalidHandshake):
    """The request's Origin is not among the allowed ones."""


class NegotiationError(InvalidHandshake):
    """Client and server have no subprotocol or extension in common.

    A `select_subprotocol` may raise it.
    """


class InvalidStatus(InvalidHandshake):
    """The server has answered with another status than 101.

    Attributes:
        response: The response, with its body.
    """

    def __init__(self, response: Response) -> None:
        self.response = response
        super().__init__(response)

    def __str__(self) -> str:
        return f"server rejected WebSocket connection: HTTP {self.response.status_code}"


class InvalidURI(WebSocketException):
    """The address is not a WebSocket address."""

    def __init__(self, uri: str, message: str) -> None:
        self.uri = uri
        self.message = message
        super().__init__(uri, message)

    def __str__(self) -> str:
        return f"{self.uri} isn't a valid URI: {self.message}"


class ConcurrencyError(WebSocketException, RuntimeError):
    """Another call receives, sends in fragments, or waits for a pong with the same payload."""
