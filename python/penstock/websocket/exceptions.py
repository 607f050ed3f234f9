"""The exceptions of `penstock.websocket`, with the names and attributes of `websockets`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.websocket.frames import Close
    from penstock.websocket.http11 import Response

__all__ = [
    "ConcurrencyError",
    "ConnectionClosed",
    "ConnectionClosedError",
    "ConnectionClosedOK",
    "DuplicateParameter",
    "HeaderLineTooLong",
    "InvalidHandshake",
    "InvalidHeader",
    "InvalidHeaderFormat",
    "InvalidHeaderValue",
    "InvalidMessage",
    "InvalidMethod",
    "InvalidOrigin",
    "InvalidParameterName",
    "InvalidParameterValue",
    "InvalidProtocol",
    "InvalidProxy",
    "InvalidProxyMessage",
    "InvalidProxyStatus",
    "InvalidState",
    "InvalidStatus",
    "InvalidURI",
    "InvalidUpgrade",
    "NegotiationError",
    "PayloadTooBig",
    "ProtocolError",
    "ProxyError",
    "RequestLineTooLong",
    "SecurityError",
    "StatusLineTooLong",
    "TooManyFragments",
    "TooManyHeaders",
    "WebSocketException",
]


_CREDENTIALS = re.compile(r"//[^?#]*@")


def without_credentials(address: str) -> str:
    """Return an address for a message, which may end up in a log: without user and password."""
    return _CREDENTIALS.sub("//***@", address, count=1)


class WebSocketException(Exception):
    """Base of all exceptions of this package."""


class ConnectionClosed(WebSocketException):
    """The connection is closed, or is closing.

    Attributes:
        rcvd: The close frame that was received, or None.
        sent: The close frame that was sent, or None.
        rcvd_then_sent: True if the frame was received before one was sent, False if it was sent
            first, None unless there are both.
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


class SecurityError(InvalidHandshake):
    """The peer's part of the handshake breaks a limit or a rule that protects this end."""


class RequestLineTooLong(SecurityError):
    """The request line is too long."""


class StatusLineTooLong(SecurityError):
    """The status line is too long."""


class HeaderLineTooLong(SecurityError):
    """A line of the header is too long."""


class TooManyHeaders(SecurityError):
    """The request or response has too many fields."""


class ProxyError(InvalidHandshake):
    """The proxy has not connected to the server."""


class InvalidProxyMessage(ProxyError):
    """The proxy's response is not valid HTTP/1.1."""


class _UnexpectedStatus(InvalidHandshake):
    """A response with another status than the wanted one.

    Attributes:
        response: The response, with its body.
    """

    _text = "HTTP {}"

    def __init__(self, response: Response) -> None:
        self.response = response
        super().__init__(response)

    def __str__(self) -> str:
        return self._text.format(int(self.response.status_code))


class InvalidProxyStatus(_UnexpectedStatus, ProxyError):
    """The proxy has refused to connect to the server: `response` is its answer."""

    _text = "proxy rejected connection: HTTP {}"


class InvalidStatus(_UnexpectedStatus):
    """The server has answered with another status than 101: `response` is its answer."""

    _text = "server rejected WebSocket connection: HTTP {}"


class InvalidMessage(InvalidHandshake):
    """The peer's request or response is not valid HTTP/1.1."""


class InvalidMethod(InvalidHandshake):
    """The method of the request is not GET."""

    def __init__(self, method: str) -> None:
        self.method = method
        super().__init__(method)

    def __str__(self) -> str:
        return f"unsupported HTTP method: {self.method}"


class InvalidProtocol(InvalidHandshake):
    """The HTTP version is not 1.1."""

    def __init__(self, protocol: str) -> None:
        self.protocol = protocol
        super().__init__(protocol)

    def __str__(self) -> str:
        return f"unsupported HTTP version: {self.protocol}"


