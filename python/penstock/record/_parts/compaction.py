"""Parts to single files: one for each schema of the recording."""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
from collections.abc import Iterator, Mapping, Set
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO

from penstock._durable_files import (
    find_leftovers,
    find_target,
    put_file,
    put_in_place,
    sync_folder,
    temporary_path,
)
from penstock.record._files.files import explained, part_path, remove_parts
from penstock.record._parts.parts_folder import PART_KEY, RUN_KEY, RUNS_KEY, PartsFolder
from penstock.record._parts.table_formats import TableFormat
from penstock.record._seals.digests import SigningKey, digest_like
from penstock.record._seals.part_list import file_digest, read_part_list
from penstock.record._seals.seal import read_seals, seals_path
from penstock.record._seals.seal_check import check_file
from penstock.record._seals.seal_writer import WholeFileSeal
from penstock.record.arrow import METADATA_KEY, pyarrow_module
from penstock.record.damage import UNREADABLE, unreadable_is
from penstock.record.errors import RecoveryError, SinkExistsError

# Parts of this size, which bulk recordings have, are passed on as they are read.
_ROWS_AT_A_TIME = 262_144
# Pieces of this size cost more to copy together than to write one by one.
_ROWS_A_PIECE = 16_384
_PIECE = 1 << 20


def sealed_table(table: Any) -> Any:
    """The same rows in one piece, or few, as files of tables are written best."""
    table = table.unify_dictionaries()
    pieces = table.column(0).num_chunks
    return table.combine_chunks() if pieces * _ROWS_A_PIECE > table.num_rows else table


def compact(
    folder: PartsFolder,
    path: Path,
    table_format: TableFormat,
    *,
    facts: Mapping[str, str],
    overwrite: bool,
    append: bool,
    sealed: bool = True,
    key: SigningKey | None = None,
    ended: str = "closed",
    force: bool = False,
) -> list[Path]:
    """Join the parts of ``folder`` into ``path``, and remove the folder.

    Consecutive parts of one schema become one file: ``run.parquet``, ``run.part2.parquet``. Each
    file gets its name in one step and carries the folder's id: a call that was cut off is repeated
    without harm. With ``append`` the files that are there stay in front; where there is one, and
    it has the fields of the first parts, they are joined to it, unless it is damaged: it stays as
    it is then, and they follow it.

    Raises:
        SinkExistsError: if a file has appeared meanwhile, without ``overwrite``.
        SinkWriteError: if the disk refuses. The parts are still there.
        RecoveryError: if a part cannot be read, or a file that an earlier call has made of them
            has changed since. All of them are still there.
    """
    run = folder.run_id().encode()
    whole = f"what is whole is in the parts in {folder.path}, or in it"
    with explained("finish", path), unreadable_is(RecoveryError, path, whole):
        if not force and (fault := _fault_of_parts(folder, path, table_format)):
            raise RecoveryError(
                f"{path} was not made of its parts: {fault}, and its seals would not say so. "
                f"Nothing was removed: {whole}. Restore the parts, or add --force to "
                "recover, or force=True in a program"
            )
        _clear_leftovers(path, table_format, run)
        parts = folder.parts()
        groups = _group([part for _, part in parts], table_format)
        cut_off = _cut_off(folder, parts, table_format)
        before = _files_before(path, table_format, run) if append else []
        joined = (
            len(before) == 1
            and bool(groups)
            and _same_fields(before[0], groups[0][0], table_format)
            and _is_sound(before[0], table_format)
        )
        if joined:
            groups[0].insert(0, before.pop())
            if _is_cut_off(groups[0][0]):
                cut_off.add(groups[0][0])
        targets = [part_path(path, len(before) + 1 + number) for number in range(len(groups))]
        for number, (group, target) in enumerate(zip(groups, targets, strict=True)):
            if _is_done(target, table_format, run):
                if sealed:
                    _seal_if_missing(folder, target, table_format, key)
                continue
            more = dict(facts)
            if number + 1 < len(groups):
                more["penstock.continued_in"] = json.dumps(targets[number + 1].name)
            replaces = overwrite or (joined and not number)
            seal = WholeFileSeal(key) if sealed else None
            _join(group, target, table_format, run, more, replaces, seal, cut_off)
            if seal is not None:
                earlier = "cut off" if group[-1] in cut_off else "closed"
                seal.finish(target, ended if number + 1 == len(groups) else earlier)
        # The last group may have been one part, which had its new name already before a kill.
        last = part_path(path, len(before) + len(groups) + 1)
        if sealed and _is_done(last, table_format, run):
            _seal_if_missing(folder, last, table_format, key)
        sync_folder(os.fspath(path))
        if overwrite:
            remove_parts(path, len(targets) + 1, lambda part: [seals_path(part)])
        folder.remove()
    return [*before, *targets]


