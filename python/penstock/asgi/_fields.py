"""Header fields of the responses that are written in Python: those of WebSocket handshakes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from email.utils import formatdate
from http import HTTPStatus
from typing import Any

_NAME = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_VALUE = re.compile(rb"[^\x00-\x08\x0a-\x1f\x7f]*")


def head_bytes(
    status: int,
    own: Iterable[tuple[bytes, bytes]],
    given: Iterable[tuple[Any, Any]],
    *,
    without: frozenset[bytes] = frozenset(),
) -> bytes:
    """Return a response's head.

    Args:
        status: The status code.
        own: The fields of the server. Those that are also given by the application are left out.
        given: The fields of the application.
        without: Names, in lower case, of fields that the application may not set.

    Raises:
        ValueError: If a field cannot be sent.
        TypeError: If it is not a pair of bytes.
    """
    lines = []
    names = set()
    for name, value in given:
        if not isinstance(name, bytes) or not isinstance(value, bytes):
            raise TypeError(f"a header must be a pair of bytes, not {(name, value)!r}")
        if not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
            raise ValueError(f"the header {name!r}: {value!r} cannot be sent")
        if name.lower() not in without:
            names.add(name.lower())
            lines.append(b"%b: %b\r\n" % (name, value))
    for name, value in own:
        if not _VALUE.fullmatch(value):  # a subprotocol is the application's
            raise ValueError(f"the header {name!r}: {value!r} cannot be sent")
        if name not in names:
            lines.append(b"%b: %b\r\n" % (name, value))
    try:
        reason = HTTPStatus(status).phrase
    except ValueError:
        reason = ""
    return b"HTTP/1.1 %d %b\r\n%b\r\n" % (status, reason.encode(), b"".join(lines))


def date_value() -> bytes:
    """Return the time as the field Date has it."""
    return formatdate(usegmt=True).encode()
