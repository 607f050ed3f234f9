"""Archives: what recorders publish to a stream of JetStream, as partitioned Parquet."""

from penstock.record.archives.archive_files import archive_files, is_archive
from penstock.record.archives.archiver import (
    Archiver,
    ArchiverCounts,
    ArchiverOptions,
    ArchiverRefused,
)
from penstock.record.archives.run_archive import RunOptions
from penstock.record.archives.store_address import store_at
from penstock.record.archives.stores import ArchiveError, Store, StoredObject

__all__ = [
    "ArchiveError",
    "Archiver",
    "ArchiverCounts",
    "ArchiverOptions",
    "ArchiverRefused",
    "RunOptions",
    "Store",
    "StoredObject",
    "archive_files",
    "is_archive",
    "store_at",
]
