"""The columns of a recording: fixed ones around the fields that the devices measure."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from penstock.record._source import FieldKind, FieldSchemaLike

__all__ = [
    "LEADING_COLUMNS",
    "RECORDER_FIELDS",
    "RESERVED_COLUMNS",
    "TIME_COLUMNS",
    "TRAILING_COLUMNS",
    "Field",
    "RecordSchema",
]

LEADING_COLUMNS = (
    "device",
    "unit_id",
    "t_utc",
    "t_mono_ns",
    "requested_at",
    "received_at",
    "latency_s",
)
TRAILING_COLUMNS = ("status", "error")
TIME_COLUMNS = ("t_utc", "requested_at", "received_at")
RECORDER_FIELDS = ("late_s", "first_byte_s", "event", "message", "error_code")
"""The fields that the recorder itself adds after those of the devices."""
_LAST_FIELDS = frozenset({"error_code"})
"""Those after all other columns: who counts columns from the left finds each where it was."""
RESERVED_COLUMNS = frozenset(LEADING_COLUMNS + TRAILING_COLUMNS + RECORDER_FIELDS)
"""All but those of the devices' own fields."""


@dataclass(frozen=True, slots=True)
class Field:
    """A measured column.

    ``unit`` is None when unknown or when the devices disagree; where they do, ``units`` has each
    device's own.
    """

    name: str
    kind: FieldKind
    unit: str | None = None
    units: tuple[tuple[str, str], ...] = ()

    @property
    def has_unit(self) -> bool:
        """True when at least one device's unit is known."""
        return self.unit is not None or bool(self.units)


@dataclass(frozen=True, slots=True)
class RecordSchema:
    """The fields of a recording, and what is known about it as one JSON object.

    ``metadata`` is JSON text rather than a mapping so that a schema stays hashable: sinks look up
    what they have derived from it by identity of content.
    """

    fields: tuple[Field, ...] = ()
    metadata: str = "{}"

    @property
    def names(self) -> tuple[str, ...]:
        """All column names, in the order of the files."""
        names = [field.name for field in self.fields]
        last = _LAST_FIELDS.intersection(names)
        if not last:
            return (*LEADING_COLUMNS, *names, *TRAILING_COLUMNS)
        others = (name for name in names if name not in last)
        return (*LEADING_COLUMNS, *others, *TRAILING_COLUMNS, *sorted(last))

    def kind_of(self, name: str) -> FieldKind | None:
        """The kind of a field column, or None when there is no such field."""
        return next((field.kind for field in self.fields if field.name == name), None)

    def with_field(self, field: Field) -> RecordSchema:
        """The same schema with one more field after the present ones."""
        return RecordSchema((*self.fields, field), self.metadata)

    def with_facts(self, facts: Mapping[str, object]) -> RecordSchema:
        """The same fields, with more facts in the metadata."""
        metadata = {**json.loads(self.metadata), **facts}
        return RecordSchema(self.fields, json.dumps(metadata, ensure_ascii=False))

    def continued_by(self, later: RecordSchema) -> RecordSchema | None:
        """The schema of the part that a batch of ``later`` begins; None if it fits into this one.

        It fits if its fields are here, with the same kinds and units, and its metadata are the
        same. A field without a unit, and metadata without content, say nothing. The new part has
        all fields of both.
        """
        known = {field.name: field for field in self.fields}
        fits = later.metadata in ("{}", self.metadata)
        for field in later.fields:
            before = known.get(field.name)
            if before is not None and before.kind == field.kind and not field.has_unit:
                continue
            if before != field:
                known[field.name] = field
                fits = False
        if fits:
            return None
        metadata = self.metadata if later.metadata == "{}" else later.metadata
        return RecordSchema(tuple(known.values()), metadata)


_PREFIX = "field_"


def column_name(field_name: str) -> str:
    """The column of a device's field: its name, with a prefix if a fixed column has that name.

    That of a column is itself, because rows as objects have the names of columns, and are recorded
    again. So ``status`` and ``field_status`` are one: see :func:`refuse_shared_columns`.
    """
    return _PREFIX + field_name if field_name in RESERVED_COLUMNS else field_name


def refuse_shared_columns(schemas: Mapping[str, Sequence[FieldSchemaLike]]) -> None:
    """Check that no two fields of a device would be one column, in any sink.

    Raises:
        ValueError: two would.
    """
    for device, fields in schemas.items():
        owners: dict[str, str] = {}
        for field in fields:
            column = column_name(field.name)
            other = owners.setdefault(column, field.name)
            if other != field.name:
                raise ValueError(
                    f"the fields {other!r} and {field.name!r} of {device!r} would both be the "
                    f"column {column!r}: rename one of them in its source"
                )


def beside(name: str, taken: Collection[str]) -> str:
    """A column's name in a sink where the names ``taken`` have another meaning.

    It gets ``field_`` in front if it is one of them. So does a name that would be one of them
    without the ``field_`` that it has in front: no two columns get one name.
    """
    bare = name
    while bare not in taken:
        if not bare.startswith(_PREFIX):
            return name
        bare = bare.removeprefix(_PREFIX)
    return _PREFIX + name


def text_column_name(column: str) -> str:
    """The column for values of another kind than the field's (``----``, ``OVER``)."""
    return f"{column}_text"


def unite(schemas: Mapping[str, Sequence[FieldSchemaLike]]) -> tuple[Field, ...]:
    """The union of the devices' fields, in order of first appearance.

    A field whose kinds are different numbers is a column of floats. One that is text for some
    devices becomes a text column beside that of the others. Where the devices disagree on a unit,
    the column has each device's.
    """
    kinds: dict[str, set[FieldKind]] = {}
    by_device: dict[str, dict[str, str | None]] = {}
    for device, fields in schemas.items():
        for field in fields:
            name = column_name(field.name)
            kinds.setdefault(name, set()).add(field.kind)
            by_device.setdefault(name, {})[device] = field.unit
    united: list[Field] = []
    for name, kind in kinds.items():
        found = by_device[name]
        agreed = len(set(found.values())) == 1
        unit = next(iter(found.values())) if agreed else None
        units = () if agreed else tuple((d, u) for d, u in found.items() if u is not None)
        common = _common_kind(kind - {"text"})
        if common is None:
            united.append(Field(name, "text", unit, units))
            continue
        united.append(Field(name, common, unit, units))
        if "text" in kind and text_column_name(name) not in kinds:
            united.append(Field(text_column_name(name), "text"))
    return tuple(united)


def _common_kind(kinds: set[FieldKind]) -> FieldKind | None:
    """The kind of a column that holds all of ``kinds``; ``None`` where only text does."""
    if len(kinds) == 1:
        return next(iter(kinds))
    if kinds and "timestamp" not in kinds:
        return "float"
    return None
