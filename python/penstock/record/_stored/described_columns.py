"""The columns of a text file, as they lie described beside it, or as its first rows show them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from penstock.record._files.line_ends import sidecar_path
from penstock.record._stored.sound_tables import described_schema, fixed_types, plain_schema
from penstock.record.arrow import arrow_schema, pyarrow_module
from penstock.record.damage import UNREADABLE, DamageList, reason_of

__all__ = ["described_columns", "types_of"]


def described_columns(path: Path, damages: DamageList) -> Any:
    """The Arrow schema that lies beside a text file; None without one that can be read."""
    beside = sidecar_path(path)
    if not beside.exists():
        return None
    try:
        described = json.loads(beside.read_bytes())
        schema = described_schema(described["columns"], described["recording"])
        return plain_schema(arrow_schema(schema))
    except UNREADABLE as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        reason = reason_of(error) if beside.stat().st_size else "it is empty"
        damages.note(beside, "", f"the description cannot be read: {reason}")
        return None


def types_of(table: Any, names: list[str]) -> dict[str, Any]:
    """The types that the first rows show, of a file that does not tell them.

    Whole numbers say nothing: the first values of a float are often whole.
    """
    pa = pyarrow_module()
    types = fixed_types()
    for name in names:
        kind = table.schema.field(name).type
        if name not in types and not pa.types.is_null(kind):
            types[name] = pa.float64() if pa.types.is_integer(kind) else kind
    return types
