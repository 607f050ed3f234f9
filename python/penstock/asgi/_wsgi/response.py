"""The thread's half of a request: start_response, and the iteration of what is returned."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from penstock.asgi._types import Message
from penstock.asgi._wsgi.exchange import Exchange, File
from penstock.asgi._wsgi.files import FileWrapper

WsgiApplication = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]

_STATUS = re.compile(r"[2-9][0-9]{2} [^\x00-\x1f\x7f]*")
_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_VALUE = re.compile(r"[^\x00-\x08\x0a-\x1f\x7f]*")
_MOST_KEPT = 512
_LONGEST_KEPT = 128
_FIELDS: dict[Any, tuple[tuple[bytes, bytes], int | None]] = {}
"""Fields that were sent. The server knows the same objects again, and does not write them anew."""
_CHANGING = frozenset({"set-cookie", "date", "etag", "last-modified", "location"})
"""Fields that are not kept: few responses repeat them, and some are secrets."""
_CODES: dict[str, int] = {}
"""Statuses that were sent."""
_PLAIN = (list, tuple)
_HOP_BY_HOP = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "te",
        "trailers",
        "transfer-encoding",
        "upgrade",
    }
)


class Response:
    """Runs an application for one request. Everything here happens in its thread."""

    __slots__ = ("_complete", "_exchange", "_head", "_head_sent", "_is_head", "_length")

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._is_head = exchange.scope["method"] == "HEAD"
        self._head: Message | None = None
        self._length: int | None = None
        self._head_sent = False
        self._complete = False

    def run(self, app: WsgiApplication, environ: dict[str, Any]) -> None:
        """Call the application, send what it returns, and end the exchange."""
        error: Exception | None = None
        last: tuple[Message, ...] = ()
        try:
            last = self._respond(app, environ)
        except Exception as raised:
            error = raised
        except BaseException as raised:  # it would end the loop
            error = RuntimeError(f"the application raised {raised!r}")
            error.__cause__ = raised
        self._exchange.end(*last, error=error)
        error = None

    def _respond(self, app: WsgiApplication, environ: dict[str, Any]) -> tuple[Message, ...]:
        """Return the messages that end the response, if they were not sent yet."""
        result: Any = app(environ, self.start_response)
        # The types themselves: a class of the application's own may have a close.
        if type(result) in _PLAIN and not self._head_sent:
            if self._head is None:
                raise RuntimeError("the application did not call start_response")
            if len(result) < 2:
                # Nothing runs after it, so it leaves together with the end.
                return self._last(result[0] if result else b"")
        close = getattr(result, "close", None)  # optional, by PEP 3333
        try:
            self._send_all(result)
        finally:
            if close is not None:
                close()
        return ()

    def start_response(
        self, status: str, headers: list[tuple[str, str]], exc_info: Any = None, /
    ) -> Callable[[bytes], None]:
        """Set the response's head, which is sent with the first part of its body.

        Raises:
            RuntimeError: If it was called before, and `exc_info` is not given.
            TypeError: If the status or a field is not a string, or the headers are not a list.
            ValueError: If they cannot be sent, or a field is hop-by-hop (PEP 3333).
            BaseException: That of `exc_info`, if the head was sent.
        """
        if exc_info is not None:
            try:
                if self._head_sent:
                    raise exc_info[1].with_traceback(exc_info[2])
            finally:
                exc_info = None
        elif self._head is not None:
            raise RuntimeError("start_response was called before, and this call has no exc_info")
        code = (_CODES.get(status) if type(status) is str else None) or _status_code(status)
        fields, length = _fields(headers)
        self._length = length
        self._head = {"type": "http.response.start", "status": code, "headers": fields}
        return self.write

    def write(self, part: bytes, /) -> None:
        """Send a part of the body at once. Waits while the client does not take what was sent.

        Raises:
            ClientDisconnected: If the client has gone.
            ValueError: If the body exceeds its Content-Length.
        """
        _check_part(part)
        if part and not self._send(part) and not self._is_head:
            raise ValueError("the body is longer than its Content-Length")

    def _send_all(self, result: Iterable[bytes]) -> None:
        if isinstance(result, FileWrapper) and not self._head_sent and self._send_file(result):
            return
        try:
            only = len(result) == 1 and not self._head_sent  # type: ignore[arg-type]
        except TypeError:
            only = False
        for part in result:
            _check_part(part)
            if not part:
                continue
            if self._complete:
                return  # more than its Content-Length
            if only and self._length is None:
                self._put_last(part)
            elif not self._send(part):
                return
        if not self._complete:
            self._put_last(b"")

    def _send(self, part: bytes) -> bool:
        """Send a part that is not empty. Returns whether more may follow, and all was sent."""
        if self._complete:
            return False
        if self._is_head:
            # There may be more, and nobody would see it.
            self._put(
                self._opening(), {"type": "http.response.body", "body": b"", "more_body": False}
            )
            self._complete = True
            return False
        whole = True
        if self._length is not None:
            whole = len(part) <= self._length
            part = part[: self._length]
            self._length -= len(part)
            self._complete = self._length == 0
        self._put(
            self._opening(),
            {"type": "http.response.body", "body": part, "more_body": not self._complete},
        )
        return whole

    def _opening(self) -> tuple[Message, ...]:
        """Return the head, if it was not sent."""
        if self._head_sent:
            return ()
        if self._head is None:
            raise RuntimeError("the application did not call start_response before its body")
        self._head_sent = True
        return (self._head,)

    def _put(self, opening: tuple[Message, ...], body: Message) -> None:
        self._exchange.put(*opening, body, size=len(body["body"]))

    def _last(self, part: bytes) -> tuple[Message, ...]:
        if type(part) is not bytes:
            _check_part(part)
        if self._length is not None and len(part) > self._length and not self._is_head:
            part = part[: self._length]
        opening = self._opening()
        if self._is_head and opening:
            if self._length is None and part:
                head = opening[0]
                head["headers"].append((b"content-length", b"%d" % len(part)))
            part = b""
        self._complete = True
        return (*opening, {"type": "http.response.body", "body": part, "more_body": False})

    def _put_last(self, part: bytes) -> None:
        messages = self._last(part)
        self._exchange.put(*messages, size=len(messages[-1]["body"]))

    def _send_file(self, wrapper: FileWrapper) -> bool:
        """Let the loop send the file. False if it cannot, and nothing was sent."""
        extensions = self._exchange.scope.get("extensions") or ()
        sends_files = "http.response.zerocopysend" in extensions and self._head is not None
        extent = wrapper.extent() if sends_files else None
        if extent is None:
            return False
        position, size = extent
        if self._length is not None:
            size = min(size, self._length)
        if self._is_head or size == 0 or (self._length is not None and size < self._length):
            return False  # a file that is too short ends as any other body
        opening = self._opening()
        self._complete = True
        self._exchange.put_file(*opening, File(wrapper.filelike, position, size))
        return True


def _check_part(part: Any) -> None:
    if not isinstance(part, bytes):
        raise TypeError(f"a part of a body must be bytes, not {type(part).__name__}")


def _status_code(status: Any) -> int:
    if not isinstance(status, str):
        raise TypeError(f"the status must be a string, not {status!r}")
    if not _STATUS.fullmatch(status):
        raise ValueError(f"the status must be a number, a blank and a reason, not {status!r}")
    code = int(status[:3])
    if type(status) is str and len(_CODES) < _MOST_KEPT and len(status) <= _LONGEST_KEPT:
        _CODES[status] = code
    return code


def _fields(headers: Any) -> tuple[list[tuple[bytes, bytes]], int | None]:
    """Return the fields as they are sent, and the Content-Length among them."""
    if not isinstance(headers, list):
        raise TypeError(f"the headers must be a list, not {type(headers).__name__}")
    length = None
    fields = []
    for field in headers:
        try:
            sent = _FIELDS.get(field)
        except TypeError:  # such as a list, which is no key
            sent = None
        pair, size = sent or _checked(field)
        fields.append(pair)
        if size is not None:
            length = size
    return fields, length


def _checked(field: Any) -> tuple[tuple[bytes, bytes], int | None]:
    """Return a field as it is sent, and the length that it states. Most are kept for later."""
    name, value = field
    if not isinstance(name, str) or not isinstance(value, str):
        raise TypeError(f"a header must be a pair of strings, not {field!r}")
    if not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
        raise ValueError(f"the header {name!r}: {value!r} cannot be sent")
    lower = name.lower()
    if lower in _HOP_BY_HOP:
        raise ValueError(f"the header {name!r} is the server's (hop-by-hop); leave it out")
    size = None
    if lower == "content-length":
        if not (value.isascii() and value.isdigit()):
            raise ValueError(f"Content-Length must be a number of bytes, not {value!r}")
        size = int(value)
    try:
        sent = ((lower.encode("latin-1"), value.encode("latin-1")), size)
    except UnicodeEncodeError as error:
        raise ValueError(
            f"the header {name!r}: {value!r} has characters that are not bytes (latin-1)"
        ) from error
    is_plain = type(field) is tuple and type(name) is str and type(value) is str
    if is_plain and lower not in _CHANGING and len(name) + len(value) <= _LONGEST_KEPT:
        if len(_FIELDS) >= _MOST_KEPT:
            _FIELDS.clear()
        _FIELDS[field] = sent
    return sent
