"""The parts of a stored recording of any format, each read as an Arrow table."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from penstock.record._files.files import numbered_parts, part_path
from penstock.record._files.line_ends import rows_of_text
from penstock.record._files.sqlite_log import lock_path
from penstock.record._parts.compaction import joined_parts
from penstock.record._parts.continuation import first_file, next_file
from penstock.record._parts.parts_folder import RUNS_KEY, PartsFolder, parts_path
from penstock.record._stored.line_tables import csv_pieces, csv_table, jsonl_pieces, jsonl_table
from penstock.record._stored.sound_tables import described_schema, plain_schema, sound_table
from penstock.record._stored.sqlite_tables import connected, sqlite_pieces, sqlite_tables
from penstock.record._stored.table_files import (
    Columns,
    format_of,
    journal_table,
    table_of_file,
    table_pieces,
)
from penstock.record.arrow import METADATA_KEY, pyarrow_module, units_of
from penstock.record.damage import UNREADABLE, DamageList
from penstock.record.errors import RecordError
from penstock.record.recorder_lock import is_being_recorded

__all__ = [
    "StoredPart",
    "check_recording",
    "described_schema",
    "files_at",
    "first_file",
    "is_growing",
    "lacking_column",
    "next_file",
    "plain_schema",
    "recordings_at",
    "recordings_in_order",
    "stored_parts",
    "stored_pieces",
    "was_cut_off",
]

_UNCOUNTABLE: tuple[type[Exception], ...] = (RecordError, *UNREADABLE)


@dataclass(slots=True)
class StoredPart:
    """The rows of one part of a recording: of a file, a journal, or a table of a database.

    Attributes:
        path: the path of the part; on a PostgreSQL server, the name of the table.
        table: a ``pyarrow.Table`` whose fields have the units.
        metadata: the metadata of the recording when the part began.
        names: all columns of the part, even if only some were read.
        is_first: False for a piece that continues the part of the previous piece.
    """

    path: Path
    table: Any
    metadata: dict[str, Any] = field(init=False)
    names: tuple[str, ...] = ()
    is_first: bool = True

    def __post_init__(self) -> None:
        self.names = self.names or tuple(self.table.column_names)
        self.metadata = json.loads((self.table.schema.metadata or {}).get(METADATA_KEY, b"{}"))

    @property
    def units(self) -> dict[str, str]:
        """The unit of each field that has one for all its devices."""
        return {
            name: unit
            for name, unit in units_of(self.table.schema).items()
            if isinstance(unit, str)
        }


def lacking_column(part: StoredPart, needs: Sequence[str]) -> str:
    """The first of some columns that a part has not once, or not of its type; empty if none is.

    Damaged names and types of columns are read as they are: rows without these are of no use.
    """
    pa = pyarrow_module()
    names = part.table.schema.names
    right = {
        "t_utc": pa.types.is_timestamp,
        "device": lambda kind: pa.types.is_string(
            kind.value_type if pa.types.is_dictionary(kind) else kind
        ),
    }
    for name in needs:
        if names.count(name) != 1 or not right[name](part.table.schema.field(name).type):
            return name
    return ""


def check_recording(path: Path) -> None:
    """Refuse what is not a recording; RecordError."""
    if is_parts_folder(path) or parts_path(path).is_dir():
        return
    if path.is_dir() and any(True for _ in run_folders(path)):
        return
    if not path.exists():
        raise RecordError(f"{path} does not exist: give the path of a recording")
    if path.is_dir():
        raise RecordError(
            f"{path} is not the folder of a recording, and no folder in it is: it has no .penstock"
        )
    if path.suffix not in SUFFIXES:
        raise RecordError(
            f"cannot tell the format of {path} from its name: it must end in one of "
            f"{', '.join(SUFFIXES)}"
        )


def was_cut_off(path: Path) -> bool:
    """Whether ``path`` is a recording that ``penstock recover`` can complete."""
    return parts_path(path).is_dir() or (path / ".penstock").is_dir()


def recordings_at(path: Path, left_out: list[Path] | None = None) -> list[Path]:
    """The recordings at ``path``: of a folder that several were written to, each one, else itself.

    Those of each run stand together. The first format is the one that :func:`stored_parts` prefers
    where all have the same rows. Folders below that may not be read are added to ``left_out``.
    """
    if is_parts_folder(path) or not path.is_dir():
        return [path]
    return [
        each
        for found in map(by_format, run_folders(path, left_out=left_out))
        for kind in FORMATS
        for each in sorted(found.get(kind, ()))
    ]


def files_at(path: Path) -> Iterator[Path]:
    """The files with the rows of the recordings at ``path``, except for journals."""
    for recording in recordings_at(path):
        yield from (part for part in _files_of(recording) if part.is_file())
        for folder in (recording, parts_path(recording)):
            if is_parts_folder(folder):
                yield from (part for _, part in PartsFolder(folder, "").parts())


def recordings_in_order(path: Path, table: str, damages: DamageList) -> list[Path]:
    """The recordings that :func:`stored_parts` reads at ``path``, in the order of first rows."""
    if is_parts_folder(path) or not path.is_dir():
        return [path]
    return _recordings_below(path, table, damages)


def stored_pieces(
    path: Path, table: str, damages: DamageList, columns: Columns = None
) -> Iterator[StoredPart]:
    """What :func:`stored_parts` yields, in pieces: a part may be larger than the memory.

    Args:
        path: as there.
        table: as there.
        damages: as there.
        columns: the columns that are needed, or what chooses them from the schema of a part. Where
            it saves time, others are not read.
    """
    if is_parts_folder(path):
        yield from _parts_of_folder(path, path, damages, columns, in_pieces=True)
    elif path.is_dir():
        for recording in _recordings_below(path, table, damages):
            yield from stored_pieces(recording, table, damages, columns)
    elif path.suffix in SQLITE:
        for piece, names, is_first in sqlite_pieces(path, table, damages, columns):
            yield StoredPart(path, sound_table(path, piece, damages), names, is_first)
    else:
        for part in _files_in_order(path, damages):
            yield from _pieces_of_file(part, damages, columns)
        if parts_path(path).is_dir():
            yield from _parts_of_folder(parts_path(path), path, damages, columns, in_pieces=True)


def _pieces_of_file(path: Path, damages: DamageList, columns: Columns) -> Iterator[StoredPart]:
    if path.suffix in (".csv", ".jsonl"):
        first = True
        read = csv_pieces if path.suffix == ".csv" else jsonl_pieces
        for piece, names in read(path, damages, columns):
            yield StoredPart(path, sound_table(path, piece, damages), names, first)
            first = False
        return
    # A single file is reserved under its name while its parts grow.
    if path.stat().st_size:
        pieces = table_pieces(path, damages, columns)
        if pieces is not None:
            for piece, names, is_first in pieces:
                yield StoredPart(path, piece, names, is_first)
            return
    if (found := _table_of(path, damages)) is not None:
        yield from _runs_of(StoredPart(path, sound_table(path, found, damages)))


def stored_parts(path: Path, table: str, damages: DamageList) -> Iterator[StoredPart]:
    """The parts of the recording at ``path``, in the order of recording.

    Args:
        path: a file, a folder of parts, or a folder of recordings.
        table: of SQLite, the name given to the sink.
        damages: notes what cannot be read; DamagedError when it is strict.
    """
    if is_parts_folder(path):
        yield from _parts_of_folder(path, path, damages)
    elif path.is_dir():
        for recording in _recordings_below(path, table, damages):
            yield from stored_parts(recording, table, damages)
    elif path.suffix in SQLITE:
        for found in sqlite_tables(path, table, damages):
            yield StoredPart(path, sound_table(path, found, damages))
    else:
        for part in _files_in_order(path, damages):
            if (found := _table_of(part, damages)) is not None:
                yield from _runs_of(StoredPart(part, sound_table(part, found, damages)))
        if parts_path(path).is_dir():
            yield from _parts_of_folder(parts_path(path), path, damages)


def _files_in_order(path: Path, damages: DamageList) -> Iterator[Path]:
    expected = 1
    for number, part in numbered_parts(path):
        if number > expected:
            missing = part_path(path, expected)
            damages.note(missing, "", f"it is missing, and {part.name} is there")
        expected = number + 1
        yield part
    following = next_file(path)
    if following is not None and not following.exists():
        damages.note_missing(following, f"it is missing, and {path.name} continues in it")


def _table_of(path: Path, damages: DamageList) -> Any:
    if path.suffix == ".csv":
        return csv_table(path, damages)
    if path.suffix == ".jsonl":
        return jsonl_table(path, damages)
    # A single file is reserved under its name while its parts grow.
    return table_of_file(path, damages) if path.stat().st_size else None


def _runs_of(part: StoredPart) -> Iterator[StoredPart]:
    """A part for each run, of a file in which the rows of several were joined."""
    known = part.table.schema.metadata or {}
    if RUNS_KEY not in known:
        yield part
        return
    begin = 0
    for run in json.loads(known[RUNS_KEY]):
        table = part.table.slice(begin, run["rows"])
        about = json.dumps(run["recording"], ensure_ascii=False).encode()
        yield StoredPart(part.path, table.replace_schema_metadata({**known, METADATA_KEY: about}))
        begin += run["rows"]


# -- folders of recordings --------------------------------------------------------------------


def _recordings_below(folder: Path, table: str, damages: DamageList) -> list[Path]:
    """The recordings of all runs of a folder, in the order of their first rows."""
    found = [path for run in run_folders(folder) for path in _chosen(run, table, damages)]
    if len(found) < 2:
        return found
    begins = {path: _begin_of(path, table) for path in found}
    return sorted(found, key=lambda path: (begins[path], path))


def _begin_of(path: Path, table: str) -> float:
    """The first nanosecond of a recording, since 1970 (UTC); infinite if it has no row yet."""
    pa, compute = pyarrow_module(), pyarrow_module("pyarrow.compute")
    try:
        for piece in stored_pieces(path, table, DamageList(strict=False), ("device", "t_utc")):
            if len(piece.table) and "t_utc" in piece.table.column_names:
                first = compute.min(piece.table["t_utc"]).cast(pa.timestamp("ns", "UTC"))
                return float(first.value)
    except _UNCOUNTABLE:
        pass  # what cannot be read is noted where it is read
    return math.inf


def _chosen(folder: Path, table: str, damages: DamageList) -> list[Path]:
    """The recordings of the format with the most rows; formats with fewer are noted.

    The formats of one run have the same names. Where there are such, a file that is there in one
    format only is something else, such as an export.
    """
    found = by_format(folder)
    if len(found) > 1:
        stems = [{path.stem for path in paths} for paths in found.values()]
        shared = {stem for each in stems for stem in each if sum(stem in s for s in stems) > 1}
        if shared:
            of_run = {
                kind: {path for path in paths if path.stem in shared}
                for kind, paths in found.items()
            }
            found = {kind: paths for kind, paths in of_run.items() if paths}
    formats = [kind for kind in FORMATS if kind in found]
    if len(formats) < 2:
        return sorted(found[formats[0]]) if formats else []
    rows = {
        kind: sum(_rows_in(path, table, damages.strict) for path in found[kind]) for kind in formats
    }
    best = max(formats, key=lambda kind: rows[kind])
    for kind in formats:
        if rows[kind] < rows[best] and not any(map(is_growing, found[kind] | found[best])):
            first, chosen = min(found[kind]), min(found[best])
            text = f"it has {rows[kind]} rows that can be read, and {chosen} has {rows[best]}"
            damages.note_shorter(first, text)
    return sorted(found[best])


def _rows_in(path: Path, table: str, strict: bool) -> int:
    """How many rows of a recording can be read, found out by as little reading as possible."""
    try:
        if path.suffix in SQLITE:
            return _rows_of_database(path, table)
        if path.suffix in (".csv", ".jsonl"):
            return sum(map(_rows_of_text, _files_of(path)))
        if path.is_file() and path.suffix == ".parquet" and not parts_path(path).is_dir():
            return sum(format_of(path).count_rows(each) for each in _files_of(path))
        damages = DamageList(strict=strict)
        return sum(len(part.table) for part in stored_parts(path, table, damages))
    except _UNCOUNTABLE:
        return 0


def _files_of(path: Path) -> Iterator[Path]:
    return (part for _, part in numbered_parts(path))


def _rows_of_text(path: Path) -> int:
    return rows_of_text(path, quoted=path.suffix == ".csv")


def _rows_of_database(path: Path, table: str) -> int:
    with closing(connected(path)) as database:
        listed = database.execute("SELECT name FROM penstock_parts").fetchall()
        names = [name for (name,) in listed if name == table or name.startswith(f"{table}_")]
        quoted = ['"' + name.replace('"', '""') + '"' for name in names]
        counts = [database.execute(f"SELECT count(*) FROM {name}").fetchone() for name in quoted]
        return sum(count for (count,) in counts)


def is_growing(path: Path) -> bool:
    """Whether a recorder of this machine writes the recording at ``path``, of whatever format."""
    folders = (path, parts_path(path))
    locks = [path, lock_path(path), *(folder / ".penstock" / "lock" for folder in folders)]
    return is_being_recorded(locks)


# -- a folder of parts ------------------------------------------------------------------------


def _parts_of_folder(
    path: Path,
    recording: Path,
    damages: DamageList,
    columns: Columns = None,
    *,
    in_pieces: bool = False,
) -> Iterator[StoredPart]:
    table_format = format_of(recording)
    folder = PartsFolder(path, table_format.suffix)
    try:
        joined = set() if path == recording else joined_parts(folder, recording, table_format)
    except _UNCOUNTABLE:  # rather twice than not at all
        joined = set()
    growing = is_being_recorded([folder.state / "lock"])
    journals = dict(folder.journals())
    parts: dict[int, list[Path]] = {}
    for number, part in folder.parts():
        if part not in joined:
            parts.setdefault(number, []).append(part)
    for number in sorted({*parts, *journals}):
        if number in journals and journals[number].exists():
            # It has all rows of its part, unless it is damaged.
            table = journal_table(journals[number], damages, growing=growing)
            sealed = sum(_rows_in(part, "", False) for part in parts.get(number, []))
            useful = table is not None and (table.num_rows or number not in parts)
            if useful and table.num_rows >= sealed:
                sound = sound_table(journals[number], table, damages)
                yield StoredPart(journals[number], sound)
                continue
        for part in parts.get(number, []):
            if in_pieces:
                for piece in _pieces_of_file(part, damages, columns):
                    piece.table = _with_partition(piece.table, part, path)
                    if "device" not in piece.names and "device" in piece.table.column_names:
                        piece.names = ("device", *piece.names)
                    yield piece
                continue
            found = table_of_file(part, damages)
            if found is not None:
                sound = sound_table(part, _with_partition(found, part, path), damages)
                yield StoredPart(part, sound)


def _with_partition(table: Any, part: Path, folder: Path) -> Any:
    """Add the column that only the folder's name holds."""
    pa = pyarrow_module()
    for name in part.relative_to(folder).parts[:-1]:
        key, _, value = name.partition("=")
        if key == "device" and "device" not in table.schema.names:
            column = pa.array([unquote(value)] * table.num_rows, pa.string())
            table = table.add_column(0, "device", column)
    return table


# Folders of recordings: the runs in them, and the formats of each run.
#
# A recorder that is started again, by hand or by a service manager, writes into the same folder, or
# into another one beside it. Both are runs of one history.

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


def run_folders(
    folder: Path, depth: int = _DEEPEST, left_out: list[Path] | None = None
) -> Iterator[Path]:
    """The folders at and below ``folder`` that have recordings, by name.

    Names that begin with a dot or an underscore are somebody's unfinished work. A name with ``=``
    is a column of an archive, which is not a run. A folder below that may not be read is left out,
    and added to ``left_out``.
    """
    if by_format(folder):
        yield folder
    if not depth:
        return
    for path in sorted(folder.iterdir()):
        hidden = path.name.startswith((".", "_")) or path.suffix == ".parts"
        if hidden or "=" in path.name or not path.is_dir() or is_parts_folder(path):
            continue
        try:
            yield from run_folders(path, depth - 1, left_out)
        except PermissionError:
            if left_out is not None:
                left_out.append(path)
