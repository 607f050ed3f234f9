"""An archive in a bucket of an S3-compatible store."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

from penstock.record.archives.stores import ArchiveError, StoredObject
from penstock.record.errors import SinkDependencyError

__all__ = ["S3Store"]

_CONNECT = timedelta(seconds=5)
_TIMEOUT = timedelta(seconds=60)
_SECRETS = (
    "set AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION, and AWS_ENDPOINT_URL for another "
    "store than Amazon's, in the environment"
)


class S3Store:
    """A :class:`~penstock.record.archives.stores.Store` of objects, each put by one request.

    Two archivers that put one manifest are told apart by ``If-None-Match: *``, which Amazon S3 has
    since 2024, and SeaweedFS, MinIO and Ceph have too.

    Raises:
        ValueError: the URL is malformed, or holds a password.
        SinkDependencyError: the package obstore is not installed.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        if "@" in url or parts.scheme != "s3" or not parts.netloc or parts.query or parts.fragment:
            raise ValueError(f"an archive is a folder, or s3://BUCKET/PREFIX; {_SECRETS}")
        try:
            self._obstore: Any = importlib.import_module("obstore")
            stores: Any = importlib.import_module("obstore.store")
        except ImportError as error:
            raise SinkDependencyError(
                "archives in S3 need the package obstore: install it with  "
                "pip install 'penstock[archive]'"
            ) from error
        self._errors = self._obstore.exceptions
        self._url = f"s3://{parts.netloc}{parts.path}".rstrip("/")
        endpoint = os.environ.get("AWS_ENDPOINT_URL", "")
        self._store = stores.S3Store(
            parts.netloc,
            prefix=parts.path.strip("/") or None,
            client_options={
                "allow_http": endpoint.startswith("http://"),
                "connect_timeout": _CONNECT,
                "timeout": _TIMEOUT,
            },
            # The archiver tries again itself, and says so.
            retry_config={"max_retries": 1, "retry_timeout": _TIMEOUT},
        )

    def __str__(self) -> str:
        return self._url

    def location(self, name: str) -> str:
        return f"{self._url}/{name}"

    def put(self, name: str, data: bytes) -> None:
        with self._explained(name):
            self._obstore.put(self._store, name, data, use_multipart=False)

    def create(self, name: str, data: bytes) -> bool:
        with self._explained(name):
            try:
                self._obstore.put(self._store, name, data, mode="create", use_multipart=False)
            except self._errors.AlreadyExistsError:
                return False
        return True

    def read(self, name: str) -> bytes | None:
        with self._explained(name):
            try:
                return bytes(self._obstore.get(self._store, name).bytes())
            except (FileNotFoundError, self._errors.NotFoundError):
                return None

    def list(self, folder: str) -> list[StoredObject]:
        with self._explained(folder):
            found = [
                StoredObject(each["path"], each["size"], each["last_modified"].timestamp())
                for chunk in self._obstore.list(self._store, folder.rstrip("/") or None)
                for each in chunk
            ]
        return sorted(found, key=lambda each: each.name)

    def delete(self, name: str) -> None:
        with self._explained(name), suppress(FileNotFoundError, self._errors.NotFoundError):
            self._obstore.delete(self._store, name)

    @contextmanager
    def _explained(self, name: str) -> Iterator[None]:
        try:
            yield
        except (OSError, self._errors.BaseError) as error:
            reason = " ".join(str(error).partition("Debug source")[0].split())[:300]
            raise ArchiveError(
                f"{self.location(name)} cannot be reached: {reason}; {_SECRETS}"
            ) from error
