"""The seals of rows in SQLite, in the table ``penstock_seals`` of the same database.

Pages of a database are written over and over, so not bytes are sealed but rows: a seal is of the
digest before it, the rows (:mod:`penstock.record._seals.row_content`), and what else the seal says.
It is written in the transaction of its rows. A range grows, and its seal with it, until it has some
hundred rows. The digest before the first seal of a table is of the last one of the table before, of
the table's name and of its description: so columns and units are sealed too.
"""

from __future__ import annotations

import sqlite3
from array import array
from dataclasses import dataclass, replace
from typing import Any

from penstock.record._columns.batch import SampleBatch
from penstock.record._seals.digests import digest_name, digest_of, new_digest
from penstock.record._seals.row_content import add_rows
from penstock.record._seals.running_digest import DigestThread
from penstock.record._seals.signing import SigningKey

__all__ = ["NO_DIGEST", "RowSeal", "RowSeals", "begin_of_table", "read_row_seals"]

NO_DIGEST = bytes(32)
_RANGE_BYTES = 65_536
_ROW_BYTES = 128  # about
_TABLE = """
CREATE TABLE IF NOT EXISTS penstock_seals (
    seal INTEGER PRIMARY KEY,
    part INTEGER NOT NULL,
    kind TEXT NOT NULL,
    first_row INTEGER NOT NULL,
    rows INTEGER NOT NULL,
    first_ns INTEGER NOT NULL,
    last_ns INTEGER NOT NULL,
    previous TEXT NOT NULL,
    digest TEXT NOT NULL,
    signature TEXT NOT NULL DEFAULT '',
    public_key TEXT NOT NULL DEFAULT ''
)
"""


@dataclass(frozen=True, slots=True)
class RowSeal:
    """A row of the table. ``first_row`` and ``rows`` count rows by SQLite's own number."""

    seal: int
    part: int
    kind: str
    first_row: int
    rows: int
    first_ns: int = 0
    last_ns: int = 0
    previous: bytes = NO_DIGEST
    digest: bytes = NO_DIGEST
    signature: bytes = b""
    public_key: str = ""

    def digested(self) -> bytes:
        """What the digest is of behind the rows."""
        return (
            f"{self.seal},{self.part},{self.kind},{self.first_row},{self.rows},"
            f"{self.first_ns},{self.last_ns}"
        ).encode()


def begin_of_table(digest: str, previous: bytes, name: str, columns: str, recording: str) -> bytes:
    """The digest that the first seal of a table follows."""
    return digest_of(digest, previous, "\0".join((name, columns, recording)).encode())


def read_row_seals(database: sqlite3.Connection) -> list[RowSeal] | None:
    """The seals of a database; None without their table.

    sqlite3.Error, ValueError or TypeError if they cannot be read.
    """
    listed = "SELECT 1 FROM sqlite_master WHERE name = 'penstock_seals'"
    if database.execute(listed).fetchone() is None:
        return None
    rows = database.execute(
        "SELECT seal, part, kind, first_row, rows, first_ns, last_ns, previous, digest, "
        "signature, public_key FROM penstock_seals ORDER BY seal"
    )
    found = []
    for *numbers, previous, digest, signature, public_key in rows:
        texts = [bytes.fromhex(each) for each in (previous, digest, signature)]
        if not all(isinstance(each, int) for each in (*numbers[:2], *numbers[3:])):
            raise ValueError("a number of a seal is none")
        seal, part, kind, first_row, rows_before, first_ns, last_ns = numbers
        counted = RowSeal(seal, part, str(kind), first_row, rows_before, first_ns, last_ns)
        found.append(
            replace(
                counted,
                previous=texts[0],
                digest=texts[1],
                signature=texts[2],
                public_key=str(public_key),
            )
        )
    return found


class RowSeals:
    """Writes the seals of one recording. Called by one thread at a time; sqlite3.Error."""

    def __init__(self, database: sqlite3.Connection, key: SigningKey | None) -> None:
        database.execute(_TABLE)
        self._database = database
        self._key = key
        self.digest = digest_name(signed=key is not None)
        self._thread = DigestThread(self.digest)
        self._current = RowSeal(-1, 0, "", 0, 0)
        self._digest = new_digest(self.digest)
        self._bytes = 0
        found = read_row_seals(database) or [self._current]
        self._last = found[-1]
        self._begin(self._last.part, self._last.rows, self._last.digest)
        self._kept: Any = None
        self.keep()

    @property
    def last(self) -> RowSeal:
        """The last seal; one of part 0 if there is none."""
        return self._last

    def begin_table(self, part: int, begin: bytes, rows: int) -> None:
        """Seal the rows of another table from now on, which has ``rows`` rows already."""
        self._thread.wait()
        self._begin(part, rows, begin)

    def add(self, batch: SampleBatch) -> None:
        """Add rows that are being inserted."""
        stamps = batch.raw("t_utc")
        assert isinstance(stamps, array)

        def work() -> None:
            self._bytes += add_rows(self._digest, self.digest, batch)
            seal = self._current
            self._current = replace(
                seal,
                rows=seal.rows + len(batch),
                first_ns=seal.first_ns or int(stamps[0]),
                last_ns=int(stamps[-1]),
            )

        self._thread.run(work, len(batch) * _ROW_BYTES)

    def write(self, kind: str = "") -> None:
        """Write the seal of the rows so far, into the transaction that they are in.

        With ``kind`` it is the last one of a run.
        """
        self._thread.wait()
        seal = self._current
        if seal.rows > seal.first_row or kind:
            seal = replace(seal, kind=kind or ("full" if self._bytes >= _RANGE_BYTES else "open"))
            digest = self._digest.copy()
            digest.update(seal.digested())
            result = digest.digest()
            signature, public = b"", ""
            if self._key is not None:
                signature, public = self._key.sign(result), self._key.public.hex()
            self._database.execute(
                "INSERT OR REPLACE INTO penstock_seals VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    seal.seal,
                    seal.part,
                    seal.kind,
                    seal.first_row,
                    seal.rows,
                    seal.first_ns,
                    seal.last_ns,
                    seal.previous.hex(),
                    result.hex(),
                    signature.hex(),
                    public,
                ),
            )
            self._last = replace(seal, digest=result)
            if seal.kind != "open":
                self._begin(seal.part, seal.rows, result)

    def keep(self) -> None:
        """Remember this state, which is that of the last commit."""
        self._kept = (self._last, self._current, self._digest.copy(), self._bytes)

    def take_back(self) -> None:
        """Go back to the last commit: the transaction has been undone."""
        self._thread.wait()
        self._last, self._current, digest, self._bytes = self._kept
        self._digest = digest.copy()

    def close(self) -> None:
        """End the thread."""
        self._thread.close()

    def _begin(self, part: int, rows: int, previous: bytes) -> None:
        self._current = RowSeal(self._last.seal + 1, part, "", rows, rows, previous=previous)
        self._digest = new_digest(self.digest, previous)
        self._bytes = 0
