"""Recording into Arrow IPC and Parquet files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from penstock._renamed import renamed
from penstock.record._parts.part_writer import Partition, PartOptions
from penstock.record._parts.parts_file import PartsFile
from penstock.record._parts.table_formats import (
    ArrowCompression,
    ArrowFormat,
    ParquetCompression,
    ParquetFormat,
)
from penstock.record._seals.digests import SigningKey
from penstock.record.sink import LossWindow, PathSink


class ArrowSink(PathSink):
    """Writes Arrow IPC (Feather 2): the file ``run.arrow``, or a folder of parts.

    The files are larger than Parquet; with ``compression="none"`` they are read without decoding.
    The other arguments are those of :class:`~penstock.record.ParquetSink`.
    """

    @renamed(
        seal_seconds="seal_interval", part_seconds="part_duration", loss_seconds="loss_interval"
    )
    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        compression: ArrowCompression = "zstd",
        overwrite: bool = False,
        append: bool = False,
        force: bool = False,
        seal_interval: float = 60.0,
        part_duration: float = 3600.0,
        part_rows: int = 262_144,
        part_bytes: int = 67_108_864,
        loss_interval: float | None = 1.0,
        loss_rows: int | None = None,
        seals: bool = True,
        sign: SigningKey | None = None,
    ) -> None:
        super().__init__(
            PartsFile(
                Path(path),
                ArrowFormat(compression),
                PartOptions(seal_interval, part_duration, part_rows, part_bytes),
                overwrite=overwrite,
                append=append,
                force=force,
                seals=seals,
                sign=sign,
            ),
            LossWindow(loss_interval, loss_rows),
        )


# Recording into Parquet.


class ParquetSink(PathSink):
    """Writes Parquet: the file ``run.parquet``, or the folder ``run`` of parts.

    A path without the suffix is a folder, for recordings without an end. It holds
    ``part-000001.parquet`` and so on. A growing part is rewritten every ``seal_interval`` seconds,
    and is final after ``part_duration``, ``part_rows`` or ``part_bytes``. So pandas, polars and
    DuckDB can read ``run/*.parquet`` while it grows. ``partition_by`` divides the parts further,
    into ``day=2026-11-22/device=fuel``.

    The parts of a single file are in ``run.parquet.parts``; ``close`` joins them into
    ``run.parquet`` and removes the folder. A batch with a new field, another unit or other metadata
    begins a new part; for a single file, that is ``run.part2.parquet``.

    After a SIGKILL, :func:`penstock.record.recover` adds the rows of the journal, and joins the
    parts of a single file.

    Args:
        path: the file or folder. Without pyarrow, ``open`` raises SinkDependencyError.
        compression: zstd, snappy, gzip, brotli, lz4 or none.
        overwrite: replace an existing recording, when the first batch comes or, for a single file,
            at ``close``.
        append: continue an existing recording; rows of a run that was cut off are recovered first.
            Without either, ``open`` raises SinkExistsError.
        force: with ``append``, leave out the rows after a damaged place of a journal. Their bytes
            are kept beside the recording in any case.
        seal_interval: the longest time in seconds between two writes of a growing part, while rows
            come.
        part_duration: the time in seconds after which a part is final.
        part_rows: the number of rows at which a part is final. Its rows are in memory until then.
        part_bytes: the size of the columns in memory at which a part is final, in bytes; 64 MiB by
            default.
        partition_by: ``"day"`` (UTC) and ``"device"``, in this order; for folders only.
        loss_interval: see :class:`~penstock.record.LossWindow`.
        loss_rows: see :class:`~penstock.record.LossWindow`.
        seals: write digests into ``run.parquet.seals``, or into the folder's list of parts, with
            which ``penstock verify`` checks that nothing has changed since.
        sign: the key that signs the digests.
    """

    @renamed(
        seal_seconds="seal_interval", part_seconds="part_duration", loss_seconds="loss_interval"
    )
    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        compression: ParquetCompression = "zstd",
        overwrite: bool = False,
        append: bool = False,
        force: bool = False,
        seal_interval: float = 60.0,
        part_duration: float = 3600.0,
        part_rows: int = 262_144,
        part_bytes: int = 67_108_864,
        partition_by: Sequence[Partition] = (),
        loss_interval: float | None = 1.0,
        loss_rows: int | None = None,
        seals: bool = True,
        sign: SigningKey | None = None,
    ) -> None:
        super().__init__(
            PartsFile(
                Path(path),
                ParquetFormat(compression),
                PartOptions(
                    seal_interval, part_duration, part_rows, part_bytes, tuple(partition_by)
                ),
                overwrite=overwrite,
                append=append,
                force=force,
                seals=seals,
                sign=sign,
            ),
            LossWindow(loss_interval, loss_rows),
        )
