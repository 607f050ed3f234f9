"""The seals of a whole recording: of each of its files, or of its parts and their list."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from penstock.record._files.files import numbered_parts
from penstock.record._files.line_ends import (
    HEAD_BEGINS,
    HEAD_KEY,
    described_beside,
    lines_of,
    rows_of_text,
)
from penstock.record._files.sqlite_log import lock_path
from penstock.record._parts.compaction import unsealed_fault
from penstock.record._parts.parts_folder import RUN_KEY, PartsFolder, parts_path
from penstock.record._seals.digests import PublicKey, digest_like, new_digest
from penstock.record._seals.part_list import ListedPart, PartList, file_digest, read_part_list
from penstock.record._seals.row_seals import (
    NO_DIGEST,
    RowSeal,
    add_rows,
    batch_of_rows,
    begin_of_table,
    read_row_seals,
)
from penstock.record._seals.seal import ENDS
from penstock.record._seals.seal_check import HOW, SealFindings, check_file, rows_from_to
from penstock.record._stored.sound_tables import described_schema
from penstock.record._stored.sqlite_tables import connected
from penstock.record._stored.table_files import format_of
from penstock.record.damage import UNREADABLE, reason_of
from penstock.record.errors import RecordError
from penstock.record.recorder_lock import is_being_recorded
from penstock.record.schema import RecordSchema

_UNREADABLE: tuple[type[Exception], ...] = (RecordError, *UNREADABLE)


def check_seals(path: str | os.PathLike[str], key: PublicKey | None = None) -> list[SealFindings]:
    """Compare the files of one recording with their seals. No file is changed.

    Blocks: call it in a worker thread.

    Args:
        path: a file of a recording, or a folder of parts.
        key: the key that must have signed the seals; None checks no signatures.

    Returns:
        The findings for each file.

    Raises:
        OSError: a file cannot be read.
    """
    path = Path(path)
    if (path / ".penstock").is_dir():
        return _check_folder(path, key)
    if path.suffix == "" and path.is_dir():
        return []
    if path.suffix in (".sqlite", ".sqlite3", ".db"):
        if not path.exists() or not path.stat().st_size:
            return []
        growing = is_being_recorded([lock_path(path)])
        return [check_database(path, growing=growing, key=key)]
    found = []
    for _, part in numbered_parts(path):
        growing = is_being_recorded([part])
        if part.stat().st_size or growing:
            found.append(check_file(part, growing=growing, key=key))
            if not found[-1].sealed and part.suffix in (".csv", ".jsonl"):
                check_stated_text(part, found[-1], growing=growing)
            elif not found[-1].sealed:
                _check_unsealed(part, PartsFolder(parts_path(path), path.suffix), found[-1])
    if parts_path(path).is_dir():
        found += _check_folder(parts_path(path), key, path)
    return found


def _check_folder(
    path: Path, key: PublicKey | None, file: Path | None = None
) -> list[SealFindings]:
    """The parts in a folder, which may be those of the single file ``file``."""
    folder = PartsFolder(path, "")
    if not folder.exists():
        return []  # killed when it had just been created
    growing = is_being_recorded([folder.state / "lock"])
    listed = read_part_list(folder.list, key)
    # Once it was made of them, the parts go one by one.
    joined = file is not None and _was_made_of(file, folder)
    findings = _check_parts(folder, listed, growing, key, joined=joined)
    journals = [check_file(journal, growing=growing, key=key) for _, journal in folder.journals()]
    has_parts = bool(listed.parts or listed.problems or folder.parts())
    return [*([findings] if has_parts else []), *journals]


def _check_parts(
    folder: PartsFolder,
    listed: PartList,
    growing: bool,
    key: PublicKey | None,
    *,
    joined: bool,
) -> SealFindings:
    findings = SealFindings(folder.path)
    findings.problems += listed.problems
    by_number = {part.number: part for part in listed.parts}
    findings.sealed = any(part.sealed for part in listed.parts)
    findings.signed = key is not None and findings.sealed and not listed.problems
    for part in by_number.values():
        _check_part(folder, part, findings, joined=joined)
    known = {folder.path / name for part in by_number.values() for name, _, _ in part.files()}
    journals = dict(folder.journals())
    for number, file in folder.parts():
        empty = not listed.parts and folder.list.exists()
        if file not in known and number not in journals and (findings.sealed or empty):
            findings.problems.append(f"{file} is not in the list of parts")
    sealed = [part for part in listed.parts if part.sealed]
    findings.rows = sum(part.entry["rows"] for part in by_number.values() if part.sealed)
    stamps = [part.entry for part in sealed if "first_unix_ns" in part.entry]
    if stamps:
        findings.first_ns = int(stamps[0]["first_unix_ns"])
        findings.last_ns = int(stamps[-1]["last_unix_ns"])
    for part in listed.parts:
        ended = part.entry.get("ended", "closed")
        if ended != "continued":
            findings.ended.append(HOW.get(ended, str(ended)))
    if growing:
        findings.ended.append("growing")
    elif journals or (sealed and sealed[-1].entry.get("ended") == "continued"):
        findings.ended.append("cut off")
    return findings


def _was_made_of(file: Path, folder: PartsFolder) -> bool:
    return any(_is_made_of(each, folder) for _, each in numbered_parts(file))


def _is_made_of(file: Path, folder: PartsFolder) -> bool:
    if not file.stat().st_size:
        return False
    try:
        metadata = format_of(file).read_schema(file).metadata or {}
        return bool(metadata.get(RUN_KEY) == folder.run_id().encode())
    except _UNREADABLE:
        return False


def _check_unsealed(file: Path, folder: PartsFolder, findings: SealFindings) -> None:
    """Tell of a file that was made of sealed parts, and has no seal itself."""
    if not any(part.sealed for part in read_part_list(folder.list).parts):
        return  # recorded without seals
    if is_being_recorded([folder.state / "lock"]) or not _is_made_of(file, folder):
        return
    if fault := unsealed_fault(folder, file):
        findings.problems.append(f"it has changed: {fault}")
    else:
        findings.remarks.append(
            "its recorder was killed before it had sealed it; penstock recover seals it"
        )


def _check_part(
    folder: PartsFolder, part: ListedPart, findings: SealFindings, *, joined: bool
) -> None:
    if part.entry.get("journal"):
        findings.problems += [f"part {part.number}: {each}" for each in part.entry["journal"]]
    for name, size, digest in part.files():
        file = folder.path / name
        if not file.exists():
            if joined:
                continue
            findings.problems.append(f"{file} is missing, with rows of part {part.number}")
        elif digest and file_digest(file, digest_like(digest)) != (size, digest):
            rows = part.entry["rows"]
            findings.problems.append(f"{file} has changed: part {part.number}, of {rows} rows")
        elif not part.sealed:
            findings.remarks.append(f"{file} is not sealed")
    if not part.sealed and not joined:
        check_stated_part(folder.path, part, findings)


# Whether the rows of a database are as they were sealed.

_ROWS_AT_A_TIME = 4096
_ERRORS: tuple[type[Exception], ...] = (sqlite3.Error, *UNREADABLE)


def check_database(
    path: Path, *, growing: bool = False, key: PublicKey | None = None
) -> SealFindings:
    """Compare the rows of a database with their seals, reading all of them.

    Args:
        path: the database.
        growing: True while a recorder writes it.
        key: the key that must have signed the seals.
    """
    findings = SealFindings(path)
    try:
        with closing(connected(path)) as database:
            database.execute("BEGIN")  # one state of a database that grows
            seals = read_row_seals(database)
            if seals is not None:
                findings.sealed = True
                _check(database, seals, findings, growing, key)
            elif not growing:
                check_stated_tables(database, findings)
    except _ERRORS as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        findings.problems.append(f"its seals cannot be compared: {reason_of(error)}")
    if not findings.sealed and key is not None:
        findings.problems.append("it has no seals, so nothing of it is signed")
    return findings


def _check(
    database: sqlite3.Connection,
    seals: list[RowSeal],
    findings: SealFindings,
    growing: bool,
    key: PublicKey | None,
) -> None:
    listed = database.execute("SELECT part, name, columns, recording FROM penstock_parts")
    parts = {part: (name, columns, recording) for part, name, columns, recording in listed}
    previous = RowSeal(-1, 0, "", 0, 0)
    for seal in seals:
        about = parts.get(seal.part)
        if about is None:
            findings.problems.append(f"the table of {_rows(seal)} is not in penstock_parts")
        else:
            _check_chain(seal, previous, about, findings)
            _check_range(database, seal, about, findings)
        if previous.kind in ENDS:
            findings.ended.append(HOW[previous.kind])
        elif seal.kind == "found" or (previous.kind == "open" and seal.part != previous.part):
            findings.ended.append("cut off" if previous.seal >= 0 else "not sealed")
        if key is not None and not (seal.signature and key.has_signed(seal.digest, seal.signature)):
            why = "is of another key" if seal.signature else "has no signature"
            findings.problems.append(f"the seal of {_rows(seal)} {why}")
        previous = seal
    findings.signed = key is not None and bool(seals) and not findings.problems
    last_of = {seal.part: seal.rows for seal in seals}
    for part, about in parts.items():
        _check_end(database, about, last_of.get(part, 0), previous, findings)
    findings.rows = sum(last_of.values())
    stamped = [seal for seal in seals if seal.first_ns]
    if stamped:
        findings.first_ns, findings.last_ns = stamped[0].first_ns, stamped[-1].last_ns
    findings.ended.append("growing" if growing else HOW.get(previous.kind, "cut off"))


def _check_chain(
    seal: RowSeal, previous: RowSeal, about: tuple[str, str, str], findings: SealFindings
) -> None:
    if seal.part == previous.part:
        expected, row = previous.digest, previous.rows
    else:
        expected, row = (
            begin_of_table(digest_like(seal.previous), previous.digest or NO_DIGEST, *about),
            0,
        )
    if seal.kind == "found" and seal.first_row < row:
        lost = rows_from_to(seal.first_row, row)
        findings.problems.append(f"{lost} are missing: they were gone before it was resumed")
    elif seal.first_row != row or seal.seal != previous.seal + 1:
        findings.problems.append(f"a seal before {_rows(seal)} is missing")
    elif seal.previous != expected:
        what = "the seal of " if seal.part == previous.part else "the description of the table of "
        findings.problems.append(f"{what}{_rows(seal)} has changed")


def _check_range(
    database: sqlite3.Connection, seal: RowSeal, about: tuple[str, str, str], findings: SealFindings
) -> None:
    name, columns, recording = about
    digest = new_digest(kind := digest_like(seal.digest), seal.previous)
    try:
        schema = described_schema(json.loads(columns), json.loads(recording))
        for rows in _stored(database, name, schema, seal):
            add_rows(digest, kind, batch_of_rows(rows, schema))
    except _ERRORS as error:
        findings.problems.append(f"{_rows(seal)} cannot be read: {reason_of(error)}")
        return
    digest.update(seal.digested())
    if digest.digest() != seal.digest:
        findings.problems.append(f"{_rows(seal)} have changed, or some are missing")
    elif seal.kind == "found" and seal.rows > seal.first_row:
        findings.remarks.append(f"{_rows(seal)} were found when it was resumed")


def _stored(
    database: sqlite3.Connection, name: str, schema: RecordSchema, seal: RowSeal
) -> Iterator[list[Any]]:
    listed = ", ".join(map(_quoted, schema.names))
    found = database.execute(
        f"SELECT {listed} FROM {_quoted(name)} WHERE rowid BETWEEN ? AND ? ORDER BY rowid",
        (seal.first_row + 1, seal.rows),
    )
    while rows := found.fetchmany(_ROWS_AT_A_TIME):
        yield rows


def _check_end(
    database: sqlite3.Connection,
    about: tuple[str, str, str],
    sealed: int,
    last: RowSeal,
    findings: SealFindings,
) -> None:
    name = about[0]
    query = f"SELECT count(*) FROM {_quoted(name)} WHERE rowid > ? OR rowid < 1"
    ((more,),) = database.execute(query, (sealed,))
    if more:
        what = f"{more} rows of table {name} are after the last seal"
        told = findings.problems if last.kind in ENDS else findings.remarks
        told.append(what)


def _rows(seal: RowSeal) -> str:
    return rows_from_to(seal.first_row, seal.rows)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


# How many rows a file without seals should have, by what was written when its run was closed.
#
# That is the description beside a CSV file, the last line of JSON Lines, the list of parts, and the
# table ``penstock_parts`` of a database. It proves nothing of the values; but rows that were cut
# off after the end are found.


def check_stated_text(path: Path, findings: SealFindings, *, growing: bool) -> None:
    """Compare the rows of a CSV or JSON Lines file with those that are stated. OSError."""
    if growing:
        findings.ended.append("growing")
        return
    quoted = path.suffix == ".csv"
    stated: list[tuple[int, int | None]] = [*_stated_beside(path)]
    if not stated and not quoted:
        stated += _stated_in(path)
    if not stated:
        return
    there = rows_of_text(path, quoted=quoted)
    for rows, found in stated:
        _compare(rows, there if found is None else found, findings)
    findings.rows = stated[-1][0]
    if there > findings.rows and not findings.problems:
        findings.ended.append("cut off")
        more = rows_from_to(findings.rows, there)
        findings.remarks.append(f"{more} were written after the last stated end, or added since")
    else:
        findings.ended.append("closed")


def _stated_beside(path: Path) -> Iterator[tuple[int, None]]:
    rows = (described_beside(path) or {}).get("rows")
    if isinstance(rows, int):
        yield rows, None


def _stated_in(path: Path) -> Iterator[tuple[int, int]]:
    """The rows that each closing line of JSON Lines states, and those that are above it."""
    above = 0
    with open(path, "rb") as file:
        for line in lines_of(file):
            if not line.startswith(HEAD_BEGINS):
                above += bool(line.strip())
                continue
            try:
                rows = json.loads(line)[HEAD_KEY].get("rows")
            except UNREADABLE:
                continue  # a damaged line, which reading tells
            if isinstance(rows, int):
                yield rows, above


def check_stated_part(folder: Path, part: ListedPart, findings: SealFindings) -> None:
    """Compare the rows of a part's files with those of its line in the list. OSError."""
    files = [folder / name for name, _, _ in part.files()]
    if not all(file.exists() for file in files):
        return  # that is reported already
    try:
        there = sum(format_of(file).count_rows(file) for file in files)
    except UNREADABLE as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        findings.problems.append(f"part {part.number} cannot be read: {reason_of(error)}")
        return
    if there != part.entry["rows"]:
        stated = part.entry["rows"]
        findings.problems.append(f"part {part.number} has {there} rows instead of {stated}")


def check_stated_tables(database: sqlite3.Connection, findings: SealFindings) -> None:
    """Compare the rows of each table with those that the end of its run states. sqlite3.Error."""
    listed = "SELECT 1 FROM sqlite_master WHERE name = 'penstock_parts'"
    if database.execute(listed).fetchone() is None:
        return
    for name, facts in database.execute("SELECT name, facts FROM penstock_parts ORDER BY part"):
        try:
            rows = json.loads(facts).get("rows")
        except UNREADABLE:
            continue  # which reading tells
        if isinstance(rows, int):
            quoted = '"' + str(name).replace('"', '""') + '"'
            ((there,),) = database.execute(f"SELECT count(*) FROM {quoted}")
            _compare(rows, there, findings, f" of table {name}")


def _compare(stated: int, there: int, findings: SealFindings, where: str = "") -> None:
    if there < stated:
        findings.problems.append(
            f"{rows_from_to(there, stated)}{where} are missing: {stated} rows were stated at its "
            f"end, and {there} are there"
        )
