"""The rows of runs that overlap, such as those of two recorders, in the order of time.

Of each run that is being read one table is in the memory, so a history may be larger than that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from penstock.record.arrow import pyarrow_module

__all__ = ["merged_by_time"]

_EARLIEST = -(2**63)


class _Run:
    """The table of a run whose rows are next, and their keys, which never fall."""

    def __init__(self, tables: Iterable[Any]) -> None:
        self._tables = iter(tables)
        self._last = _EARLIEST
        self.table: Any = None
        self._keys: Any = None
        self._advance()

    @property
    def last_key(self) -> int:
        """That of the table's last row. The rows behind it have no lower one."""
        return self._last

    def take_until(self, limit: int) -> tuple[Any, Any]:
        """The next rows whose keys are at most ``limit``, and their keys."""
        compute = pyarrow_module("pyarrow.compute")
        count = compute.sum(compute.less_equal(self._keys, limit)).as_py()
        taken = self.table.slice(0, count), self._keys.slice(0, count)
        self.table, self._keys = self.table.slice(count), self._keys.slice(count)
        if not len(self.table):
            self._advance()
        return taken

    def _advance(self) -> None:
        pa, compute = pyarrow_module(), pyarrow_module("pyarrow.compute")
        self.table = next((table for table in self._tables if len(table)), None)
        if self.table is None:
            return
        stamps = self.table["t_utc"].cast(pa.timestamp("ns", "UTC")).cast(pa.int64())
        # A row counts as not earlier than those before it, also where the clock was set back.
        known = stamps.combine_chunks().fill_null(_EARLIEST)
        self._keys = compute.cumulative_max(known, start=self._last)
        self._last = self._keys[-1].as_py()


def merged_by_time(runs: Sequence[Iterable[Any]]) -> Iterator[Any]:
    """Tables with the rows of all ``runs`` in the order of ``t_utc``.

    Rows of one run stay in their order; rows of one time in that of the runs.

    Args:
        runs: the tables of each, all of one schema.
    """
    pa, compute = pyarrow_module(), pyarrow_module("pyarrow.compute")
    waiting = [_Run(tables) for tables in runs]
    while waiting := [run for run in waiting if run.table is not None]:
        limit = min(run.last_key for run in waiting)
        taken = [run.take_until(limit) for run in waiting]
        rows = pa.concat_tables([table for table, _ in taken])
        keys = pa.chunked_array([keys for _, keys in taken], pa.int64())
        yield rows.take(compute.sort_indices(keys))
