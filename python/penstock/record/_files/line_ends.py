"""The rows of a text file that an unknown hand may have changed: of CSV and of JSON Lines.

A row ends with CRLF or LF, or with the file: editors, version control and file transfers change
that, and the row says the same. A last row without an end is whole if it has all its columns, or
is a whole JSON object; else it is torn.

In CSV a text may hold line breaks inside quotes, so a quote decides where a row ends. One stray
quote would make everything after it one single text. So a quote is judged by its row: if a line
after it is a whole row by itself, with all columns and a time stamp, then the quote was stray, its
row is faulty, and the next one begins there.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from penstock._durable_files import write_fully
from penstock._record import line_counts
from penstock._torn_end import Cut, EndTooLargeError, cut_end
from penstock.record.errors import RecoveryError
from penstock.record.schema import LEADING_COLUMNS

_BOM = b"\xef\xbb\xbf"
# Possessive: of two quotes in a row, none may end the field, even if the field then has no end.
_QUOTED = re.compile(rb'"(?:[^"]++|"")*+"')
_PLAIN = re.compile(rb'[^,"\r\n]*')
_STAMP = re.compile(rb"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d")
_LINE_ENDS = (b"", b"\n", b"\r", b"\r\n")
# A text of more lines than this is a stray quote, wherever the next row begins.
_MOST_LINES_OF_A_ROW = 1000
_BLOCK = 1 << 20
_LARGEST_ROW = 16 << 20
_NEVER_CLOSED = "a quote in it is never closed"


@dataclass(frozen=True, slots=True)
class Layout:
    """What a row of a file looks like.

    Attributes:
        quoted: CSV, else JSON Lines.
        columns: how many fields a row has; 0 if unknown.
    """

    quoted: bool
    columns: int = 0


@dataclass(frozen=True, slots=True)
class TextRow:
    """A row as it stands in the file.

    Attributes:
        line: the number of its first line, from 1.
        start: where it begins.
        data: its bytes, with its line end.
        fault: what is wrong with its form; empty if nothing is.
    """

    line: int
    start: int
    data: bytes
    fault: str = ""

    @property
    def ended(self) -> bool:
        """False for a row that the end of the file ends."""
        return self.data.endswith(b"\n")

    @property
    def is_open(self) -> bool:
        """True if a quote in it is still open at its end."""
        return self.fault is _NEVER_CLOSED


@dataclass(frozen=True, slots=True)
class TextEnd:
    """Where the whole rows of a file end.

    Attributes:
        end: the first byte of the torn end, or the size of the file.
        rows: how many rows there are before it, heads included.
        lacks_end: True when the last of them has no line end.
    """

    end: int
    rows: int
    lacks_end: bool = False


def csv_layout(header: bytes) -> Layout:
    """The layout that a CSV file's first line states."""
    return Layout(True, _split(header.removeprefix(_BOM))[0])


def json_layout() -> Layout:
    """The layout of JSON Lines."""
    return Layout(False)


def rows_of(lines: Iterable[bytes], layout: Layout, *, line: int = 1) -> Iterator[TextRow]:
    """The rows that ``lines`` are, such as an open file. The first line has the number ``line``.

    A faulty row is one row, however many lines its stray quote has taken.
    """
    position = 0
    waiting = b""  # a row whose last quote is open
    began = count = 0
    for data in lines:
        if waiting:
            joined = waiting + data
            columns, state = _split(joined)
            if state == "open" and count < _MOST_LINES_OF_A_ROW and not _stands_alone(data, layout):
                waiting = joined
                count += 1
            elif state != "open" and not _stands_alone(data, layout):
                yield TextRow(line, began, joined, _fault(columns, state, joined, layout))
                line += count + 1
                waiting = b""
            else:
                yield TextRow(line, began, waiting, _NEVER_CLOSED)
                line += count
                waiting = b""
                yield TextRow(line, position, data)
                line += 1
            position += len(data)
            continue
        if not layout.quoted or (b'"' not in data and b"\r" not in data[:-2]):
            # The usual row. Its fields are not looked at: their reader does that.
            yield TextRow(line, position, data)
            line += 1
        else:
            columns, state = _split(data)
            if state == "open":
                waiting, began, count = data, position, 1
            else:
                yield TextRow(line, position, data, _fault(columns, state, data, layout))
                line += 1
        position += len(data)
    if waiting:
        yield TextRow(line, began, waiting, _NEVER_CLOSED)


def lines_of(file: BinaryIO) -> Iterator[bytes]:
    """The lines of a file, of one that is longer than 16 MiB so many bytes.

    Where a disk has lost a file's blocks, or an editor its line ends, all of it can be one line.
    """
    while line := file.readline(_LARGEST_ROW):
        more = line
        while len(more) == _LARGEST_ROW and not more.endswith(b"\n"):
            more = file.readline(_LARGEST_ROW)
        yield line


