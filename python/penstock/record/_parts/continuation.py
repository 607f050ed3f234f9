"""Whether a file is all of a recording: what it says of the next file, and what its name says.

A file names the one that follows it (``continued_in``) when that one is there already. So where it
is missing, somebody has moved or removed it.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from penstock.record._files.files import numbered_parts
from penstock.record._files.line_ends import HEAD_BEGINS, HEAD_KEY, described_beside
from penstock.record._parts.parts_folder import parts_path
from penstock.record._parts.table_formats import ArrowFormat, ParquetFormat
from penstock.record.damage import UNREADABLE
from penstock.record.errors import RecordError, RecoveryError

_UNREADABLE: tuple[type[Exception], ...] = (RecordError, *UNREADABLE)
_LONGEST_END = 1 << 20
_LATER = re.compile(r"(.+)\.part([1-9]\d*)")


def next_file(path: Path) -> Path | None:
    """The file that the last file of a recording says it goes on in. Blocking.

    None where it says nothing of the kind, or cannot be read.

    Args:
        path: a file, or a folder of parts, which never says so.
    """
    if path.is_dir() or parts_path(path).is_dir():
        return None  # what follows is in the folder
    try:
        files = [part for _, part in numbered_parts(path)]
        name = _continued_in(files[-1]) if files else None
        following = path.with_name(name) if isinstance(name, str) else None
    except _UNREADABLE:
        return None
    return None if following in files else following


def check_last_file(path: Path) -> None:
    """Refuse to continue a recording whose last file is missing; RecoveryError.

    The file before it would grow, and name it no more.
    """
    following = next_file(path)
    if following is not None and not following.exists():
        raise RecoveryError(
            f"{following} is missing, and {path.name} continues in it: the recording cannot be "
            "continued. Restore the missing file, or begin a new recording"
        )


def first_file(path: Path) -> Path | None:
    """The file that begins a recording, of which ``path`` has the name of a later one."""
    name = _LATER.fullmatch(path.stem)
    return None if name is None or name[2] == "1" else path.with_stem(name[1])


def _continued_in(path: Path) -> Any:
    if path.suffix == ".csv":
        return (described_beside(path) or {}).get("continued_in")
    if path.suffix == ".jsonl":
        last = _last_line(path)
        return json.loads(last)[HEAD_KEY].get("continued_in") if last else None
    if path.suffix in (".parquet", ".arrow") and path.stat().st_size:
        table_format = (ArrowFormat if path.suffix == ".arrow" else ParquetFormat)("zstd")
        found = (table_format.read_schema(path).metadata or {}).get(b"penstock.continued_in")
        return None if found is None else json.loads(found)
    return None


def _last_line(path: Path) -> bytes:
    """The line that ends a file of JSON Lines; empty if it is a row."""
    with open(path, "rb") as file:
        file.seek(max(0, file.seek(0, 2) - _LONGEST_END))
        last = file.read(_LONGEST_END).rstrip().rpartition(b"\n")[2]
    return last if last.startswith(HEAD_BEGINS) else b""
