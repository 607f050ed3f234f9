"""Parquet files that DuckDB can read by itself: of a recording, and of an archive in a bucket."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from penstock.record._files.files import numbered_parts
from penstock.record._parts.parts_folder import PartsFolder, parts_path
from penstock.record.archives.manifest import ArchivedFile, archive_files, is_archive, manifests
from penstock.record.archives.stores import ArchiveError, S3Store
from penstock.record.arrow import pyarrow_module
from penstock.record.damage import DamageList
from penstock.record.stored_parts import plain_schema

__all__ = ["ParquetFiles", "parquet_files", "s3_datasets"]

_SUFFIX = ".parquet"
_MAGIC = b"PAR1"
_SMALLEST = 12  # bytes: the magic number at both ends, and the length of the footer


@dataclass(frozen=True, slots=True)
class ParquetFiles:
    """Complete Parquet files that hold all rows of a recording.

    Attributes:
        paths: the files, in the order of recording.
        partitioned: names of folders such as ``device=fuel`` hold columns.
    """

    paths: list[Path]
    partitioned: bool


def parquet_files(path: Path, damages: DamageList) -> ParquetFiles | None:
    """The files of the recording or archive at ``path``; None if rows are elsewhere too.

    Rows are elsewhere while a journal has them: during a recording, or after a kill. A folder that
    is no recording, but has Parquet files at any depth, is an archive. Files whose names or folders
    begin with a dot or an underscore are somebody's unfinished work, and no part of it.

    Args:
        path: the recording.
        damages: notes files that are no complete Parquet files, and are left out.
    """
    if is_archive(path):
        return ParquetFiles(_complete([Path(each) for each in archive_files(path)], damages), True)
    if path.is_dir() and not _is_parts_folder(path):
        # Here, because the readers of all formats take longer to import than a small query.
        from penstock.record.stored_parts import recordings_at

        recordings = recordings_at(path)
        if not recordings:
            return _archive(path, damages)
        kinds = {_SUFFIX if each.suffix == _SUFFIX else "" for each in recordings}
        if kinds != {_SUFFIX}:
            return None  # several formats of one run: which one has most rows is known there
        found = [_of_recording(each, damages) for each in recordings]
    else:
        found = [_of_recording(path, damages)]
    files: list[Path] = []
    partitioned = False
    for each in found:
        if each is None:
            return None
        files += each.paths
        partitioned |= each.partitioned
    return ParquetFiles(files, partitioned) if files else None


def _of_recording(path: Path, damages: DamageList) -> ParquetFiles | None:
    if _is_parts_folder(path):
        folder = PartsFolder(path, _SUFFIX)
        if any(journal.exists() for _, journal in folder.journals()):
            return None
        parts = [part for _, part in folder.parts()]
        inside = any("=" in name for part in parts for name in part.relative_to(path).parts[:-1])
        return ParquetFiles(_complete(parts, damages), inside)
    if path.suffix != _SUFFIX or parts_path(path).is_dir():
        return None
    files = [part for _, part in numbered_parts(path)]
    if not files or any(part.stat().st_size == 0 for part in files):
        return None  # reserved by a recorder
    return ParquetFiles(_complete(files, damages), False)


def _archive(folder: Path, damages: DamageList) -> ParquetFiles | None:
    files = _complete(sorted(_files_below(folder)), damages)
    below = {name for file in files for name in file.relative_to(folder).parts[:-1]}
    return ParquetFiles(files, any("=" in name for name in below)) if files else None


def _files_below(folder: Path) -> Iterator[Path]:
    for here, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith((".", "_"))]
        for name in names:
            if name.endswith(_SUFFIX) and not name.startswith((".", "_")):
                yield Path(here, name)


def _complete(paths: list[Path], damages: DamageList) -> list[Path]:
    """Those that begin and end as Parquet files do: one torn file would end the whole query."""
    sound = []
    for path in paths:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            begin = file.read(len(_MAGIC))
            file.seek(max(size - len(_MAGIC), 0))
            end = file.read(len(_MAGIC))
        if size >= _SMALLEST and begin == end == _MAGIC:
            sound.append(path)
        else:
            damages.note(path, "", "it is no complete Parquet file")
    return sound


def _is_parts_folder(path: Path) -> bool:
    return (path / ".penstock").is_dir()


# An archive in a bucket, for a query: data sets of pyarrow, which DuckDB reads a batch at a time.
#
# DuckDB has its own access to S3 in an extension that it downloads, which a query does not do. A
# data set reads the columns that a query names, and skips row groups that its conditions exclude.

_CONNECT_S = 5
_TIMEOUT_S = 60


def s3_datasets(target: str) -> list[Any]:
    """A ``pyarrow.dataset.Dataset`` for each schema of an archive, with the rows of all its runs.

    Secrets and the store's address come from the environment, as for the archiver.

    Args:
        target: ``s3://BUCKET/PREFIX``.

    Raises:
        ArchiveError: there is no archive, or it cannot be read.
        SinkDependencyError: a package is missing.
        ValueError: the URL is malformed.
    """
    dataset, fs = pyarrow_module("pyarrow.dataset"), pyarrow_module("pyarrow.fs")
    store = S3Store(target)
    by_schema: dict[str, list[ArchivedFile]] = defaultdict(list)
    for manifest in manifests(store):
        for file in manifest.files:
            by_schema[manifest.schemas[file.schema - 1]].append(file)
    if not by_schema:
        raise ArchiveError(
            f"{store} is no archive with rows; name the bucket and the prefix that penstock "
            "archive was given"
        )
    endpoint = urlsplit(os.environ.get("AWS_ENDPOINT_URL", ""))
    files = fs.S3FileSystem(
        region=os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION"),
        scheme=endpoint.scheme or None,
        endpoint_override=endpoint.netloc or None,
        connect_timeout=_CONNECT_S,
        request_timeout=_TIMEOUT_S,
    )
    base = str(store).removeprefix("s3://")
    found = []
    for group in by_schema.values():
        paths = [f"{base}/{file.name}" for file in group]
        try:
            with files.open_input_file(paths[0]) as first:
                inside = pyarrow_module("pyarrow.parquet").read_schema(first)
        except (OSError, pyarrow_module().ArrowException) as error:
            reason = " ".join(str(error).split())[:300]
            raise ArchiveError(f"s3://{paths[0]} cannot be read: {reason}") from error
        folders = _folders(group, inside.names)
        schema = plain_schema(inside)
        found.append(
            dataset.dataset(
                paths,
                schema=pyarrow_module().schema([*schema, *folders]),
                format="parquet",
                filesystem=files,
                partitioning=dataset.partitioning(folders, flavor="hive"),
                partition_base_dir=base,
            )
        )
    return found


def _folders(files: list[ArchivedFile], inside: list[str]) -> Any:
    """The columns in the names of folders, but for those that the files have themselves."""
    pa = pyarrow_module()
    days = pa.string() if any(file.day == "None" for file in files) else pa.date32()
    columns = {"run": pa.string(), "schema": pa.int64(), "day": days}
    return pa.schema([(name, kind) for name, kind in columns.items() if name not in inside])
