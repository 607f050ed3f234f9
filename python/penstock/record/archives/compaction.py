"""Which small files become one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from penstock.record.archives.manifest import ArchivedFile
from penstock.record.archives.stores import ArchiveError, Store
from penstock.record.arrow import pyarrow_module

__all__ = ["joined", "mergeable"]


def mergeable(files: Iterable[ArchivedFile], least: int, most_bytes: int) -> list[ArchivedFile]:
    """The files of one schema and day that should become one, in their order; none if too few.

    A file that has half of ``most_bytes`` is left alone, so each row is written again a few times
    at most.
    """
    groups: dict[tuple[int, str], list[ArchivedFile]] = defaultdict(list)
    for each in files:
        if each.size < most_bytes // 2:
            groups[each.schema, each.day].append(each)
    for group in groups.values():
        taken: list[ArchivedFile] = []
        size = 0
        for each in group:
            if taken and size + each.size > most_bytes:
                break
            taken.append(each)
            size += each.size
        if len(taken) >= max(2, least):
            return taken
    return []


def joined(store: Store, files: Iterable[ArchivedFile]) -> Any:
    """The rows of files as one table.

    Raises:
        ArchiveError: a file is not there, or has other rows than the manifest says.
    """
    pa = pyarrow_module()
    parquet = pyarrow_module("pyarrow.parquet")
    tables = []
    for each in files:
        data = store.read(each.name)
        try:
            table = None if data is None else parquet.ParquetFile(pa.BufferReader(data)).read()
        except (pa.ArrowException, OSError) as error:
            raise ArchiveError(
                f"{store.location(each.name)} cannot be read ({' '.join(str(error).split())}): put "
                "back a copy of it"
            ) from error
        if table is None or table.num_rows != each.rows:
            raise ArchiveError(
                f"{store.location(each.name)} is not as it was written: put back a copy of it"
            )
        tables.append(table)
    return pa.concat_tables(tables)