def is_cut(line: bytes) -> bool:
    """Whether a line of :func:`lines_of` was longer."""
    return len(line) == _LARGEST_ROW and not line.endswith(b"\n")


def text_end(file: BinaryIO, layout: Layout) -> TextEnd:
    """Where the whole rows end, from the file's position on.

    A faulty row with rows after it stays: it is for readers to report, and not torn.
    """
    base = file.tell()
    rows = 0
    rest = b""
    while block := file.read(_BLOCK):
        data = rest + block
        cut = data.rfind(b"\n") + 1
        whole, rest = data[:cut], data[cut:]
        if is_plain(whole, layout):
            rows += line_counts(whole)[0]
        else:
            found = list(rows_of(io.BytesIO(whole), layout))
            if found and found[-1].is_open:
                rest = found.pop().data + rest
            rows += len(found)
        base += len(data) - len(rest)
        if len(rest) > _LARGEST_ROW:
            return TextEnd(base, rows)
    found = list(rows_of(io.BytesIO(rest), layout))
    rows += max(0, len(found) - 1)
    if not found:
        return TextEnd(base, rows)
    last = found[-1]
    if last.ended and not last.is_open:
        return TextEnd(base + len(rest), rows + 1)
    if is_whole(last.data, layout):
        return TextEnd(base + len(rest), rows + 1, lacks_end=True)
    return TextEnd(base + last.start, rows)


def is_plain(data: bytes, layout: Layout) -> bool:
    """Whether each line is a row, at a glance at all of them: long files are mostly so."""
    return not layout.quoted or line_counts(data)[1:] == (0, 0)


def has_faulty_row(data: bytes, layout: Layout) -> bool:
    """Whether :func:`rows_of` would find a fault in the form of a CSV text.

    Looks at the rows with quotes alone. In a recording they are few: its failed polls.
    """
    if is_plain(data, layout):
        return False
    if line_counts(data)[2]:
        return any(row.fault for row in rows_of(io.BytesIO(data), layout))
    quote = data.find(b'"')
    while quote >= 0:
        start = data.rfind(b"\n", 0, quote) + 1
        end = 0
        for _ in range(_MOST_LINES_OF_A_ROW):
            begin, end = end or start, (data.find(b"\n", end or quote) + 1) or len(data)
            if begin > start and _stands_alone(data[begin:end], layout):
                return True
            columns, state = _split(data[start:end])
            if state != "open" or end == len(data):
                break
        if state == "open" or _fault(columns, state, data[start:end], layout):
            return True
        quote = data.find(b'"', end)
    return False


def is_whole(row: bytes, layout: Layout) -> bool:
    """Whether a row without a line end has everything that a row has."""
    if layout.quoted:
        columns, state = _split(row)
        # Zero bytes stand for what a power cut has left unwritten.
        whole = state == "whole" and b"\0" not in row and bool(row.strip())
        return whole and columns == (layout.columns or columns)
    try:
        return isinstance(json.loads(row), dict)
    except (ValueError, RecursionError):
        return False


def fields_of(row: bytes) -> list[str]:
    """The fields of a CSV row that is whole, such as a header."""
    text = row.removeprefix(_BOM).decode("utf-8", "replace")
    return next(csv.reader([text], strict=False), [])


def json_object(line: bytes) -> dict[str, Any] | str:
    """The object that a line of JSON is, or what is wrong with the line."""
    try:
        content = json.loads(line.removeprefix(_BOM))
    except UnicodeDecodeError:
        return "it is not UTF-8"
    except (ValueError, RecursionError) as error:
        return f"it is not JSON ({error})"
    return content if isinstance(content, dict) else "it is not a JSON object"


def _stands_alone(data: bytes, layout: Layout) -> bool:
    columns, state = _split(data)
    return (
        state == "whole"
        and columns > 1
        and columns == layout.columns
        and _STAMP.search(data) is not None
    )


def fault_of(row: bytes, layout: Layout) -> str:
    """What is wrong with the form of a CSV row; empty if nothing is."""
    columns, state = _split(row)
    return _NEVER_CLOSED if state == "open" else _fault(columns, state, row, layout)


def _fault(columns: int, state: str, data: bytes, layout: Layout) -> str:
    if state == "bad":
        return "a quote is in a place where none is allowed"
    if layout.columns and columns != layout.columns and data.strip():
        return f"it has {columns} fields instead of {layout.columns}"
    return ""


