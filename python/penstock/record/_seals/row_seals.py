"""The seals of rows in SQLite, in the table ``penstock_seals`` of the same database.

Pages of a database are written over and over, so not bytes are sealed but rows: a seal is of the
digest before it, the rows (their bytes are described below), and what else the seal says.
It is written in the transaction of its rows. A range grows, and its seal with it, until it has some
hundred rows. The digest before the first seal of a table is of the last one of the table before, of
the table's name and of its description: so columns and units are sealed too.
"""

from __future__ import annotations

import math
import sqlite3
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from penstock._record import csv_rows, plain_rows
from penstock.record._columns.batch import SampleBatch
from penstock.record._columns.columns import FloatColumn, NumberColumn, TextColumn, new_column
from penstock.record._columns.row_text import quoted, row_columns
from penstock.record._seals.digests import (
    FAST,
    Digest,
    DigestThread,
    SigningKey,
    digest_name,
    digest_of,
    new_digest,
)
from penstock.record.schema import RecordSchema

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
        """What the digest is of after the rows."""
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
            raise ValueError("a number of a seal is not a number")
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


# The rows of a table as the bytes that are digested.
#
# For XXH3, the bytes that ``plain_rows`` of the extension makes, which take a fifth of the time of
# text. For BLAKE2b, CSV text as :class:`~penstock.record.CsvSink` writes it, with an empty text as
# ``""``: so earlier versions did. In both NaN is null and minus zero is zero, so that a row is the
# same before it went into SQLite and when it comes out.

# So many fit in the processor's cache.
_ROWS_AT_A_TIME = 512

_MINUS_ZERO = array("d", [-0.0]).tobytes()
_FIXED_TEXTS = ("device", "unit_id", "status", "error")


def add_rows(digest: Digest, name: str, batch: SampleBatch) -> int:
    """Add the rows of a batch to a digest of the name ``name``; how many bytes they were."""
    if name != FAST:
        text = _text(_as_stored(batch) if _has_other_forms(batch) else batch)
        digest.update(text)
        return len(text)
    columns = row_columns(batch, batch.schema.names, str)
    size = 0
    for start in range(0, len(batch), _ROWS_AT_A_TIME):
        rows = plain_rows(columns, start, min(start + _ROWS_AT_A_TIME, len(batch)))
        digest.update(rows)
        size += len(rows)
    return size


def batch_of_rows(rows: Sequence[Sequence[Any]], schema: RecordSchema) -> SampleBatch:
    """Rows of a database as a batch of the columns ``schema.names``.

    TypeError, ValueError or OverflowError if a value is not of its column's kind.
    """
    columns: dict[str, Any] = {}
    cells = zip(*rows, strict=True) if rows else iter([[]] * len(schema.names))
    for name, values in zip(schema.names, cells, strict=True):
        kind = schema.kind_of(name)
        if kind is None and name not in _FIXED_TEXTS:
            columns[name] = array("d" if name == "latency_s" else "q", values)
            continue
        column = TextColumn() if kind is None else new_column(kind)
        if isinstance(column, TextColumn):
            if not all(value is None or isinstance(value, str) for value in values):
                raise TypeError(f"{name} has a value that is not text")
            column.extend(values)
        else:
            column.data = array(column.typecode, [0 if v is None else v for v in values])
            column.valid = bytearray(v is not None for v in values)
        columns[name] = column
    return SampleBatch(schema, columns, len(rows))


def _text(batch: SampleBatch) -> bytes:
    return csv_rows(row_columns(batch, batch.schema.names, _exactly), 0, len(batch))


def _has_other_forms(batch: SampleBatch) -> bool:
    """Whether a float may be NaN or minus zero, which are rare. A wrong yes costs only time."""
    for name in batch.schema.names:
        column = batch.raw(name)
        data = column.data if isinstance(column, FloatColumn) else column
        if not isinstance(data, array) or data.typecode != "d":
            continue
        # The sum of both infinities is NaN too.
        if math.isnan(sum(data)) or _MINUS_ZERO in data.tobytes():
            return True
    return False


def _exactly(text: str) -> str:
    return quoted(text) if text else '""'


def _as_stored(batch: SampleBatch) -> SampleBatch:
    columns: dict[str, Any] = {}
    for name in batch.schema.names:
        column = batch.raw(name)
        if isinstance(column, FloatColumn):
            stored: NumberColumn = FloatColumn()
            stored.data = array("d", [value + 0.0 for value in column.data])
            stored.valid = bytearray(
                bool(valid) and not math.isnan(value)
                for value, valid in zip(column.data, column.valid, strict=True)
            )
            columns[name] = stored
        elif isinstance(column, array) and column.typecode == "d":
            columns[name] = array("d", [value + 0.0 for value in column])
        else:
            columns[name] = column
    return SampleBatch(batch.schema, columns, len(batch))
