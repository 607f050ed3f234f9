"""Archives: what recorders publish to JetStream, as partitioned Parquet or in PostgreSQL."""

from typing import TYPE_CHECKING

from penstock._public_names import on_demand

if TYPE_CHECKING:
    from penstock.record.archives.archiver import (
        Archiver,
        ArchiverCounts,
        ArchiverOptions,
        ArchiverRefused,
    )
    from penstock.record.archives.manifest import archive_files, is_archive
    from penstock.record.archives.postgres_archive import PostgresArchive
    from penstock.record.archives.stores import ArchiveError, Store, StoredObject, store_at
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

# Reading an archive needs no archiver.
_HOMES = {
    "penstock.record.archives.archiver": "Archiver ArchiverCounts ArchiverOptions ArchiverRefused",
    "penstock.record.archives.manifest": "archive_files is_archive",
    "penstock.record.archives.postgres_archive": "PostgresArchive",
    "penstock.record.archives.stores": "ArchiveError Store StoredObject store_at",
    "penstock.record.archives.waiting_run": "RunOptions",
}

if not TYPE_CHECKING:  # a type checker would take every name for one of these
    __getattr__, __dir__ = on_demand(globals(), _HOMES)
