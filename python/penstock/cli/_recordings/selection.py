"""Which rows and columns of a recording are exported."""

from __future__ import annotations

import argparse
from typing import Any

from penstock.cli._errors import CommandError, ExitCode
from penstock.record.arrow import pyarrow_module
from penstock.record.schema import RESERVED_COLUMNS

__all__ = ["Selection"]


class Selection:
    """What ``--from``, ``--to``, ``--device`` and ``--field`` leave of a recording."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._devices = list(options.device)
        self._fields = list(options.field)
        self._begin: int | None = options.begin
        self._end: int | None = options.end
        self._known: dict[str, None] = {}

    def columns(self, schema: Any) -> list[str]:
        """The columns that are exported of a part with this schema."""
        self._known |= dict.fromkeys(name for name in schema.names if name not in RESERVED_COLUMNS)
        if not self._fields:
            return list(schema.names)
        return [name for name in schema.names if name in RESERVED_COLUMNS or name in self._fields]

    def of(self, table: Any) -> Any:
        """The rows and columns of a table that are exported."""
        pa, compute = pyarrow_module(), pyarrow_module("pyarrow.compute")
        table = table.select(self.columns(table.schema))
        if self._devices:
            wanted = pa.array(self._devices, pa.string())
            devices = table["device"].cast(pa.string())
            table = table.filter(compute.is_in(devices, value_set=wanted))
        for bound, test in ((self._begin, compute.greater_equal), (self._end, compute.less)):
            if bound is not None:
                kind = pa.timestamp("ns", table.schema.field("t_utc").type.tz)
                table = table.filter(
                    test(table["t_utc"].cast(kind), pa.scalar(bound, pa.int64()).cast(kind))
                )
        return table

    def check(self, name: str) -> None:
        """Refuse a field that no part of the recording ``name`` has; CommandError."""
        for field in self._fields:
            if field not in self._known:
                known = ", ".join(self._known) or "none"
                raise CommandError(f"{name} has no column {field}; it has {known}", ExitCode.USAGE)
