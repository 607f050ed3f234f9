"""Text files."""

from __future__ import annotations

import codecs
import io
import locale
import os
import sys
from _multibytecodec import MultibyteIncrementalDecoder
from typing import Any

from penstock._core import NO_TEXT, TextFileCore, TextPiece, end_of_line, split_lines
from penstock.files._file_objects.async_file import (
    CARRIAGE,
    FEED,
    RETURN_FEED,
    UNIVERSAL,
    AsyncFile,
)
from penstock.files._file_objects.binary_file import BinaryFile
from penstock.files._file_objects.text_position import Decoder, Snapshot, TextPosition
from penstock.files._file_objects.turns import TakesTurns

_CHUNK = 8192
"""Bytes that are decoded at once, as in ``io.TextIOWrapper``."""

_COST_OF_CHUNK = 8 * _CHUNK
"""The cost of a chunk's lines, as ``FileBackend.should_yield`` counts."""

_SLICE = 1 << 17
"""The part of a large text that is decoded or encoded between two checks of the clock."""
_SLICES_DROPPED = 8


_LINE_ENDS = {None: FEED, "": UNIVERSAL, "\n": FEED, "\r": CARRIAGE, "\r\n": RETURN_FEED}
_DIRECT_ENCODINGS = {
    "ascii": 1,
    "us-ascii": 1,
    "latin-1": 2,
    "iso-8859-1": 2,
    "utf-8": 3,
    "utf8": 3,
}
"""Numbers for the native part."""


def check_newline(newline: str | None) -> None:
    """ValueError unless it is an argument that ``open`` takes."""
    if newline not in (None, "", "\n", "\r", "\r\n"):
        raise ValueError(f"newline must be None, '', '\\n', '\\r' or '\\r\\n', not {newline!r}")


def text_encoding(name: str) -> str:
    """Return the encoding that a name stands for. LookupError if it is not one of text."""
    if name == "locale":
        name = "utf-8" if sys.flags.utf8_mode else locale.getencoding()
    if not codecs.lookup(name)._is_text_encoding:
        raise LookupError(f"{name!r} is not a text encoding")
    return name


def _is_end(piece: TextPiece) -> bool:
    """Whether a piece was decoded at the end of the file, from nothing."""
    return not piece.text and len(piece.data) == piece.pending


class _Unchanged:
    """The default of an argument for which None has a meaning."""

    def __repr__(self) -> str:
        return "(unchanged)"


_UNCHANGED = _Unchanged()


