"""Columns whose type is that of a recording, or can become it.

A damaged schema turns a column of floats into one of half floats, dates, maps or anything else that
Arrow has, and so does a foreign program. What computes with a column, or writes it elsewhere, knows
the types of recordings alone. So a column of another type is converted here, once, or left out.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from penstock.record.arrow import is_number, pyarrow_module
from penstock.record.damage import UNREADABLE, DamageList
from penstock.record.schema import TIME_COLUMNS

__all__ = ["times_of_a_calendar", "usable_column"]

_TEXTS = ("device", "unit_id", "status", "error", "event", "message", "error_code")
_FLOATS = ("latency_s", "late_s")
_A_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_MOST_NS = 2**63 - 1


def usable_column(path: Path, name: str, column: Any, damages: DamageList) -> Any:
    """The column as it is, or converted; None if nothing can be done with it.

    One that every recording has is null then, and its rows are left out for that.
    """
    pa = pyarrow_module()
    kind = column.type
    if pa.types.is_null(kind):
        return column
    if name in TIME_COLUMNS:
        fits, target = pa.types.is_timestamp(kind), pa.timestamp("ns", "UTC")
        candidates = []
    elif name == "t_mono_ns":
        fits, target = pa.types.is_integer(kind) and kind != pa.uint64(), pa.int64()
        candidates = [target] if pa.types.is_integer(kind) else []
    elif name in _FLOATS:
        fits, target = kind in (pa.float32(), pa.float64()), pa.float64()
        candidates = [target] if is_number(kind) else []
    elif name in _TEXTS:
        fits, target = _is_text(kind), pa.string()
        candidates = [target] if str(kind).endswith("string_view") else []
    else:
        fits, target = _is_of_a_field(kind), None
        candidates = [pa.int64(), pa.float64()] if is_number(kind) else []
    if fits:
        return column
    for candidate in candidates:
        try:
            return column.cast(candidate)
        except UNREADABLE:
            continue
    damages.note(path, f"column {name}", f"its type is {kind}, which no recording has there")
    return None if target is None else pa.chunked_array([pa.nulls(len(column), target)])


def times_of_a_calendar(path: Path, name: str, column: Any, damages: DamageList) -> Any:
    """The same times without those that are no nanoseconds of 64 bits since 1970."""
    pa, compute = pyarrow_module(), pyarrow_module("pyarrow.compute")
    most = _MOST_NS * _A_SECOND[column.type.unit] // 10**9
    numbers = column.cast(pa.int64())
    known = compute.and_(
        compute.less_equal(numbers, most), compute.greater_equal(numbers, pa.scalar(-most))
    )
    far = int(compute.sum(compute.invert(known)).as_py() or 0)
    if not far:
        return column
    damages.note(path, f"column {name}", "times beyond the years 1677 to 2262", far)
    return compute.if_else(known, column, pa.scalar(None, column.type))


def _is_text(kind: Any) -> bool:
    types = pyarrow_module().types
    plain = kind.value_type if types.is_dictionary(kind) else kind
    return bool(types.is_string(plain) or types.is_large_string(plain))


def _is_of_a_field(kind: Any) -> bool:
    pa = pyarrow_module()
    return not (
        kind in (pa.float16(), pa.uint64(), pa.month_day_nano_interval())
        or pa.types.is_union(kind)
        or pa.types.is_run_end_encoded(kind)
    )
