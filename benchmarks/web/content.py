"""What the measured applications send: the load of the asgi page expects it to the byte."""

from __future__ import annotations

HELLO = "Hello, world!"
TEN_KIB = 10240


def json_body(size: int) -> bytes:
    """A text of JSON of exactly ``size`` bytes, as in ``cpp/http_load.hpp``."""
    text = bytearray(b'{"text":"')
    while len(text) + 2 < size:
        text.append(ord("a") + len(text) % 26)
    return bytes(text) + b'"}'
