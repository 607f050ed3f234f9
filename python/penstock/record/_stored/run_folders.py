"""Folders of recordings: the runs in them, and the formats of each run.

A recorder that is started again, by hand or by a service manager, writes into the same folder, or
into another one beside it. Both are runs of one history.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

__all__ = ["FORMATS", "PARTS", "SQLITE", "SUFFIXES", "by_format", "is_parts_folder", "run_folders"]

SQLITE = (".sqlite", ".sqlite3", ".db")
PARTS = ""
"""A folder of parts is a format of its own."""
SUFFIXES = (".parquet", ".arrow", ".csv", ".jsonl", *SQLITE)
FORMATS = (".parquet", PARTS, *SUFFIXES[1:])
"""Where formats of a folder have equally many rows, those of the first one are read."""
_DEEPEST = 5
"""Such as year, month, day, machine, run."""


def is_parts_folder(path: Path) -> bool:
    """Whether a folder is itself a recording."""
    return (path / ".penstock").is_dir()


def by_format(folder: Path) -> dict[str, set[Path]]:
    """The recordings in a folder, such as ``penstock record`` fills, by their format."""
    found: dict[str, set[Path]] = {}
    for path in folder.iterdir():
        # A file that is not joined yet, or a further part of one that is there.
        recording = path.with_suffix("") if path.suffix == ".parts" else path
        stem, _, number = recording.stem.rpartition(".part")
        if stem and number.isdecimal() and recording.with_stem(stem).exists():
            continue
        if is_parts_folder(path) and path.suffix != ".parts":
            found.setdefault(PARTS, set()).add(path)
        elif recording.suffix in SUFFIXES:
            found.setdefault(recording.suffix, set()).add(recording)
    return found


def run_folders(folder: Path, depth: int = _DEEPEST) -> Iterator[Path]:
    """The folders at and below ``folder`` that have recordings, by name.

    Names that begin with a dot or an underscore are somebody's unfinished work. A name with ``=``
    is a column of an archive, which is no run. A folder below that may not be read is left out.
    """
    if by_format(folder):
        yield folder
    if not depth:
        return
    for path in sorted(folder.iterdir()):
        hidden = path.name.startswith((".", "_")) or path.suffix == ".parts"
        if hidden or "=" in path.name or not path.is_dir() or is_parts_folder(path):
            continue
        with suppress(PermissionError):
            yield from run_folders(path, depth - 1)
