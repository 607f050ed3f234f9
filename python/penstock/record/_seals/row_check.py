"""Whether the rows of a database are as they were sealed."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from penstock.record._seals.digests import digest_like, new_digest
from penstock.record._seals.row_content import add_rows, batch_of_rows
from penstock.record._seals.row_seals import (
    NO_DIGEST,
    RowSeal,
    begin_of_table,
    read_row_seals,
)
from penstock.record._seals.seal import ENDS
from penstock.record._seals.seal_check import HOW, SealFindings, rows_from_to
from penstock.record._seals.signing import PublicKey
from penstock.record._seals.stated_rows import check_stated_tables
from penstock.record._stored.sound_tables import described_schema
from penstock.record._stored.sqlite_tables import connected
from penstock.record.damage import UNREADABLE, reason_of
from penstock.record.schema import RecordSchema

__all__ = ["check_database"]

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
        what = f"{more} rows of table {name} are behind the last seal"
        told = findings.problems if last.kind in ENDS else findings.remarks
        told.append(what)


def _rows(seal: RowSeal) -> str:
    return rows_from_to(seal.first_row, seal.rows)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