def _fault_of_parts(folder: PartsFolder, path: Path, table_format: TableFormat) -> str:
    """What the list of the parts tells against them; empty if nothing.

    They and their list go once they are joined, and what was known of them goes with those.
    """
    listed = read_part_list(folder.list)
    if listed.problems:
        return listed.problems[0]
    by_number = {part.number: part for part in listed.parts}
    missing = ""
    for part in by_number.values():
        for name, size, digest in part.files():
            file = folder.path / name
            if not file.exists():
                missing = missing or f"{file} is missing, with rows of part {part.number}"
            elif digest and file_digest(file, digest_like(digest)) != (size, digest):
                return f"{file} has changed, with rows of part {part.number}"
    # A compaction that was cut off has removed parts already.
    return missing if missing and not _done_files(folder, path, table_format) else ""


def finish_compaction(
    folder: PartsFolder, path: Path, table_format: TableFormat, key: SigningKey | None = None
) -> bool:
    """Complete a compaction that was cut off, so that the folder has gone; False if none was.

    A file that was made of a folder counts as all of it. So a folder of which there is one must not
    get any more parts: they would be removed with it, unread.
    """
    if not _done_files(folder, path, table_format):
        return False
    compact(
        folder, path, table_format, facts={}, overwrite=False, append=True, key=key, ended="cut off"
    )
    return True


def joined_parts(folder: PartsFolder, path: Path, table_format: TableFormat) -> set[Path]:
    """The parts whose rows are in the files already, of a compaction that was cut off."""
    if not folder.has_begun() or not (done := _done_files(folder, path, table_format)):
        return set()
    groups = _group([part for _, part in folder.parts()], table_format)
    return {part for group in groups[:done] for part in group}


def _done_files(folder: PartsFolder, path: Path, table_format: TableFormat) -> int:
    run = folder.run_id().encode()
    done = 0
    number = 1
    while (candidate := part_path(path, number)).exists():
        done += _is_done(candidate, table_format, run)
        number += 1
    return done


def _is_sound(path: Path, table_format: TableFormat) -> bool:
    """Whether the rows of a file may go into another one, whose seal then vouches for them."""
    return not check_file(path).problems and _is_readable(path, table_format)


def _is_readable(path: Path, table_format: TableFormat) -> bool:
    try:
        _runs([path], table_format)
        for _ in table_format.pieces(path):
            pass
    except UNREADABLE as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        return False
    return True


def _same_fields(one: Path, other: Path, table_format: TableFormat) -> bool:
    try:
        first = table_format.read_schema(one)
    except UNREADABLE as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        return False
    second = table_format.read_schema(other)
    return bool(first.equals(second, check_metadata=False)) and all(
        first.field(name).metadata == second.field(name).metadata for name in first.names
    )


def _files_before(path: Path, table_format: TableFormat, run: bytes) -> list[Path]:
    """The files of earlier runs under this name, in order."""
    found: list[Path] = []
    while True:
        candidate = part_path(path, len(found) + 1)
        if not candidate.exists() or _is_done(candidate, table_format, run):
            return found
        found.append(candidate)


def _is_done(path: Path, table_format: TableFormat, run: bytes) -> bool:
    """True when ``path`` was made of this folder's parts already."""
    if not path.exists():
        return False
    pa = pyarrow_module()
    try:
        metadata = table_format.read_schema(path).metadata or {}
    except (pa.ArrowException, OSError):
        return False
    return metadata.get(RUN_KEY) == run


def _group(parts: list[Path], table_format: TableFormat) -> list[list[Path]]:
    groups: list[list[Path]] = []
    last = None
    for part in parts:
        schema = table_format.read_schema(part)
        # Dictionaries and plain text are one column to a reader.
        key = (
            [(field.name, str(field.type), field.metadata) for field in schema],
            (schema.metadata or {}).get(METADATA_KEY),
        )
        if last is None or key != last:
            groups.append([])
            last = key
        groups[-1].append(part)
    return groups