def _split(row: bytes) -> tuple[int, str]:
    """How many fields a row has, and whether its quotes are whole, open, or in the wrong place."""
    position = columns = 0
    while True:
        columns += 1
        if row[position : position + 1] == b'"':
            match = _QUOTED.match(row, position)
            if match is None:
                return columns, "open"
        else:
            match = _PLAIN.match(row, position)
            assert match is not None
        position = match.end()
        if row[position : position + 1] != b",":
            return columns, "whole" if row[position:] in _LINE_ENDS else "bad"
        position += 1


# A text file made ready to be continued: its torn end goes, and its last row gets its line end.

HEAD_KEY = "penstock"
"""The only key of the lines that hold metadata: the first one, and the last of a complete file."""

_HEADS = 8  # lines that tell whose file it is: the first ones may be damaged
_LONGEST_HEAD = 1 << 20
HEAD_BEGINS = b'{"penstock": {'


@dataclass(frozen=True, slots=True)
class RepairedLines:
    """What a text file holds after its repair.

    Attributes:
        size: in bytes.
        rows: the number of rows, without heads.
        cut: what was cut off, if anything.
        ended: True if the last row had no line end and has one now.
    """

    size: int
    rows: int
    cut: Cut | None = None
    ended: bool = False


def sidecar_path(path: Path) -> Path:
    """Where the metadata of a CSV file lie: ``run.csv`` -> ``run.csv.meta.json``."""
    return path.with_name(path.name + ".meta.json")


def described_beside(path: Path) -> dict[str, object] | None:
    """What lies beside a CSV file; None where nothing readable does."""
    try:
        document = json.loads(sidecar_path(path).read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def rows_of_text(path: Path, *, quoted: bool) -> int:
    """The whole rows of a CSV or JSON Lines file, without heads. OSError."""
    with open(path, "rb") as file:
        if quoted:
            return text_end(file, csv_layout(file.readline())).rows
        rows = text_end(file, json_layout()).rows
        file.seek(0)
        return rows - sum(line.startswith(HEAD_BEGINS) for line in lines_of(file))


def repair_lines(descriptor: int, path: Path, *, quoted: bool, force: bool) -> RepairedLines:
    """Cut the torn end off a CSV or JSON Lines file, keeping it, and end its last row.

    ``descriptor`` is open for reading and writing, and locked; ``quoted`` is CSV.

    Raises:
        RecoveryError: the file is not one of Penstock's, or the end is too large to be a torn one.
            It is unchanged then.
        OSError: the disk refuses.
    """
    with open(path, "rb") as file:
        heads = [file.readline(_LONGEST_HEAD) for _ in range(_HEADS)]
        layout = _layout(path, heads[0]) if quoted else json_layout()
        if heads[0] and not (_is_our_csv(path, heads[0]) if quoted else _is_our_json(heads)):
            raise RecoveryError(
                f"{path} was not written by Penstock, as far as can be seen: it has neither the "
                "columns of a recording nor a description. It was not changed; give the name of "
                "a recording, or choose another name for a new one"
            )
        file.seek(0)
        found = text_end(file, layout)
        file.seek(0)
        others = 1 if quoted else sum(line.startswith(HEAD_BEGINS) for line in lines_of(file))
    try:
        cut = cut_end(descriptor, path, found.end, force=force)
    except EndTooLargeError as error:
        raise RecoveryError(str(error)) from error
    size = found.end
    if found.lacks_end and found.end:
        # A carriage return may stand there already.
        ending = b"\r\n" if quoted and os.pread(descriptor, 1, size - 1) != b"\r" else b"\n"
        os.lseek(descriptor, size, os.SEEK_SET)
        try:
            write_fully(descriptor, ending)
            os.fsync(descriptor)
        except OSError:
            os.ftruncate(descriptor, size)
            raise
        size += len(ending)
    return RepairedLines(size, max(0, found.rows - others), cut, found.lacks_end)


def _layout(path: Path, head: bytes) -> Layout:
    columns = (described_beside(path) or {}).get("columns")
    return Layout(True, len(columns)) if isinstance(columns, list) else csv_layout(head)


def _is_our_csv(path: Path, head: bytes) -> bool:
    described = described_beside(path) or {}
    if str(described.get("format", "")).startswith("penstock csv"):
        return True
    if tuple(fields_of(head)[: len(LEADING_COLUMNS)]) == LEADING_COLUMNS:
        return True
    # A kill may have torn the header itself.
    return not head.endswith(b"\n") and ",".join(LEADING_COLUMNS).encode().startswith(head)


def _is_our_json(heads: list[bytes]) -> bool:
    for head in filter(None, heads):
        if HEAD_BEGINS.startswith(head) or head.startswith(HEAD_BEGINS):
            return True
        row = json_object(head)
        if isinstance(row, dict) and row.keys() >= set(LEADING_COLUMNS):
            return True
    return False
