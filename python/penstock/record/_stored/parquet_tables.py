"""The rows of a Parquet file, some hundred thousand at a time, as far as they can be read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from penstock.record._parts.table_formats import ParquetFormat
from penstock.record.arrow import pyarrow_module
from penstock.record.damage import UNREADABLE, DamageList, reason_of

__all__ = ["parquet_tables"]

_ROWS_AT_A_TIME = 1 << 18
_ROWS_AROUND_DAMAGE = 1024
# To hand a few columns to threads and to wait for them takes half as long again as to decode them.
_FEW_COLUMNS = 8


def parquet_tables(
    path: Path, damages: DamageList, columns: Sequence[str] | None = None
) -> Iterator[tuple[int, Any]]:
    """Tables, each with the number of its first row in the file.

    Of a row group that is damaged they are the rows before its first damaged page.
    """
    pa = pyarrow_module()
    use_threads = columns is None or len(columns) > _FEW_COLUMNS
    with ParquetFormat("zstd").open(path) as file:
        begin = 0
        for group in range(file.num_row_groups):
            rows = max(0, file.metadata.row_group(group).num_rows)
            done = 0
            for size in (_ROWS_AT_A_TIME, _ROWS_AROUND_DAMAGE):
                try:
                    skip, skipped = done, 0
                    batches = file.iter_batches(
                        size, row_groups=[group], columns=columns, use_threads=use_threads
                    )
                    for batch in batches:
                        batch.validate(full=True)
                        fresh = batch.slice(max(0, skip - skipped))
                        skipped += batch.num_rows
                        if fresh.num_rows:
                            yield begin + done, pa.Table.from_batches([fresh])
                            done += fresh.num_rows
                    break
                except UNREADABLE as error:
                    if isinstance(error, OSError) and error.errno is not None:
                        raise
                    reason = reason_of(error)
            else:
                place = f"row group {group + 1}, from row {done + 1} on"
                damages.note(path, place, reason, max(0, rows - done))
            begin += rows
