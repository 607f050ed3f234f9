"""The columns of a recording as JSON types, for formats without a schema of their own."""

from __future__ import annotations

from typing import Any

from penstock.record.schema import RecordSchema

__all__ = ["describe_columns", "field_from_description"]

_FIXED_UNITS = {"t_mono_ns": "ns", "latency_s": "s"}


def describe_columns(schema: RecordSchema) -> list[dict[str, Any]]:
    """Each column's name and unit, a field's kind, and each device's unit where they differ."""
    fields = {field.name: field for field in schema.fields}
    described = []
    for name in schema.names:
        field = fields.get(name)
        entry: dict[str, Any] = {"name": name, "unit": _FIXED_UNITS.get(name)}
        if field is not None:
            entry = {"name": name, "unit": field.unit, "kind": field.kind}
            if field.units:
                entry["units"] = dict(field.units)
        described.append(entry)
    return described


def field_from_description(entry: dict[str, Any]) -> Any:
    """The field of an entry of :func:`describe_columns`; None for a fixed column."""
    from penstock.record.schema import Field

    if "kind" not in entry:
        return None
    return Field(entry["name"], entry["kind"], entry["unit"], tuple(entry.get("units", {}).items()))