class TextFile(TextFileCore, AsyncFile[str], TakesTurns):
    """A file of text over a file of bytes, decoding and encoding as ``io.TextIOWrapper`` does."""

    __slots__ = ()

    def __init__(
        self,
        binary: BinaryFile,
        mode: str,
        encoding: str,
        errors: str,
        newline: str | None,
        line_buffering: bool,
    ) -> None:
        self._mode = mode
        self._line_buffering = line_buffering
        self._set_format(encoding, errors, newline)

    def _set_format(self, encoding: str, errors: str, newline: str | None) -> None:
        self._encoding = encoding
        self._errors = errors
        self._newline = newline
        self._line_end = newline or os.linesep
        self._line_end_kind = _LINE_ENDS[newline]
        # Without translation and state, the native part encodes what needs no error handler.
        direct = _DIRECT_ENCODINGS.get(encoding.lower(), 0)
        self._direct_encoding = direct if newline == "" or self._line_end == "\n" else 0
        self._direct_decoding = direct if newline is None and errors == "strict" else 0
        self._saw_feed = False

    # ---- what it is -----------------------------------------------------------------------------

    @property
    def buffer(self) -> BinaryFile:
        """The underlying binary file."""
        return self._binary

    @property
    def encoding(self) -> str:
        """The name of the encoding."""
        return self._encoding

    @property
    def errors(self) -> str:
        """How bytes or characters are treated that the encoding does not have."""
        return self._errors

    @property
    def line_buffering(self) -> bool:
        """Whether writing a line end flushes the file."""
        return self._line_buffering

    @property
    def write_through(self) -> bool:
        """As :meth:`reconfigure` has set it. Text always goes to :attr:`buffer` at once."""
        return self._write_through

    @property
    def newlines(self) -> str | tuple[str, ...] | None:
        """The line ends found so far, as the built-in's."""
        if self._decoder is None:
            return "\n" if self._saw_feed else None
        return getattr(self._decoder, "newlines", None)

    @property
    def name(self) -> Any:
        """What the file was opened by: a path or a descriptor."""
        return self._binary.name

    @property
    def mode(self) -> str:
        """The mode that was given to :func:`~penstock.files.open`."""
        return self._mode

    @property
    def closed(self) -> bool:
        """Whether the file is closed."""
        return self._binary.closed

    def fileno(self) -> int:
        """The descriptor. Its own position is not the file's. ValueError if the file is closed."""
        return self._binary.fileno()

    def isatty(self) -> bool:
        """Whether it is a terminal. ValueError if the file is closed."""
        return self._binary.isatty()

    def readable(self) -> bool:
        """Whether its mode allows reading. ValueError if the file is closed."""
        return self._binary.readable()

    def writable(self) -> bool:
        """Whether its mode allows writing. ValueError if the file is closed."""
        return self._binary.writable()

    def seekable(self) -> bool:
        """Whether it has positions. ValueError if the file is closed."""
        return self._binary.seekable()

    def detach(self) -> io.FileIO:
        """Return a file object of the descriptor, as :meth:`BinaryFile.detach` does.

        Raises:
            RuntimeError: while a call is in flight, and after a read-ahead: seek first.
        """
        self._binary._check_open()
        if self._turn_taken or self._at < len(self._piece.text):
            raise RuntimeError(
                "text was read ahead, or a call is in flight; seek() before detach()"
            )
        return self._binary.detach()

    async def reconfigure(
        self,
        *,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | _Unchanged | None = _UNCHANGED,
        line_buffering: bool | None = None,
        write_through: bool | None = None,
    ) -> None:
        """Flush the file and change how it treats text, as ``io.TextIOWrapper.reconfigure``.

        None, and no ``newline``, leave a setting as it is. A new ``encoding`` without ``errors``
        sets these to ``"strict"``. Nothing is changed after an error.

        Raises:
            io.UnsupportedOperation: for ``encoding``, ``errors`` or ``newline`` after text was
                read, until the next ``seek`` or ``write``.
            LookupError: for an unknown encoding or error handler.
            ValueError: for a ``newline`` that ``open`` does not take, and if the file is closed.
        """
        for name, value in (("encoding", encoding), ("errors", errors)):
            if not isinstance(value, str | None):
                raise TypeError(f"{name} must be a string or None, not {type(value).__name__}")
        if not isinstance(newline, str | _Unchanged | None):
            raise TypeError(f"newline must be a string or None, not {type(newline).__name__}")
        if not isinstance(newline, _Unchanged):
            check_newline(newline)
        if encoding is not None:
            encoding = text_encoding(encoding)
            errors = errors or "strict"
        if errors is not None:
            codecs.lookup_error(errors)
        await self._take_turn()
        try:
            recodes = not (encoding is None and errors is None and isinstance(newline, _Unchanged))
            if recodes and self._has_decoded:
                raise io.UnsupportedOperation(
                    "text was read ahead with the present encoding and newline; seek() first"
                )
            await self._binary.flush()
            if recodes:
                if isinstance(newline, _Unchanged):
                    newline = self._newline
                self._set_format(encoding or self._encoding, errors or self._errors, newline)
                self._decoder = self._encoder = None
                self._drop_read_ahead()
            if line_buffering is not None:
                self._line_buffering = bool(line_buffering)
            if write_through is not None:
                self._write_through = bool(write_through)
        finally:
            self._give_up_turn()

    # ---- reading --------------------------------------------------------------------------------

    async def _read_in_turn(self, size: int | None) -> str:
        try:
            decoder = self._begin_reading()
            if size is None or size < 0:
                return await self._read_rest(decoder)
            return await self._read_some(decoder, size)
        finally:
            self._give_up_turn()

    async def _read_rest(self, decoder: Decoder) -> str:
        binary = self._binary
        if binary._regular and binary._size() - binary._position <= _SLICE:
            data = await binary.read()
            text = self._piece.text[self._at :] + decoder.decode(data, True)
            self._drop_read_ahead()
            return text
        start, state = binary._position, decoder.getstate()
        texts = [self._piece.text[self._at :]]
        whole = ""
        try:
            data = await binary.read(_SLICE)
            while data:
                texts.append(decoder.decode(data))
                data = await binary.read(_SLICE)
            texts.append(decoder.decode(b"", True))
            whole = "".join(texts)
            await self._free(texts)
        except BaseException:
            if binary.seekable():
                decoder.setstate(state)
                binary._position = start
            else:
                self._piece, self._at = TextPiece(whole or "".join(texts)), 0
            raise
        self._drop_read_ahead()
        return whole

    async def _read_some(self, decoder: Decoder, size: int) -> str:
        pieces = [self._piece]
        there = len(self._piece.text) - self._at
        self._has_decoded = self._has_decoded or there < size
        try:
            while there < size:
                piece = await self._decode_chunk(decoder)
                pieces.append(piece)
                if _is_end(piece):
                    break
                there += len(piece.text)
        except BaseException:
            self._keep(pieces)
            raise
        if len(pieces) == 1:
            begin = self._at
            self._at = min(begin + size, len(self._piece.text))
            return self._piece.text[begin : self._at]
        text = self._piece.text[self._at :] + "".join(piece.text for piece in pieces[1:])
        self._piece = pieces[-1]
        self._at = len(self._piece.text) - max(there - size, 0)
        return text[:size]

    async def readlines(self, hint: int | None = None) -> list[str]:
        """Read lines until the end, or until their total length exceeds ``hint`` characters."""
        if hint is not None and hint > 0:
            return await super().readlines(hint)
        await self._take_turn()
        try:
            return await self._split_rest(self._begin_reading())
        finally:
            self._give_up_turn()

    async def _split_rest(self, decoder: Decoder) -> list[str]:
        """Decode and split slice by slice: neither the whole text nor a copy of it is needed."""
        binary = self._binary
        start, state = binary._position, decoder.getstate()
        lines: list[str] = []
        begun: list[str] = []  # the parts of a line whose end was not found yet
        try:
            self._append_lines(self._piece.text[self._at :], lines, begun)
            data = b"more"
            while data:
                data = await binary.read(_SLICE)
                text = decoder.decode(data, not data)
                if begun and self._ends_within_line_end(begun[-1]):
                    begun[-1] = begun[-1][:-1]
                    text = "\r" + text
                self._append_lines(text, lines, begun)
                if binary._backend.should_yield(_SLICE):
                    await binary._backend.yield_now()
        except BaseException:
            if binary.seekable():
                decoder.setstate(state)
                binary._position = start
            else:
                self._piece, self._at = TextPiece("".join(lines + begun)), 0
            raise
        if begun:
            lines.append("".join(begun))
        self._drop_read_ahead()
        return lines

    def _append_lines(self, text: str, lines: list[str], begun: list[str]) -> None:
        """Append the lines of the next text. What has no end yet is kept in ``begun``."""
        found: list[str] = []
        split_lines(text, 0, len(text), found, self._line_end_kind)
        rest = found.pop() if found and not end_of_line(found[-1], 0, self._line_end_kind) else ""
        if found:
            found[0] = "".join(begun) + found[0]
            begun.clear()
            lines += found
        if rest:
            begun.append(rest)

    async def _readline_in_turn(self, size: int | None) -> str:
        try:
            decoder = self._begin_reading()
            limit = -1 if size is None else size
            text = self._piece.text
            end = end_of_line(text, self._at, self._line_end_kind)
            if end > 0 and limit < 0:
                begin, self._at = self._at, end
                return text[begin:end]
            return await self._read_line(decoder, limit)
        finally:
            self._give_up_turn()

    async def _next_line_in_turn(self) -> str:
        line = await self._readline_in_turn(-1)
        if not line:
            raise StopAsyncIteration
        return line

    async def _read_line(self, decoder: Decoder, limit: int) -> str:
        pieces = [self._piece]
        # The text that may still hold a line end. The first character of a line end of two may be
        # the last one of a chunk.
        line = self._piece.text[self._at :]
        lines: list[str] = []
        length = 0
        end = 0
        at_end = False
        try:
            while not (end := end_of_line(line, 0, self._line_end_kind)) and (
                limit < 0 or length + len(line) - self._ends_within_line_end(line) < limit
            ):
                piece = await self._decode_chunk(decoder)
                if _is_end(piece):
                    at_end = True
                    break
                pieces.append(piece)
                split = self._ends_within_line_end(line)
                known = line[:-1] if split else line
                lines.append(known)
                length += len(known)
                line = ("\r" if split else "") + piece.text
        except BaseException:
            self._keep(pieces)
            raise
        if end:
            line = line[:end]
        lines.append(line)
        whole = "".join(lines)
        if 0 <= limit < len(whole):
            whole = whole[:limit]
        if at_end:
            self._drop_read_ahead()
        else:
            self._has_decoded = True
            self._set_position_after(pieces, len(whole))
        return whole

    def _ends_within_line_end(self, text: str) -> bool:
        """Whether the next character may make the last one a line end of two."""
        return self._newline == "\r\n" and text.endswith("\r")

    def _set_position_after(self, pieces: list[TextPiece], length: int) -> None:
        """Consume ``length`` characters of the buffered text, which consists of ``pieces``."""
        left = self._at + length
        for index, piece in enumerate(pieces):
            if left <= len(piece.text):
                self._keep(pieces[index:])
                self._at = left
                return
            left -= len(piece.text)

    def _keep(self, pieces: list[TextPiece]) -> None:
        """Join the buffered text into one piece, with the snapshot of how it was decoded."""
        if len(pieces) == 1:
            self._piece = pieces[0]
            return
        first, *others = [piece for piece in pieces if piece.flags is not None]
        # The bytes that a decoder had pending are at the end of one piece and at the beginning of
        # the next.
        data = b"".join([first.data, *(piece.data[piece.pending :] for piece in others)])
        text = "".join(piece.text for piece in pieces)
        self._piece = TextPiece(text, first.flags, data, first.pending)

    async def _decode_chunk(self, decoder: Decoder) -> TextPiece:
        """Decode the next bytes; see ``_is_end`` for the end of the file."""
        backend = self._binary._backend
        if backend.should_yield(_COST_OF_CHUNK):
            await backend.yield_now()
        pending, flags = decoder.getstate()
        data = await self._binary.read1(_CHUNK)
        text = decoder.decode(data, not data)
        return TextPiece(text, flags, pending + data, len(pending))

    def _begin_reading(self) -> Decoder:
        if self._binary.closed or not self._binary.readable():
            self._binary._check_readable()
        if self._decoder is None:
            self._decoder = self._make_decoder()
        return self._decoder

    def _make_decoder(self) -> Decoder:
        decoder: Any = codecs.getincrementaldecoder(self._encoding)(self._errors)
        if not self._newline:
            decoder = io.IncrementalNewlineDecoder(decoder, translate=self._newline is None)
            if self._saw_feed:
                decoder.decode(b"\n")  # for ``newlines``: it was decoded without a decoder
        return decoder  # type: ignore[no-any-return]

    def _reset_decoder(self) -> None:
        self._saw_feed = False
        if self._decoder is not None:
            self._decoder.reset()

    def _is_multibyte(self) -> bool:
        """Whether it is an East Asian encoding, whose initial state is not 0.

        CPython's decoders of ISO 2022 accept 0 nevertheless, and crash on the next byte.
        """
        decoder: Any = codecs.getincrementaldecoder(self._encoding)
        return isinstance(decoder, type) and issubclass(decoder, MultibyteIncrementalDecoder)

    def _drop_read_ahead(self) -> None:
        self._piece = NO_TEXT
        self._at = 0
        self._has_decoded = False

    # ---- writing --------------------------------------------------------------------------------

    async def _write_in_turn(self, text: str) -> int:
        try:
            if not isinstance(text, str):
                raise TypeError(f"write() argument must be str, not {type(text).__name__}")
            self._binary._check_writable()
            encoder = self._encoder or await self._make_encoder()
            before = encoder.getstate()
            try:
                if len(text) <= _SLICE:
                    await self._binary.write(encoder.encode(self._with_line_ends(text)))
                else:
                    await self._write_large(encoder, text)
            except BaseException:
                encoder.setstate(before)
                raise
            self._drop_read_ahead()
            self._reset_decoder()
            if self._line_buffering and ("\n" in text or "\r" in text):
                await self._binary.flush()
            return len(text)
        finally:
            self._give_up_turn()

    def _buffered_nothing(self) -> str | None:
        return None if self._line_buffering or not self._binary._buffer_size else ""

    def _with_line_ends(self, text: str) -> str:
        if self._newline != "" and self._line_end != "\n":
            return text.replace("\n", self._line_end)
        return text

    async def _write_large(self, encoder: codecs.IncrementalEncoder, text: str) -> None:
        """Encode slice by slice, and write once all slices are encoded without an error."""
        backend = self._binary._backend
        pieces = []
        for begin in range(0, len(text), _SLICE):
            if backend.should_yield(_SLICE):
                await backend.yield_now()
            pieces.append(encoder.encode(self._with_line_ends(text[begin : begin + _SLICE])))
        for piece in pieces:
            await self._binary.write(piece)
        del piece
        await self._free(pieces)

    async def _free(self, pieces: list[Any]) -> None:
        """Free the parts of a large text, which takes time too.

        The last one first: if the parts lie one after the other at the end of the heap, and the
        last one is freed last, then free(3) returns all of them to the system at that moment.
        """
        backend = self._binary._backend
        while pieces:
            del pieces[-_SLICES_DROPPED:]
            if backend.should_yield(_SLICE):
                await backend.yield_now()

    async def _make_encoder(self) -> codecs.IncrementalEncoder:
        encoder = codecs.getincrementalencoder(self._encoding)(self._errors)
        if self._binary.seekable() and await self._binary.tell():
            encoder.setstate(0)  # a byte order mark only at the beginning
        self._encoder = encoder
        return encoder

    async def truncate(self, size: int | None = None) -> int:
        """Make the file ``size`` bytes long, by default as long as the position; returns the size.

        The position does not change.
        """
        if size is None:
            await self._take_turn()
            try:
                size = await self._byte_position()
            finally:
                self._give_up_turn()
        return await self._binary.truncate(size)

    async def _byte_position(self) -> int:
        """Return where in the file the text before the position ends, in bytes."""
        position = await self._binary.tell()
        snapshot = self._snapshot()
        if self._decoder is None or snapshot is None:
            return position
        return position - len(snapshot.data) + snapshot.bytes_before(self._at, self._decoder)

    def _snapshot(self) -> Snapshot | None:
        """The bytes of the piece, if its position is known."""
        piece = self._piece
        if piece.flags is None:
            return None
        return Snapshot(piece.flags, piece.data, piece.pending, len(piece.text))

    async def flush(self) -> None:
        """Pass the buffered data to the kernel."""
        await self._binary.flush()

    async def fsync(self) -> None:
        """Flush, and wait until data and metadata are on the device (fsync(2))."""
        await self._binary.fsync()

    async def fdatasync(self) -> None:
        """Flush, and wait until the data is on the device (fdatasync(2))."""
        await self._binary.fdatasync()

    # ---- the position ---------------------------------------------------------------------------

    async def _tell_in_turn(self) -> int:
        try:
            return await self._tell()
        finally:
            self._give_up_turn()

    async def _tell(self) -> int:
        position = await self._binary.tell()
        snapshot = self._snapshot()
        if self._decoder is None or snapshot is None:
            return position
        start = position - len(snapshot.data)
        return snapshot.position_of(start, self._at, self._decoder).pack()

    async def _seek_in_turn(self, offset: int, whence: int) -> int:
        try:
            self._binary._check_open()
            self._binary._check_seekable()
            if whence == os.SEEK_CUR:
                if offset:
                    raise io.UnsupportedOperation(
                        "a text file can seek from its position only by 0"
                    )
                offset = await self._tell()
            elif whence == os.SEEK_END:
                if offset:
                    raise io.UnsupportedOperation("a text file can seek from its end only by 0")
                position = await self._binary.seek(0, os.SEEK_END)
                self._drop_read_ahead()
                self._reset_decoder()
                self._start_encoding_at(TextPosition(position))
                return position
            elif whence != os.SEEK_SET:
                raise ValueError(f"whence {whence} is not SEEK_SET, SEEK_CUR or SEEK_END")
            if offset < 0:
                raise ValueError(f"position {offset} is negative")
            await self._go_to(TextPosition.unpack(offset))
            return offset
        finally:
            self._give_up_turn()

    def _start_encoding_at(self, position: TextPosition) -> None:
        if self._encoder is not None:
            self._encoder.reset()
            if position.start or position.flags:
                self._encoder.setstate(0)

    async def _go_to(self, target: TextPosition) -> None:
        await self._binary.seek(target.start)
        # A decoder that is made later would look for a byte order mark.
        if self._decoder is None and target != TextPosition(0) and self._binary.readable():
            self._decoder = self._make_decoder()
        self._drop_read_ahead()
        self._start_encoding_at(target)
        if self._decoder is None:
            self._saw_feed = False
            return
        if target.flags or (target.start and not self._is_multibyte()):
            self._decoder.setstate((b"", target.flags))
        else:
            self._decoder.reset()  # not the same where a byte order mark may follow
        self._piece = TextPiece("", target.flags)
        if not target.skip and not target.feed:
            return
        flags = self._decoder.getstate()[1]
        data = await self._binary.read(target.feed)
        text = self._decoder.decode(data, target.final)
        if len(text) < target.skip:
            raise OSError(f"position {target.pack()} is not one of this file")
        self._piece = TextPiece(text, flags, data)
        self._at = target.skip
        self._has_decoded = True