def _join(
    parts: list[Path],
    target: Path,
    table_format: TableFormat,
    run: bytes,
    facts: Mapping[str, str],
    overwrite: bool,
    seal: WholeFileSeal | None,
    cut_off: Set[Path],
) -> None:
    schema = table_format.read_schema(parts[0])
    metadata = {k: v for k, v in (schema.metadata or {}).items() if k != PART_KEY}
    later = (table_format.read_schema(parts[-1]).metadata or {}).get(METADATA_KEY)
    if RUNS_KEY in metadata or later != metadata.get(METADATA_KEY):
        runs = _runs(parts, table_format, cut_off)
        metadata[RUNS_KEY] = json.dumps(runs, ensure_ascii=False).encode()
    schema = schema.with_metadata({**metadata, RUN_KEY: run, **facts})
    old_seals = _OldSeals(target)

    def fill(descriptor: int) -> None:
        _fill(descriptor, parts, schema, table_format, seal)
        os.fsync(descriptor)  # a full disk may show here alone
        old_seals.put_aside()

    try:
        if target.exists() and not overwrite:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), os.fspath(target))
        if len(parts) == 1 and schema.metadata == _without_part(table_format, parts[0]):
            # It is complete already: only its name changes.
            if seal is not None:
                _digest(parts[0], table_format, seal)
            old_seals.put_aside()
            put_in_place(os.fspath(parts[0]), find_target(os.fspath(target)), overwrite=overwrite)
        else:
            os.close(put_file(target, fill, overwrite=overwrite))
    except BaseException as error:
        old_seals.put_back()
        if isinstance(error, FileExistsError):
            raise SinkExistsError(
                f"{target} already exists: move it away, then run penstock recover {target}"
            ) from error
        raise
    old_seals.remove()


def _runs(
    parts: list[Path], table_format: TableFormat, cut_off: Set[Path] = frozenset()
) -> list[dict[str, Any]]:
    """The runs whose rows are in ``parts``, in order, each with its rows and its metadata.

    One whose last part is among ``cut_off`` is marked so.
    """
    runs: list[dict[str, Any]] = []
    for part in parts:
        metadata = table_format.read_schema(part).metadata or {}
        if RUNS_KEY in metadata:
            found = json.loads(metadata[RUNS_KEY])
        else:
            recording = json.loads(metadata.get(METADATA_KEY, b"{}"))
            found = [{"rows": table_format.count_rows(part), "recording": recording}]
        if part in cut_off and found:
            found[-1]["ended"] = "cut off"
        for run in found:
            if runs and runs[-1]["recording"] == run["recording"]:
                runs[-1] = {**run, "rows": runs[-1]["rows"] + run["rows"]}
            else:
                runs.append(run)
    return runs


def _cut_off(
    folder: PartsFolder, parts: list[tuple[int, Path]], table_format: TableFormat
) -> set[Path]:
    """The parts after which a kill has cut off their run.

    A part that another was to follow is one if the next part is of another run.
    """
    ended = {part.number: part.entry.get("ended") for part in read_part_list(folder.list).parts}
    found = {path for number, path in parts if ended.get(number) == "cut off"}
    for (number, path), (_, following) in pairwise(parts):
        if ended.get(number) == "continued":
            one, other = (_run_id(each, table_format) for each in (path, following))
            if one != other:
                found.add(path)
    return found


def _run_id(part: Path, table_format: TableFormat) -> Any:
    metadata = table_format.read_schema(part).metadata or {}
    return json.loads(metadata.get(METADATA_KEY, b"{}")).get("run_id")


def _is_cut_off(path: Path) -> bool:
    """Whether the seal of a file says that the last run in it was cut off."""
    found = read_seals(seals_path(path))
    return found is not None and found.last.kind == "cut off"


def _without_part(table_format: TableFormat, part: Path) -> dict[bytes, bytes]:
    metadata = table_format.read_schema(part).metadata or {}
    return {key: value for key, value in metadata.items() if key != PART_KEY}


def _fill(
    descriptor: int,
    parts: list[Path],
    schema: Any,
    table_format: TableFormat,
    seal: WholeFileSeal | None,
) -> None:
    with os.fdopen(os.dup(descriptor), "wb") as file:
        sink: Any = file if seal is None else _Sealed(file, seal)
        table_format.write(_tables(parts, schema, table_format, seal), schema, sink)


