"""An archive in a bucket, for a query: data sets of pyarrow, which DuckDB reads a batch at a time.

DuckDB has its own access to S3 in an extension that it downloads, which a query does not do. A data
set reads the columns that a query names, and skips row groups that its conditions exclude.
"""

from __future__ import annotations

import os
from collections import defaultdict
from typing import Any
from urllib.parse import urlsplit

from penstock.record.archives.manifest import ArchivedFile, manifests
from penstock.record.archives.stores import ArchiveError, S3Store
from penstock.record.arrow import pyarrow_module
from penstock.record.stored_parts import plain_schema

__all__ = ["s3_datasets"]

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
