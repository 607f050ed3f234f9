"""The files that hold the rows of an archive, each row once."""

from __future__ import annotations

import os

from penstock.record.archives.manifest import FOLDER, manifests
from penstock.record.archives.store_address import store_at

__all__ = ["archive_files", "is_archive"]


def is_archive(path: str | os.PathLike[str]) -> bool:
    """Whether a folder is an archive."""
    return os.path.isdir(os.path.join(path, FOLDER))


def archive_files(target: str | os.PathLike[str]) -> list[str]:
    """The paths or URLs of the Parquet files of an archive, by run, in the order of their rows.

    A glob over the folder finds more: files of an archiver that was killed before it could commit
    them, and those that a compaction has replaced, whose rows it would give twice.

    Args:
        target: a folder, or ``s3://BUCKET/PREFIX``.

    Raises:
        ArchiveError: the archive cannot be read.
        ValueError: the URL is malformed.
    """
    store = store_at(os.fspath(target))
    return [store.location(file.name) for manifest in manifests(store) for file in manifest.files]
