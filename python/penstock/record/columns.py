"""Growing columns: what a recorder fills and a :class:`~penstock.record.SampleBatch` freezes.

Numbers lie in ``array`` objects (8 bytes each, ready to be lent to Arrow without a copy) with one
validity byte a value beside them; text is kept as codes into a small table of distinct strings.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping

from .sample import Sample, to_utc_ns
from .schema import Field, RecordSchema, column_name, text_column_name
from .source import DeviceResultLike, ReadingLike

__all__ = ["ColumnBuffer", "FloatColumn", "TextColumn"]

_NULL_CODE = -1


class FloatColumn:
    """Float64 values and which of them are there."""

    __slots__ = ("data", "valid")

    def __init__(self, rows: int = 0) -> None:
        self.data = array("d", bytes(8 * rows))
        self.valid = bytearray(rows)

    def append(self, value: float) -> None:
        self.data.append(value)
        self.valid.append(1)

    def append_null(self) -> None:
        self.data.append(0.0)
        self.valid.append(0)

    def to_list(self) -> list[float | None]:
        return [v if ok else None for v, ok in zip(self.data, self.valid, strict=True)]

    def cut(self, start: int, stop: int) -> FloatColumn:
        part = FloatColumn()
        part.data = self.data[start:stop]
        part.valid = self.valid[start:stop]
        return part

    def __len__(self) -> int:
        return len(self.valid)


class TextColumn:
    """Strings as codes into a table of distinct ones; -1 is null."""

    __slots__ = ("_known", "codes", "has_null", "table")

    def __init__(self, rows: int = 0) -> None:
        self.codes = array("i", [_NULL_CODE]) * rows
        self.has_null = rows > 0
        self.table: list[str] = []
        self._known: dict[str, int] = {}

    def append(self, text: str | None) -> None:
        if text is None:
            self.append_null()
            return
        code = self._known.get(text)
        if code is None:
            code = self._known[text] = len(self.table)
            self.table.append(_storable(text))
        self.codes.append(code)

    def append_null(self) -> None:
        self.codes.append(_NULL_CODE)
        self.has_null = True

    def to_list(self) -> list[str | None]:
        # The null stands last, where index -1 finds it.
        lookup: list[str | None] = [*self.table, None]
        return [lookup[code] for code in self.codes]

    def cut(self, start: int, stop: int) -> TextColumn:
        part = TextColumn()
        part.codes = self.codes[start:stop]
        part.has_null = self.has_null
        part.table = self.table
        part._known = self._known
        return part

    def __len__(self) -> int:
        return len(self.codes)


def _storable(text: str) -> str:
    """Text that UTF-8 can hold: a lone surrogate (an undecodable port name) is written out."""
    if text.isascii():
        return text
    return text.encode("utf-8", "backslashreplace").decode()


class ColumnBuffer:
    """Rows being collected. Not safe to share between threads.

    ``schema`` grows when a field turns up that it does not know yet; earlier rows are null there.
    """

    __slots__ = (
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
        self.schema = RecordSchema() if schema is None else schema
        self.device = TextColumn()
        self.unit_id = TextColumn()
        self.t_utc = array("q")
        self.t_mono_ns = array("q")
        self.requested_at = array("q")
        self.received_at = array("q")
        self.latency_s = array("d")
        self.fields: dict[str, FloatColumn | TextColumn] = {
            field.name: _new_column(field, 0) for field in self.schema.fields
        }
        self.status = TextColumn()
        self.error = TextColumn()
        self._statuses: dict[object, str] = {}

    def __len__(self) -> int:
        return len(self.t_utc)

    def append_result(self, device: str, unit_id: str | None, result: DeviceResultLike) -> None:
        """Add what polling ``device`` came to; ``unit_id`` names it when it did not answer."""
        reading = result.value
        if reading is None:
            error = result.error
            text = "no reply and no error" if error is None else describe_error(error)
            values: Mapping[str, float | str] = {}
            status = None
        else:
            text = None
            unit_id = reading.unit_id
            values = reading.values
            status = self._status_text(reading)
        self.append_row(
            device,
            unit_id,
            to_utc_ns(result.requested_at),
            to_utc_ns(result.received_at),
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

    def append_row(
        self,
        device: str,
        unit_id: str | None,
        requested_utc_ns: int,
        received_utc_ns: int,
        requested_mono_ns: int,
        received_mono_ns: int,
        values: Mapping[str, float | str],
        status: str | None,
        error: str | None,
    ) -> None:
        """Add one row from its parts, all stamps in nanoseconds."""
        # The fields come first: they are the only part that a bad value can make fail, and a row
        # that is half there would shift every column after it.
        rows = len(self.t_utc)
        fields = self.fields
        try:
            for name, value in values.items():
                column = fields.get(name)
                if type(value) is float and type(column) is FloatColumn and len(column) == rows:
                    column.data.append(value)
                    column.valid.append(1)
                elif type(value) is str and type(column) is TextColumn and len(column) == rows:
                    column.append(value)
                else:
                    self._put(name, value)
        except BaseException:
            for column in fields.values():
                _truncate(column, rows)
            raise
        for column in fields.values():
            if len(column) == rows:
                column.append_null()
        self.device.append(device)
        self.unit_id.append(unit_id)
        self.t_utc.append(received_utc_ns)
        self.t_mono_ns.append(received_mono_ns)
        self.requested_at.append(requested_utc_ns)
        self.received_at.append(received_utc_ns)
        # Whole microseconds: finer digits are scheduling noise, and cost 5 of 12 bytes a row in
        # Parquet because a float of nanoseconds has no short form.
        self.latency_s.append(round((received_mono_ns - requested_mono_ns) / 1000) / 1e6)
        self.status.append(status)
        self.error.append(error)

    def drop_first(self, rows: int) -> None:
        """Forget the oldest rows."""
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
        """The slow path: new fields, text, whole numbers, nulls, colliding names."""
        if value is None:
            return
        name = column_name(name)
        number: float | None = None
        if not isinstance(value, str):
            try:
                number = float(value)  # type: ignore[arg-type]
            except (TypeError, ValueError, OverflowError):
                value = str(value)
        while True:
            column = self.fields.get(name)
            if column is None:
                field = Field(name, "str" if number is None else "float")
                column = self.fields[name] = _new_column(field, len(self.t_utc))
                self.schema = self.schema.with_field(field)
            if isinstance(column, TextColumn):
                if len(column) > len(self.t_utc):
                    raise ValueError(f"two values for column {name!r} in one sample")
                column.append(str(value))
                return
            if number is not None:
                if len(column) > len(self.t_utc):
                    raise ValueError(f"two values for column {name!r} in one sample")
                column.append(number)
                return
            name = text_column_name(name)

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


def describe_error(error: BaseException) -> str:
    """The text of the error column: the kind of the error, then its message."""
    message = str(error)
    name = type(error).__name__
    return f"{name}: {message}" if message else name


def _join_codes(codes: object) -> str:
    assert hasattr(codes, "__iter__")
    # A str enum's str() is its qualified name, its value is the code.
    return ",".join(sorted(str(getattr(code, "value", code)) for code in codes))


def _new_column(field: Field, rows: int) -> FloatColumn | TextColumn:
    return FloatColumn(rows) if field.kind == "float" else TextColumn(rows)


def _truncate(column: FloatColumn | TextColumn, rows: int) -> None:
    if isinstance(column, FloatColumn):
        del column.data[rows:]
        del column.valid[rows:]
    else:
        del column.codes[rows:]
