"""A text file made ready to be continued: its torn end goes, and its last row gets its line end."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

from penstock._durable_files import write_fully
from penstock._torn_end import Cut, EndTooLargeError, cut_end
from penstock.record._sinks.line_ends import (
    Layout,
    csv_layout,
    fields_of,
    json_layout,
    json_object,
    lines_of,
    text_end,
)
from penstock.record.errors import RecoveryError
from penstock.record.schema import LEADING_COLUMNS

__all__ = [
    "HEAD_BEGINS",
    "HEAD_KEY",
    "RepairedLines",
    "described_beside",
    "repair_lines",
    "rows_of_text",
    "sidecar_path",
]

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
                "columns of a recording nor a description. It was left as it is; give the name of "
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
