"""Growing columns: a recorder fills them, a :class:`~penstock.record.SampleBatch` freezes them.

Numbers are stored in ``array`` objects, which Arrow can use without a copy, with a validity byte
for each value. Text is stored as codes into a small table of distinct strings.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar, Self

from penstock.record._sample import Sample, to_utc_ns
from penstock.record._source import DeviceResultLike, FieldKind, FieldValue, ReadingLike
from penstock.record.schema import (
    RECORDER_FIELDS,
    Field,
    RecordSchema,
    column_name,
    text_column_name,
)

_NULL_CODE = -1
_INT64 = range(-(2**63), 2**63)


class NumberColumn:
    """Numbers of one kind, and which of them are valid."""

    __slots__ = ("data", "valid")

    typecode: ClassVar[str]

    def __init__(self, rows: int = 0) -> None:
        self.data: array[Any] = array(self.typecode, [0]) * rows
        self.valid: bytearray = bytearray(rows)

    def stored(self, value: object) -> Any:
        """``value`` in the stored form; ``None`` if it is of another kind."""
        raise NotImplementedError

    def append(self, value: Any) -> None:
        """Add a value that :meth:`stored` has returned."""
        self.data.append(value)
        self.valid.append(1)

    def append_null(self) -> None:
        self.data.append(0)
        self.valid.append(0)

    def pad(self, rows: int) -> None:
        """Add nulls until there are ``rows`` values."""
        missing = rows - len(self.valid)
        if missing > 0:
            self.data.frombytes(bytes(missing * self.data.itemsize))
            self.valid.extend(bytes(missing))

    def to_list(self) -> list[Any]:
        return [v if ok else None for v, ok in zip(self.data, self.valid, strict=True)]

    def cut(self, start: int, stop: int) -> Self:
        part = type(self)()
        part.data = self.data[start:stop]
        part.valid = self.valid[start:stop]
        return part

    def __len__(self) -> int:
        return len(self.valid)


class FloatColumn(NumberColumn):
    """64-bit floats."""

    __slots__ = ()
    typecode = "d"

    def stored(self, value: object) -> float | None:
        if isinstance(value, str):
            return None
        try:
            return float(value)  # type: ignore[arg-type]
        except (TypeError, ValueError, OverflowError):
            return None


class IntColumn(NumberColumn):
    """64-bit whole numbers with sign."""

    __slots__ = ()
    typecode = "q"

    def stored(self, value: object) -> int | None:
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        return int(value) if isinstance(value, int) and value in _INT64 else None


class BoolColumn(NumberColumn):
    """Truth values, kept as 0 and 1."""

    __slots__ = ()
    typecode = "b"

    def stored(self, value: object) -> int | None:
        return int(value) if isinstance(value, bool) else None

    def to_list(self) -> list[Any]:
        return [bool(v) if ok else None for v, ok in zip(self.data, self.valid, strict=True)]


class TimestampColumn(NumberColumn):
    """Moments from 1677 to 2262, in nanoseconds since 1970 UTC."""

    __slots__ = ()
    typecode = "q"

    def stored(self, value: object) -> int | None:
        if not isinstance(value, datetime):
            return None
        stamp = to_utc_ns(value)
        return stamp if stamp in _INT64 else None


class TextColumn:
    """Strings as codes into a table of distinct ones; -1 is null."""

    __slots__ = ("codes", "has_null", "known", "table")

    def __init__(self, rows: int = 0) -> None:
        self.codes: array[int] = array("i", [_NULL_CODE]) * rows
        self.has_null: bool = rows > 0
        self.table: list[str] = []
        self.known: dict[str, int] = {}

    def stored(self, value: object) -> str:
        """Any value as text."""
        return str(value)

    def append(self, text: str | None) -> None:
        if text is None:
            self.append_null()
            return
        code = self.known.get(text)
        if code is None:
            code = self.known[text] = len(self.table)
            self.table.append(_storable(text))
        self.codes.append(code)

    def append_null(self) -> None:
        self.codes.append(_NULL_CODE)
        self.has_null = True

    def extend(self, texts: Sequence[str | None]) -> None:
        """Add many at once."""
        known = self.known
        if texts and texts.count(texts[0]) == len(texts):
            # The usual case of a batch: one device, no status, no error.
            self.append(texts[0])
            self.codes.extend(self.codes[-1:] * (len(texts) - 1))
            return
        for text in dict.fromkeys(texts):
            if text is None:
                self.has_null = True
            elif text not in known:
                known[text] = len(self.table)
                self.table.append(_storable(text))
        lookup: dict[str | None, int] = {None: _NULL_CODE}
        lookup.update(known)
        self.codes.extend(map(lookup.__getitem__, texts))

    def pad(self, rows: int) -> None:
        """Add nulls until there are ``rows`` values."""
        missing = rows - len(self.codes)
        if missing > 0:
            self.codes.extend(array("i", [_NULL_CODE]) * missing)
            self.has_null = True

    def to_list(self) -> list[str | None]:
        # The null is last, so that index -1 finds it.
        lookup: list[str | None] = [*self.table, None]
        return list(map(lookup.__getitem__, self.codes))

    def cut(self, start: int, stop: int) -> TextColumn:
        part = TextColumn()
        part.codes = self.codes[start:stop]
        part.has_null = self.has_null
        part.table = self.table
        part.known = self.known
        return part

    def __len__(self) -> int:
        return len(self.codes)


def _storable(text: str) -> str:
    """Text that UTF-8 can encode: a lone surrogate (an undecodable port name) is escaped."""
    if text.isascii():
        return text
    return text.encode("utf-8", "backslashreplace").decode()


class ColumnBuffer:
    """Rows being collected. Not safe to share between threads.

    ``schema`` grows when a field turns up that it does not know yet; earlier rows are null there.

    A column is filled up with nulls only when its next value comes, or by :meth:`complete`: most
    rows have no error and no event, and a null a row in each such column would cost a third of the
    row.
    """

    __slots__ = (
        "_quick",
        "_statuses",
        "device",
        "error",
        "fields",
        "latency_s",
        "received_at",
        "requested_at",
        "schema",
        "status",
        "t_mono_ns",
        "t_utc",
        "unit_id",
    )

    def __init__(self, schema: RecordSchema | None = None) -> None:
        self.schema: RecordSchema = RecordSchema() if schema is None else schema
        self.device: TextColumn = TextColumn()
        self.unit_id: TextColumn = TextColumn()
        self.t_utc: array[int] = array("q")
        self.t_mono_ns: array[int] = array("q")
        self.requested_at: array[int] = array("q")
        self.received_at: array[int] = array("q")
        self.latency_s: array[float] = array("d")
        self.fields: dict[str, NumberColumn | TextColumn] = {
            field.name: new_column(field.kind) for field in self.schema.fields
        }
        self.status: TextColumn = TextColumn()
        self.error: TextColumn = TextColumn()
        self._statuses: dict[object, str] = {}
        # The columns of the devices' fields by the fields' own names, as far as these are equal.
        self._quick = {
            name: column for name, column in self.fields.items() if name not in RECORDER_FIELDS
        }

    def __len__(self) -> int:
        return len(self.t_utc)

    def append_result(self, device: str, unit_id: str | None, result: DeviceResultLike) -> None:
        """Add the result of polling ``device``; ``unit_id`` is its address on its bus."""
        reading = result.value
        if reading is None:
            error = result.error
            text = "no reply and no error" if error is None else describe_error(error)
            values: Mapping[str, FieldValue] = {}
            status = None
        else:
            text = None
            values = reading.values
            status = self._status_text(reading)
        requested: int | None = getattr(result, "requested_unix_ns", None)
        received: int | None = getattr(result, "received_unix_ns", None)
        self.append_row(
            device,
            unit_id,
            to_utc_ns(result.requested_at) if requested is None else requested,
            to_utc_ns(result.received_at) if received is None else received,
            result.requested_monotonic_ns,
            result.received_monotonic_ns,
            values,
            status,
            text,
        )

    def append_sample(self, sample: Sample) -> None:
        """Add a sample object (its ``t_utc`` is its ``received_at``, to the microsecond)."""
        self.append_row(
            sample.device,
            sample.unit_id,
            to_utc_ns(sample.requested_at),
            to_utc_ns(sample.received_at),
            sample.t_mono_ns,
            sample.t_mono_ns,
            sample.values,
            sample.status,
            sample.error,
        )
        self.t_utc[-1] = to_utc_ns(sample.t_utc)
        self.latency_s[-1] = sample.latency_s
        for name in RECORDER_FIELDS:
            value = getattr(sample, name)
            if value is not None:
                self.amend(name, value)

    def amend(self, name: str, value: float | str) -> None:
        """Set a field of the recorder's own in the newest row."""
        column = self.fields.get(name)
        rows = len(self.t_utc)
        if type(column) is FloatColumn and type(value) is float and len(column.valid) == rows - 1:
            column.data.append(value)
            column.valid.append(1)
            return
        if column is None:
            kind: FieldKind = "text" if isinstance(value, str) else "float"
            column = self.fields[name] = new_column(kind)
            self.schema = self.schema.with_field(Field(name, kind))
        column.pad(rows - 1)
        column.append(column.stored(value))

    def complete(self) -> None:
        """Fill every column up to the last row."""
        rows = len(self.t_utc)
        for column in (self.status, self.error, self.unit_id, *self.fields.values()):
            column.pad(rows)

    def append_row(
        self,
        device: str,
        unit_id: str | None,
        requested_utc_ns: int,
        received_utc_ns: int,
        requested_mono_ns: int,
        received_mono_ns: int,
        values: Mapping[str, FieldValue],
        status: str | None,
        error: str | None,
    ) -> None:
        """Add one row from its parts, all stamps in nanoseconds."""
        # The fields come first: they are the only part that a bad value can make fail, and a row
        # that is half there would shift every column after it.
        rows = len(self.t_utc)
        quick = self._quick
        try:
            for name, value in values.items():
                column = quick.get(name)
                if type(value) is float and type(column) is FloatColumn:
                    valid = column.valid
                    there = len(valid)
                    if there <= rows:
                        if there < rows:
                            column.pad(rows)
                        column.data.append(value)
                        valid.append(1)
                        continue
                elif type(value) is str and type(column) is TextColumn:
                    code = column.known.get(value)
                    codes = column.codes
                    there = len(codes)
                    if code is not None and there <= rows:
                        if there < rows:
                            column.pad(rows)
                        codes.append(code)
                        continue
                self._put(name, value)
        except BaseException:
            for column in self.fields.values():
                _truncate(column, rows)
            raise
        texts = (self.device, device), (self.unit_id, unit_id), (self.status, status)
        for text_column, text in texts:
            if text is None:
                continue
            codes = text_column.codes
            code = text_column.known.get(text)
            if code is not None and len(codes) == rows:
                codes.append(code)
            else:
                _append_text(text_column, text, rows)
        self.t_utc.append(received_utc_ns)
        self.t_mono_ns.append(received_mono_ns)
        self.requested_at.append(requested_utc_ns)
        self.received_at.append(received_utc_ns)
        # Whole microseconds: finer digits are scheduling noise, and cost 5 of 12 bytes a row in
        # Parquet because a float of nanoseconds has no short form.
        self.latency_s.append(round((received_mono_ns - requested_mono_ns) / 1000) / 1e6)
        if error is not None:
            _append_text(self.error, error, rows)

    def drop_first(self, rows: int) -> None:
        """Drop the oldest rows."""
        self.complete()
        for times in (self.t_utc, self.t_mono_ns, self.requested_at, self.received_at):
            del times[:rows]
        del self.latency_s[:rows]
        for column in (self.device, self.unit_id, self.status, self.error, *self.fields.values()):
            if isinstance(column, TextColumn):
                del column.codes[:rows]
            else:
                del column.data[:rows]
                del column.valid[:rows]

    def _put(self, name: str, value: object) -> None:
        """The slow path: new fields, whole numbers, nulls, colliding names, other kinds."""
        if value is None:
            return
        name = column_name(name)
        kind = _kind_of_undeclared(value)
        while True:
            column = self.fields.get(name)
            if column is None:
                column = self.fields[name] = self._quick[name] = new_column(kind)
                self.schema = self.schema.with_field(Field(name, kind))
            stored = column.stored(value)
            if stored is not None:
                if len(column) > len(self.t_utc):
                    raise ValueError(
                        f"two values for column {name!r} in one sample: rename a field of the "
                        "device in its source"
                    )
                column.pad(len(self.t_utc))
                column.append(stored)
                return
            name = text_column_name(name)
            kind = "text"

    def _status_text(self, reading: ReadingLike) -> str:
        codes = reading.status
        if not codes:
            return ""
        if not isinstance(codes, frozenset):
            return _join_codes(codes)
        text = self._statuses.get(codes)
        if text is None:
            text = self._statuses[codes] = _join_codes(codes)
        return text


