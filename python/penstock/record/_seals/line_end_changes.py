"""A text file whose line ends were changed, read as it was written.

Editors, version control and file transfers turn the CRLF of CSV into LF, or the LF of JSON Lines
into CRLF. The rows say the same, but no byte is where it was, so that every seal would say that its
rows have changed. So such a file is read with the line ends that it had, and the seals say whether
anything else has changed. A line break inside a quoted text is not a line end. It stays.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from penstock.record._files.line_ends import Layout, csv_layout, is_plain, rows_of
from penstock.record._seals.seal import SealList, read_seals, seals_path

_BLOCK = 1 << 20
_LONGEST_HEAD = 1 << 20


def changed_line_ends(path: Path, file: BinaryIO, seals: SealList) -> str:
    """How the line ends of a text were changed since it was sealed; empty if they were not.

    Its first line tells. What was first sealed as found may have had any. OSError.
    """
    if not seals.seals or seals.seals[0].kind == "found":
        return ""
    file.seek(0)
    head = file.readline(_LONGEST_HEAD)
    if path.suffix == ".csv" and head.endswith(b"\n") and not head.endswith(b"\r\n"):
        return "from CRLF to LF"
    if path.suffix == ".jsonl" and head.endswith(b"\r\n"):
        return "from LF to CRLF"
    return ""


def has_changed_line_ends(path: Path) -> bool:
    """Whether a text has other line ends than those that it was sealed with. OSError."""
    found = read_seals(seals_path(path))
    if found is None or found.fault:
        return False
    with open(path, "rb") as file:
        return bool(changed_line_ends(path, file, found))


class RestoredText:
    """The bytes of a file with the line ends that it had. OSError.

    Args:
        path: the file, whose suffix tells its format.
        file: the same, open.
    """

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self._is_csv = path.suffix == ".csv"
        self._file = file
        self._begin()

    def _begin(self) -> None:
        self._pieces = self._restored()
        self._rest = b""
        self._at = 0

    def size(self) -> int:
        """How many bytes there are in all."""
        return sum(map(len, self._restored()))

    def seek(self, at: int) -> None:
        """Go on reading at ``at``; forwards it costs the reading of what is between."""
        if at < self._at:
            self._begin()
        while self._at < at and self.read(min(_BLOCK, at - self._at)):
            pass

    def read(self, count: int) -> bytes:
        """The next bytes, at most ``count``; none at the end."""
        while not self._rest:
            piece = next(self._pieces, None)
            if piece is None:
                return b""
            self._rest = piece
        taken, self._rest = self._rest[:count], self._rest[count:]
        self._at += len(taken)
        return taken

    def _restored(self) -> Iterator[bytes]:
        self._file.seek(0)
        layout = csv_layout(self._file.readline(_LONGEST_HEAD)) if self._is_csv else None
        self._file.seek(0)
        rest = b""
        while block := self._file.read(_BLOCK):
            data = rest + block
            if layout is None:
                end = len(data) - data.endswith(b"\r")
                yield data[:end].replace(b"\r\n", b"\n")
                rest = data[end:]
                continue
            end = data.rfind(b"\n") + 1
            rows, rest = _with_crlf(data[:end], layout)
            yield rows
            rest += data[end:]
        yield rest


def _with_crlf(data: bytes, layout: Layout) -> tuple[bytes, bytes]:
    """Whole lines, their rows ended with CRLF, and the row at their end that goes on, if any."""
    if is_plain(data, layout):
        return data.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n"), b""
    rows = list(rows_of(io.BytesIO(data), layout))
    rest = rows.pop().data if rows and rows[-1].is_open else b""
    return b"".join(map(_ended, (row.data for row in rows))), rest


def _ended(row: bytes) -> bytes:
    return row[:-1] + b"\r\n" if row.endswith(b"\n") and not row.endswith(b"\r\n") else row
