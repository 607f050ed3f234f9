"""The columns of a recording: fixed ones around the fields that the devices measure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from .source import FieldSchemaLike

__all__ = ["LEADING_COLUMNS", "TIME_COLUMNS", "TRAILING_COLUMNS", "Field", "RecordSchema"]

FieldKind = Literal["float", "str"]

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
_RESERVED = frozenset(LEADING_COLUMNS + TRAILING_COLUMNS)


@dataclass(frozen=True, slots=True)
class Field:
    """A measured column. ``unit`` is None when unknown or when the devices disagree; where they
    do, ``units`` has each device's own."""

    name: str
    kind: FieldKind
    unit: str | None = None
    units: tuple[tuple[str, str], ...] = ()


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
        return (*LEADING_COLUMNS, *(field.name for field in self.fields), *TRAILING_COLUMNS)

    def kind_of(self, name: str) -> FieldKind | None:
        """The kind of a field column, or None when there is no such field."""
        return next((field.kind for field in self.fields if field.name == name), None)

    def with_field(self, field: Field) -> RecordSchema:
        """The same schema with one more field behind the present ones."""
        return RecordSchema((*self.fields, field), self.metadata)

    def covers(self, fields: Iterable[Field]) -> bool:
        """True when every one of ``fields`` has a column here, of the same kind."""
        return all(self.kind_of(field.name) == field.kind for field in fields)


def column_name(field_name: str) -> str:
    """The column of a field: its own name, prefixed where a fixed column has it already."""
    return f"field_{field_name}" if field_name in _RESERVED else field_name


def text_column_name(column: str) -> str:
    """Where text goes that a device sends for a numeric field (``----``, ``OVER``)."""
    return f"{column}_text"


def unite(schemas: Mapping[str, Sequence[FieldSchemaLike]]) -> tuple[Field, ...]:
    """The union of the devices' fields, in order of first appearance.

    A field that is numeric for one device and text for another becomes a numeric column and a text
    column beside it. Where the devices disagree on a unit, the column has each device's.
    """
    kinds: dict[str, set[str]] = {}
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
        if "float" in kind:
            united.append(Field(name, "float", unit, units))
            if "str" in kind and text_column_name(name) not in kinds:
                united.append(Field(text_column_name(name), "str"))
        else:
            united.append(Field(name, "str", unit, units))
    return tuple(united)
