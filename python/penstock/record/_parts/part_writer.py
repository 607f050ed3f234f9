"""Writing one part: as one file, or as a file for each day and device."""

from __future__ import annotations

import functools
import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

from penstock._durable_files import put_file, sync_folder
from penstock.record._columns.batch import SampleBatch
from penstock.record._columns.columns import TextColumn
from penstock.record._parts.parts_folder import PART_KEY, RUN_KEY, PartsFolder
from penstock.record._parts.table_formats import TableFormat
from penstock.record._seals.digests import DigestThread, new_digest
from penstock.record.arrow import arrow_schema, pyarrow_module
from penstock.record.errors import SinkSchemaError
from penstock.record.schema import RecordSchema

Partition = Literal["day", "device"]
_LARGEST_PART = 4_194_304
_NAME_MAX = 255  # bytes, limits.h


@dataclass(frozen=True, slots=True)
class PartOptions:
    """When a part is written, when it is final, and how it is divided.

    Attributes:
        seal_interval: a growing part is written at least this often while rows come.
        part_duration: after this time a part is final.
        part_rows: with so many rows a part is final. They are kept in memory until then.
        part_bytes: with so many bytes of columns in memory a part is final. Its file is smaller.
        partition_by: a folder for each day (UTC) and each device, in this order.
    """

    seal_interval: float = 60.0
    part_duration: float = 3600.0
    part_rows: int = 262_144
    part_bytes: int = 67_108_864
    partition_by: tuple[Partition, ...] = ()

    def __post_init__(self) -> None:
        if not 1 <= self.part_rows <= _LARGEST_PART:
            raise ValueError(
                f"part_rows must be between 1 and {_LARGEST_PART}, not {self.part_rows!r}"
            )
        if self.part_bytes < 1:
            raise ValueError(f"part_bytes must be at least 1, not {self.part_bytes!r}")
        if not (self.seal_interval >= 0 and self.part_duration >= 0):
            raise ValueError(
                f"seal_interval and part_duration must be at least 0, "
                f"not {self.seal_interval!r} and {self.part_duration!r}"
            )
        unknown = [name for name in self.partition_by if name not in ("day", "device")]
        if unknown or len(set(self.partition_by)) < len(self.partition_by):
            raise ValueError(
                f"partition_by takes 'day' and 'device', each once, not {self.partition_by!r}"
            )

    def part_schema(
        self,
        schema: RecordSchema,
        run: str,
        number: int,
        facts: Mapping[str, Any] | None = None,
    ) -> Any:
        """The Arrow schema of part ``number``, with the metadata of the recording and its own."""
        plain = arrow_schema(schema)
        return plain.with_metadata(
            {**plain.metadata, RUN_KEY: run, PART_KEY: str(number), **(facts or {})}
        )


def check_device_names(batch: SampleBatch, path: Path) -> None:
    """Refuse a device whose name is too long for that of its folder; SinkSchemaError."""
    column = batch.raw("device")
    assert isinstance(column, TextColumn)
    _check_names(column.table, path)


def check_described_devices(schema: RecordSchema, path: Path) -> None:
    """The same of the devices that the metadata name, before any of them has a row."""
    described = json.loads(schema.metadata or "{}").get("devices")
    _check_names(described if isinstance(described, dict) else (), path)


def _check_names(names: Iterable[str], path: Path) -> None:
    for name in names:
        if len(f"device={_folder_value(name)}") > _NAME_MAX:
            raise SinkSchemaError(
                f"{path} cannot be divided by device: the name {name[:40]!r}... is too long for "
                "the name of a folder. Give the device a shorter name, or leave partition_by out"
            )


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A file of a part, with its size and its digest; both are 0 and empty without seals."""

    path: Path
    size: int = 0
    digest: bytes = b""


def write_part(
    folder: PartsFolder,
    number: int,
    table: Any,
    table_format: TableFormat,
    options: PartOptions,
    *,
    digest_name: str | None,
) -> list[WrittenFile]:
    """Write a part durably, each of its files in one step; returns the files. OSError.

    Without the name of a digest, the files have none.
    """
    name = folder.part_name(number)
    written = []
    for relative, rows in _divided(table, options.partition_by):
        path = folder.path / relative / name
        if relative and not path.parent.is_dir():
            path.parent.mkdir(parents=True, exist_ok=True)
            for parent in (path.parent, *path.parent.parents):
                sync_folder(os.fspath(parent))
                if parent == folder.path:
                    break
        pa = pyarrow_module()
        # Encoded in memory: pyarrow's own file would turn a full disk into an error without errno.
        buffer = pa.BufferOutputStream()
        table_format.write([rows], rows.schema, buffer)
        data = memoryview(buffer.getvalue())
        digest = new_digest(digest_name) if digest_name is not None else None
        hashing = DigestThread(digest_name or "")
        try:
            if digest is not None:  # while the disk writes
                hashing.run(functools.partial(digest.update, data), len(data))
            os.close(put_file(path, functools.partial(_put, data)))
            sync_folder(os.fspath(path))
        finally:
            hashing.close()
        file = (
            WrittenFile(path, len(data), digest.digest())
            if digest is not None
            else WrittenFile(path)
        )
        written.append(file)
    return written


def _put(data: memoryview, descriptor: int) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


def _divided(table: Any, partition_by: tuple[Partition, ...]) -> list[tuple[str, Any]]:
    if not partition_by or not table.num_rows:
        return [("", table)] if not partition_by else []
    pa, compute = pyarrow_module(), pyarrow_module("pyarrow.compute")
    parts = [("", table)]
    for key in partition_by:
        divided = []
        for folder, rows in parts:
            if key == "day":
                values = compute.strftime(rows.column("t_utc"), format="%Y-%m-%d")
            else:
                values = rows.column("device").cast(pa.string())
            for value in values.unique().to_pylist():
                chosen = rows.filter(compute.equal(values, value))
                below = f"{key}={_folder_value(value)}"
                divided.append((f"{folder}/{below}" if folder else below, chosen))
        parts = divided
    if "device" in partition_by:
        # The folder's name contains it; readers would see a column of the same name twice.
        parts = [(folder, rows.drop_columns(["device"])) for folder, rows in parts]
    return parts


def _folder_value(value: str) -> str:
    # As Hive writes them, and readers decode them; a name of dots alone would be a way upwards.
    return (
        quote(value, safe=" ") if re.fullmatch(r"\.*", value) is None else value.replace(".", "%2E")
    )