class InvalidHeader(InvalidHandshake):
    """A field of the peer's request or response is missing or wrong.

    Attributes:
        name: The field's name.
        value: Its value, None if it is missing.
    """

    def __init__(self, name: str, value: str | None = None) -> None:
        self.name = name
        self.value = value
        super().__init__(name, value)

    def __str__(self) -> str:
        return _invalid(f"{self.name} header", self.value, "missing {}")


class InvalidHeaderFormat(InvalidHeader):
    """A field does not have the form of its kind."""

    def __init__(self, name: str, error: str, header: str, pos: int) -> None:
        super().__init__(name, f"{error} at {pos} in {header}")


class InvalidHeaderValue(InvalidHeader):
    """A field has a value that is not acceptable."""


class InvalidOrigin(InvalidHeader):
    """The request's Origin is not among the allowed ones."""

    def __init__(self, origin: str | None) -> None:
        super().__init__("Origin", origin)


class InvalidUpgrade(InvalidHeader):
    """The field Upgrade or Connection is not that of a WebSocket handshake."""


class NegotiationError(InvalidHandshake):
    """Client and server have no subprotocol or extension in common.

    A `select_subprotocol` may raise it.
    """


class DuplicateParameter(NegotiationError):
    """A parameter of an extension is repeated."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(name)

    def __str__(self) -> str:
        return f"duplicate parameter: {self.name}"


class InvalidParameterName(NegotiationError):
    """A parameter of an extension has an unknown name."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(name)

    def __str__(self) -> str:
        return f"invalid parameter name: {self.name}"


class InvalidParameterValue(NegotiationError):
    """A parameter of an extension has a wrong value."""

    def __init__(self, name: str, value: str | None) -> None:
        self.name = name
        self.value = value
        super().__init__(name, value)

    def __str__(self) -> str:
        what = f"value for parameter {self.name}"
        return _invalid(what, self.value, "missing {}")


def _invalid(what: str, value: str | None, missing: str) -> str:
    if value is None:
        return missing.format(what)
    return f"invalid {what}: {value}" if value else f"empty {what}"


class _InvalidAddress(WebSocketException):
    _text = "{} isn't valid: {}"

    def __init__(self, address: str, msg: str) -> None:
        self.msg = msg
        super().__init__(address, msg)

    def __str__(self) -> str:
        return self._text.format(without_credentials(self.args[0]), self.msg)


class InvalidURI(_InvalidAddress):
    """The address is not a WebSocket address."""

    _text = "{} isn't a valid URI: {}"

    def __init__(self, uri: str, msg: str) -> None:
        self.uri = uri
        super().__init__(uri, msg)


class InvalidProxy(_InvalidAddress):
    """The address is not that of a proxy."""

    _text = "{} isn't a valid proxy: {}"

    def __init__(self, proxy: str, msg: str) -> None:
        self.proxy = proxy
        super().__init__(proxy, msg)


class ProtocolError(WebSocketException, ValueError):
    """RFC 6455 does not allow sending this: a close code, or a control frame of that size."""


class PayloadTooBig(WebSocketException):
    """A frame exceeds the limit. It is the name of close code 1009; no call raises it."""

    def __init__(
        self, size: int | None, max_size: int | None = None, current_size: int | None = None
    ) -> None:
        self.size = size
        self.max_size = max_size
        self.current_size = current_size
        super().__init__(size, max_size, current_size)

    def __str__(self) -> str:
        size = "" if self.size is None else f" with {self.size} bytes"
        read = "" if self.current_size is None else f" after reading {self.current_size} bytes"
        return f"frame{size}{read} exceeds limit of {self.max_size} bytes"


class TooManyFragments(WebSocketException):
    """A message has too many fragments. No call raises it: fragments are joined as they arrive."""

    def __init__(self, max_fragments: int) -> None:
        super().__init__(f"fragmented message exceeds limit of {max_fragments} frames")


class InvalidState(WebSocketException, AssertionError):
    """A frame cannot be sent in this state. No call raises it: they raise ConnectionClosed."""


class ConcurrencyError(WebSocketException, RuntimeError):
    """Another call receives, sends in fragments, or waits for a pong with the same payload."""
