"""How many rows a file without seals should have, by what was written when its run was closed.

That is the description beside a CSV file, the last line of JSON Lines, the list of parts, and the
table ``penstock_parts`` of a database. It proves nothing of the values; but rows that were cut off
behind the end are found.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from penstock.record._files.line_ends import (
    HEAD_BEGINS,
    HEAD_KEY,
    described_beside,
    lines_of,
    rows_of_text,
)
from penstock.record._seals.part_list import ListedPart
from penstock.record._seals.seal_check import SealFindings, rows_from_to
from penstock.record._stored.table_files import format_of
from penstock.record.damage import UNREADABLE, reason_of

__all__ = ["check_stated_part", "check_stated_tables", "check_stated_text"]


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
        findings.remarks.append(f"{more} were written behind the last stated end, or added since")
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
        return  # which is told already
    try:
        there = sum(format_of(file).count_rows(file) for file in files)
    except UNREADABLE as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        findings.problems.append(f"part {part.number} cannot be read: {reason_of(error)}")
        return
    if there != part.entry["rows"]:
        stated = part.entry["rows"]
        findings.problems.append(f"part {part.number} has {there} rows in place of {stated}")


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
