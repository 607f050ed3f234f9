"""Where an archive is: a folder, or a bucket of an S3-compatible store."""

from __future__ import annotations

from penstock.record.archives.folder_store import FolderStore
from penstock.record.archives.s3_store import S3Store
from penstock.record.archives.stores import Store

__all__ = ["store_at"]


def store_at(target: str) -> Store:
    """The store of ``s3://BUCKET/PREFIX``, or of a folder.

    Raises:
        ValueError: the URL is malformed.
        SinkDependencyError: a package is missing.
    """
    return S3Store(target) if "://" in target else FolderStore(target)
