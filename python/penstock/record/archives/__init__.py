"""Archives: what recorders publish to JetStream, as partitioned Parquet or in PostgreSQL."""

from penstock.record.archives.archive_files import archive_files, is_archive
from penstock.record.archives.archiver import (
    Archiver,
    ArchiverCounts,
    ArchiverOptions,
    ArchiverRefused,
)
from penstock.record.archives.postgres_archive import PostgresArchive
from penstock.record.archives.store_address import store_at
from penstock.record.archives.stores import ArchiveError, Store, StoredObject
from penstock.record.archives.waiting_run import RunOptions

__all__ = [
    "ArchiveError",
    "Archiver",
    "ArchiverCounts",
    "ArchiverOptions",
    "ArchiverRefused",
    "PostgresArchive",
    "RunOptions",
    "Store",
    "StoredObject",
    "archive_files",
    "is_archive",
    "store_at",
]
