"""Recording into Arrow IPC files."""

from __future__ import annotations

import os
from pathlib import Path

from penstock._renamed import renamed
from penstock.record._parts.part_writer import PartOptions
from penstock.record._parts.parts_file import PartsFile
from penstock.record._parts.table_formats import ArrowCompression, ArrowFormat
from penstock.record._seals.signing import SigningKey
from penstock.record.sink import LossWindow, PathSink

__all__ = ["ArrowSink"]


class ArrowSink(PathSink):
    """Writes Arrow IPC (Feather 2): the file ``run.arrow``, or a folder of parts.

    Larger than Parquet, and read without decoding where ``compression`` is ``"none"``. Everything
    else is as for :class:`~penstock.record.ParquetSink`.
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
