"""Text of whole files, as the built-in ``open`` decodes and encodes it."""

from __future__ import annotations

import codecs
import io
from typing import Any

from penstock.files._backend import current_backend
from penstock.files._file_objects.text_file import text_encoding

_SLICE = 1 << 18  # bytes or characters


def resolve_encoding(encoding: str | None) -> str:
    """Return the encoding's name; call from a public coroutine, for the warning of PEP 597."""
    return text_encoding(io.text_encoding(encoding, 3))


async def decode(data: bytes, encoding: str, errors: str, newline: str | None) -> str:
    """Decode a whole file; with ``newline`` None, each line end becomes a line feed."""
    if len(data) <= _SLICE:
        text = codecs.decode(data, encoding, errors)
        if newline is not None or "\r" not in text:
            return text
        return text.replace("\r\n", "\n").replace("\r", "\n")
    backend = current_backend()
    decoder: Any = codecs.getincrementaldecoder(encoding)(errors)
    if newline is None:
        decoder = io.IncrementalNewlineDecoder(decoder, translate=True)
    parts = []
    for begin in range(0, len(data), _SLICE):
        if backend.should_yield(_SLICE):
            await backend.yield_now()
        parts.append(decoder.decode(data[begin : begin + _SLICE]))
    parts.append(decoder.decode(b"", True))
    return "".join(parts)


async def encode(text: str, encoding: str, errors: str, newline: str | None) -> bytes:
    """Encode a whole file; each line feed becomes ``newline``, if that is one."""
    if len(text) <= _SLICE:
        return codecs.encode(_with_line_ends(text, newline), encoding, errors)
    backend = current_backend()
    encoder = codecs.getincrementalencoder(encoding)(errors)
    parts = []
    for begin in range(0, len(text), _SLICE):
        if backend.should_yield(_SLICE):
            await backend.yield_now()
        parts.append(encoder.encode(_with_line_ends(text[begin : begin + _SLICE], newline)))
    parts.append(encoder.encode("", True))
    return b"".join(parts)


def _with_line_ends(text: str, newline: str | None) -> str:
    return text.replace("\n", newline) if newline in ("\r", "\r\n") else text