def _append_text(column: TextColumn, text: str, rows: int) -> None:
    """Add the text of row ``rows``."""
    codes = column.codes
    if len(codes) != rows:
        column.pad(rows)
    code = column.known.get(text)
    if code is None:
        column.append(text)
    else:
        codes.append(code)


def describe_error(error: BaseException) -> str:
    """The text of the error column: the kind of the error, then its message."""
    message = str(error)
    name = type(error).__name__
    return f"{name}: {message}" if message else name


def _join_codes(codes: object) -> str:
    assert hasattr(codes, "__iter__")
    # A str enum's str() is its qualified name, its value is the code.
    return ",".join(sorted(str(getattr(code, "value", code)) for code in codes))


_COLUMNS: dict[FieldKind, type[NumberColumn | TextColumn]] = {
    "float": FloatColumn,
    "int": IntColumn,
    "bool": BoolColumn,
    "text": TextColumn,
    "timestamp": TimestampColumn,
}


def new_column(kind: FieldKind, rows: int = 0) -> NumberColumn | TextColumn:
    """A column for values of ``kind``, with ``rows`` nulls in it."""
    return _COLUMNS[kind](rows)


def _kind_of_undeclared(value: object) -> FieldKind:
    # A whole number is a float here: the next value of the field may have decimals.
    if isinstance(value, datetime):
        return "timestamp"
    return "text" if _ANY_FLOATS.stored(value) is None else "float"


_ANY_FLOATS = FloatColumn()


def _truncate(column: NumberColumn | TextColumn, rows: int) -> None:
    if isinstance(column, NumberColumn):
        del column.data[rows:]
        del column.valid[rows:]
    else:
        del column.codes[rows:]
