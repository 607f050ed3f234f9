"""Positions in a text file: numbers that hold a byte offset and the decoder's state there.

Where decoding can begin with a fresh decoder the number is the byte offset. Otherwise it also holds
the decoder's flags, how many bytes to decode from there, and how many of their characters come
before the position. The layout is that of ``io.TextIOWrapper``, so a number means the same to both.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Protocol

_FIELDS = {"start": 64, "low_flags": 32, "feed": 32, "skip": 32, "final": 8}
"""The fields' sizes in bits, from the lowest. Flags that do not fit come last; the built-in has no
room for them."""

_FLAG_BITS = _FIELDS["low_flags"]
_LONGEST_CHARACTER = 4  # bytes


class Decoder(Protocol):
    """An incremental decoder of :mod:`codecs`."""

    def decode(self, data: bytes, final: bool = False, /) -> str: ...
    def getstate(self) -> tuple[bytes, int]: ...
    def setstate(self, state: tuple[bytes, int], /) -> None: ...
    def reset(self) -> None: ...


@dataclass(frozen=True, slots=True)
class TextPosition:
    """The fields of a position's number."""

    start: int
    """Where decoding begins, in bytes."""
    flags: int = 0
    """The decoder's flags there."""
    feed: int = 0
    """How many bytes are decoded from there at once."""
    final: bool = False
    """Whether the file ends there."""
    skip: int = 0
    """How many of the decoded characters come before the position."""

    def pack(self) -> int:
        """Return the number."""
        low_flags = self.flags & ((1 << _FLAG_BITS) - 1)
        number, shift = 0, 0
        values = (self.start, low_flags, self.feed, self.skip, int(self.final))
        for value, bits in zip(values, _FIELDS.values(), strict=True):
            number |= value << shift
            shift += bits
        return number | (self.flags >> _FLAG_BITS) << shift

    @classmethod
    def unpack(cls, number: int) -> TextPosition:
        """Return the position of a number."""
        values = {}
        for name, bits in _FIELDS.items():
            values[name] = number & ((1 << bits) - 1)
            number >>= bits
        flags = number << _FLAG_BITS | values["low_flags"]
        return cls(values["start"], flags, values["feed"], bool(values["final"]), values["skip"])


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The bytes of the buffered text, and the decoder's state before them."""

    flags: int
    data: bytes
    pending: int = 0
    """How many of the first bytes the decoder held before."""
    characters: int = 0
    """The length of the text that they give."""

    def position_of(self, start: int, characters: int, decoder: Decoder) -> TextPosition:
        """Find the position ``characters`` into the text; ``data`` begins at byte ``start``.

        The decoder is used for the search and left in the state that it had.

        A place may have several numbers: between the characters of a line end, say, or where a
        decoder has seen the first half of one. This finds the built-in's, whose search begins where
        the position would be if all characters were equally long.
        """
        if not characters:
            return TextPosition(start, self.flags)
        saved = decoder.getstate()
        try:
            before, left, flags = self._estimate(characters, decoder)
            if not left:
                return TextPosition(start + before, flags)
            return Snapshot(flags, self.data[before:])._search(start + before, left, decoder)
        finally:
            decoder.setstate(saved)

    def bytes_before(self, characters: int, decoder: Decoder) -> int:
        """Return how many bytes make the first ``characters``. The decoder's state is kept."""
        if not characters:
            return 0
        saved = decoder.getstate()
        try:
            end, final = self._least(characters, decoder)
            if final or (self._decoded(end, decoder) == characters and not decoder.getstate()[0]):
                return end
            # The last byte gave several characters. The decoder may have held back a complete one
            # until then, such as the first half of a line end.
            for earlier in range(end - 1, max(end - 1 - _LONGEST_CHARACTER, 0), -1):
                decoder.setstate((b"", self.flags))
                with contextlib.suppress(UnicodeError):
                    if len(decoder.decode(self.data[:earlier], True)) == characters:
                        return earlier
        finally:
            decoder.setstate(saved)
        return end

    def _estimate(self, characters: int, decoder: Decoder) -> tuple[int, int, int]:
        """Find where a fresh decoder can start, near the position and not after it.

        Returns the bytes before that place, the characters from there to the position, and the
        decoder's flags there.
        """
        read = len(self.data) - self.pending
        size = int(characters * (read / self.characters)) if self.characters else 0
        step = 1
        while size > 0:
            count = self._decoded(size, decoder)
            pending, flags = decoder.getstate()
            if count > characters:
                size -= step
                step *= 2
            elif pending:
                size -= len(pending)
                step = 1
            else:
                return size, characters - count, flags
        return 0, characters, self.flags

    def _least(self, characters: int, decoder: Decoder) -> tuple[int, bool]:
        """Find the smallest number of bytes that gives so many characters.

        True: all of them give fewer, but for the end of the file.
        """
        least, most = 1, len(self.data)
        if self._decoded(most, decoder) < characters:
            return most, True
        while least < most:
            middle = (least + most) // 2
            if self._decoded(middle, decoder) < characters:
                least = middle + 1
            else:
                most = middle
        return most, False

    def _search(self, start: int, characters: int, decoder: Decoder) -> TextPosition:
        most, final = self._least(characters, decoder)
        # Begin at the last byte up to it at which a fresh decoder can start.
        begin, skip, flags = 0, characters, self.flags
        for before in range(most, 0, -1):
            count = self._decoded(before, decoder)
            pending, state = decoder.getstate()
            if count <= characters and not pending:
                begin, skip, flags = before, characters - count, state
                break
        return TextPosition(start + begin, flags, most - begin, final, skip)

    def _decoded(self, size: int, decoder: Decoder) -> int:
        decoder.setstate((b"", self.flags))
        return len(decoder.decode(self.data[:size]))
