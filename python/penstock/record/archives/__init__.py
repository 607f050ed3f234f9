"""Archives: what recorders publish to a stream of JetStream, as partitioned Parquet."""

from penstock.record.archives.archive_files import archive_files, is_archive
from penstock.record.archives.archiver import Archiver, ArchiverOptions, ArchiverRefused
from penstock.record.archives.store_address import store_at
from penstock.record.archives.stores import ArchiveError

__all__ = [
    "ArchiveError",
    "Archiver",
    "ArchiverOptions",
    "ArchiverRefused",
    "archive_files",
    "is_archive",
    "store_at",
]