class _Sealed(io.RawIOBase):
    """A file whose bytes are sealed as they are written."""

    def __init__(self, file: BinaryIO, seal: WholeFileSeal) -> None:
        self._file = file
        self._seal = seal

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        copy = bytes(data)  # pyarrow uses its memory again
        self._seal.write(copy)
        return self._file.write(copy)


def _digest(path: Path, table_format: TableFormat, seal: WholeFileSeal) -> None:
    for table in table_format.pieces(path, ["t_utc"]):
        seal.add_rows(table.column("t_utc"))
    with open(path, "rb") as file:
        while piece := file.read(_PIECE):
            seal.write(piece)


def _seal_if_missing(
    folder: PartsFolder, path: Path, table_format: TableFormat, key: SigningKey | None
) -> None:
    """Seal a file whose process was killed between it and its seals.

    Its parts are removed afterwards, so a file that has changed meanwhile must not get new seals.
    """
    found = check_file(path)
    if found.sealed and not (found.problems or found.remarks):
        return
    reason = next(iter(found.problems), "")
    if not found.sealed:
        reason = reason or unsealed_fault(folder, path)
    if not reason and not _is_readable(path, table_format):
        reason = "its rows cannot be read"
    if reason:
        raise RecoveryError(
            f"{path} was made of the parts in {folder.path}, and has been damaged since: {reason}; "
            "move it away, and recover the recording from its parts"
        )
    seal = WholeFileSeal(key)
    _digest(path, table_format, seal)
    seal.finish(path, "cut off")


def unsealed_fault(folder: PartsFolder, path: Path) -> str:
    """What is wrong with a file without seals that was made of ``folder``; empty if nothing is.

    The file of a single part is the part itself under another name, so the digest in the list of
    parts is its own. Of another file nothing is known. OSError.
    """
    gone = [
        part
        for part in read_part_list(folder.list).parts
        if any(digest and not (folder.path / name).exists() for name, _, digest in part.files())
    ]
    listed = [(size, digest) for part in gone for _, size, digest in part.files()]
    size = path.stat().st_size
    known = [digest for of_size, digest in listed if of_size == size]
    if not listed or any(file_digest(path, digest_like(each))[1] == each for each in known):
        return ""
    numbers = ", ".join(str(part.number) for part in gone)
    return f"it is not as it was sealed as part {numbers}"


class _OldSeals:
    """The seals of a file that is replaced: they must not speak of the next one.

    They go when the next one is whole, and come back where it does not get its place after all.
    """

    def __init__(self, target: Path) -> None:
        self._path = seals_path(target)
        self._aside: str | None = None

    def put_aside(self) -> None:
        aside = temporary_path(os.fspath(self._path))
        with contextlib.suppress(FileNotFoundError):
            os.rename(self._path, aside)
            self._aside = aside

    def put_back(self) -> None:
        if self._aside is not None:
            with contextlib.suppress(OSError):
                os.rename(self._aside, self._path)

    def remove(self) -> None:
        if self._aside is not None:
            os.unlink(self._aside)


def _clear_leftovers(path: Path, table_format: TableFormat, run: bytes) -> None:
    """Remove what a kill has left beside files that were being made, which may fill the disk.

    Seals that were put aside come back to a file that was not replaced after all.
    """
    number = 1
    while True:
        target = part_path(path, number)
        for leftover in find_leftovers(os.fspath(target)):
            os.unlink(leftover)
        seals = seals_path(target)
        for leftover in find_leftovers(os.fspath(seals)):
            if seals.exists() or not target.exists() or _is_done(target, table_format, run):
                os.unlink(leftover)
            else:
                os.rename(leftover, seals)
        if not target.exists():
            return
        number += 1


def _tables(
    parts: list[Path], schema: Any, table_format: TableFormat, seal: WholeFileSeal | None
) -> Iterator[Any]:
    """The parts' rows in pieces of a good size, never all at once."""
    pa = pyarrow_module()
    waiting: list[Any] = []
    for part in parts:
        for table in table_format.pieces(part):
            waiting.append(table.cast(schema))
            if seal is not None:
                seal.add_rows(waiting[-1].column("t_utc"))
            if sum(table.num_rows for table in waiting) >= _ROWS_AT_A_TIME:
                yield sealed_table(pa.concat_tables(waiting))
                waiting = []
    if waiting:
        yield sealed_table(pa.concat_tables(waiting))
