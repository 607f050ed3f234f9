"""Access to pyarrow, which is optional and has no complete type stubs.

Every use of pyarrow goes through :func:`pyarrow_module`, so that importing ``penstock.record``
never needs it and its absence is one clear error.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, TypeAlias

from penstock.record._source import FieldKind
from penstock.record.errors import SinkDependencyError
from penstock.record.schema import RESERVED_COLUMNS, TIME_COLUMNS, RecordSchema

__all__ = [
    "METADATA_KEY",
    "arrow_schema",
    "arrow_type",
    "is_number",
    "iso_times",
    "load_pyarrow",
    "measured_numbers",
    "name_with_unit",
    "pyarrow_module",
    "unit_for",
    "units_of",
]

METADATA_KEY = b"penstock"

Units: TypeAlias = Mapping[str, "str | dict[str, str]"]
_ISO = "%Y-%m-%dT%H:%M:%S"


def pyarrow_module(name: str = "pyarrow") -> Any:
    """Import pyarrow or one of its modules; without it, raise an error that names the remedy."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise SinkDependencyError(
            "Arrow and Parquet need the package pyarrow: "
            "install it with  pip install 'penstock[parquet]'"
        ) from error


@lru_cache(maxsize=1)
def load_pyarrow() -> None:
    """Import pyarrow, its compute kernels, and what it imports itself at the first use.

    At the first list that it converts, it imports pandas if that is installed. This takes half a
    second, which would delay a running recording. SinkDependencyError without pyarrow.
    """
    pyarrow_module("pyarrow.compute")
    pyarrow_module().array([0])


@lru_cache(maxsize=64)
def arrow_schema(schema: RecordSchema) -> Any:
    """The Arrow schema of a recording."""
    pa = pyarrow_module()
    text = pa.dictionary(pa.int32(), pa.string())
    fields = []
    kinds = {field.name: field for field in schema.fields}
    for name in schema.names:
        if name in kinds:
            field = kinds[name]
            metadata = {"unit": field.unit} if field.unit is not None else None
            if field.units:
                metadata = {"units": json.dumps(dict(field.units), ensure_ascii=False)}
            kind = arrow_type(field.kind)
            fields.append(pa.field(name, kind, nullable=True, metadata=metadata))
        elif name in TIME_COLUMNS:
            fields.append(pa.field(name, pa.timestamp("ns", "UTC"), nullable=False))
        elif name == "t_mono_ns":
            fields.append(pa.field(name, pa.int64(), nullable=False))
        elif name == "latency_s":
            fields.append(pa.field(name, pa.float64(), nullable=False))
        elif name == "error":
            # Few and all different: a dictionary would only hold each text a second time.
            fields.append(pa.field(name, pa.string()))
        else:
            fields.append(pa.field(name, text, nullable=name != "device"))
    return pa.schema(fields, metadata={METADATA_KEY: schema.metadata.encode()})


def units_of(schema: Any) -> dict[str, str | dict[str, str]]:
    """The units of the fields of an Arrow schema."""
    found: dict[str, str | dict[str, str]] = {}
    for field in schema:
        metadata = field.metadata or {}
        if b"units" in metadata:
            found[field.name] = json.loads(metadata[b"units"])
        elif b"unit" in metadata:
            found[field.name] = metadata[b"unit"].decode()
    return found


def unit_for(units: Units, name: str, device: str) -> str | None:
    """The unit of a field for one device; ``units`` are those of :func:`units_of`."""
    unit = units.get(name)
    return unit.get(device) if isinstance(unit, dict) else unit


def name_with_unit(name: str, unit: str) -> str:
    """The name of a column that tells its unit, such as ``Mass_Flow [SCCM]``."""
    return name if name.endswith(f"[{unit}]") else f"{name} [{unit}]"


def iso_times(column: Any) -> Any:
    """Time stamps as texts of ISO 8601 with all their decimals; those of a zone in UTC with Z."""
    pa, compute = pyarrow_module(), pyarrow_module("pyarrow.compute")
    if column.type.tz is None:
        return compute.strftime(column, format=_ISO)
    utc = column.cast(pa.timestamp(column.type.unit, "UTC"))
    return compute.strftime(utc, format=_ISO + "Z")


def is_number(kind: Any) -> bool:
    """Whether the values of an Arrow type are floats or whole numbers."""
    types = pyarrow_module().types
    return bool(types.is_floating(kind) or types.is_integer(kind))


def common_type(one: Any, other: Any) -> Any:
    """The Arrow type that has the values of both: a float if all are numbers, else a text."""
    pa = pyarrow_module()
    if one == other or pa.types.is_null(other):
        return one
    if pa.types.is_null(one):
        return other
    return pa.float64() if is_number(one) and is_number(other) else pa.string()


def measured_numbers(schema: Any) -> list[str]:
    """The names of the columns that devices measured, numbers only."""
    return [
        field.name
        for field in schema
        if field.name not in RESERVED_COLUMNS and is_number(field.type)
    ]


def arrow_type(kind: FieldKind) -> Any:
    """The Arrow type of a field's column."""
    pa = pyarrow_module()
    if kind == "text":
        return pa.dictionary(pa.int32(), pa.string())
    if kind == "timestamp":
        return pa.timestamp("ns", "UTC")
    return {"float": pa.float64, "int": pa.int64, "bool": pa.bool_}[kind]()
