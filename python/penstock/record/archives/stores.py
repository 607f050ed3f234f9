"""Stores of archives: folders, and buckets of S3-compatible stores."""

from __future__ import annotations

import errno
import importlib
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from penstock._durable_files import put_file, sync_folder, write_fully
from penstock.record.addresses import scheme_of
from penstock.record.errors import RecordError, SinkDependencyError

__all__ = ["ArchiveError", "S3Store", "Store", "StoredObject", "store_at"]


class ArchiveError(RecordError):
    """The store of an archive does not take, or does not give, what it is asked for."""


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object in a store.

    Attributes:
        name: relative to the archive, with ``/``.
        size: bytes.
        modified: Unix time in seconds, by the store's clock.
    """

    name: str
    size: int
    modified: float


class Store(Protocol):
    """Named objects, each complete or not there. Methods block, and raise ArchiveError.

    An object is durable when its call returns. Any thread may call, one at a time.
    """

    def put(self, name: str, data: bytes) -> None:
        """Create or replace an object, in one step."""

    def create(self, name: str, data: bytes) -> bool:
        """Create an object; False if there is one of this name, which then stays."""

    def read(self, name: str) -> bytes | None:
        """An object; None if it is not there."""

    def list(self, folder: str) -> list[StoredObject]:
        """All objects below a folder, in the order of their names."""

    def delete(self, name: str) -> None:
        """Remove an object; nothing happens if it is not there."""

    def location(self, name: str) -> str:
        """The path or URL of an object."""


# An archive in a folder.


class FolderStore:
    """A :class:`~penstock.record.archives.stores.Store` of files, synced with their folders."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._folder = Path(folder)

    def __str__(self) -> str:
        return str(self._folder)

    def location(self, name: str) -> str:
        """The path of the object ``name``, which need not exist."""
        return str(self._folder / name)

    def put(self, name: str, data: bytes) -> None:
        """Create or replace an object in one step; durable on return. ArchiveError if it fails."""
        self._put(name, data, overwrite=True)

    def create(self, name: str, data: bytes) -> bool:
        """Create an object; False if there is one of this name, which then stays. ArchiveError."""
        try:
            self._put(name, data, overwrite=False)
        except FileExistsError:
            return False
        return True

    def _put(self, name: str, data: bytes, *, overwrite: bool) -> None:
        path = self._folder / name
        try:
            self._make_folder(path.parent)
            fill = partial(write_fully, data=data)
            os.close(put_file(path, fill, overwrite=overwrite))
            sync_folder(str(path))
        except FileExistsError:
            raise
        except OSError as error:
            raise self._failed(path, "written", error) from error

    def _make_folder(self, folder: Path) -> None:
        if not folder.is_dir():
            self._make_folder(folder.parent)
            try:
                folder.mkdir(exist_ok=True)
            except FileExistsError as error:
                raise NotADirectoryError(
                    errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder)
                ) from error
            sync_folder(str(folder))

    def read(self, name: str) -> bytes | None:
        """The bytes of an object; None if it is not there. ArchiveError if it cannot be read."""
        path = self._folder / name
        try:
            return path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._failed(path, "read", error) from error

    def list(self, folder: str) -> list[StoredObject]:
        """All objects below ``folder``, in the order of their names. ArchiveError."""
        found = []
        try:
            for here, _, names in os.walk(self._folder / folder, onerror=_fail):
                for name in names:
                    if name.startswith("."):
                        continue  # not yet complete
                    path = Path(here, name)
                    try:
                        stat = path.stat()
                    except FileNotFoundError:
                        continue  # removed meanwhile, by another archiver
                    relative = path.relative_to(self._folder).as_posix()
                    found.append(StoredObject(relative, stat.st_size, stat.st_mtime))
        except OSError as error:
            raise self._failed(self._folder / folder, "read", error) from error
        return sorted(found, key=lambda each: each.name)

    def delete(self, name: str) -> None:
        """Remove an object; do nothing if it is not there. ArchiveError if it cannot be removed."""
        path = self._folder / name
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise self._failed(path, "removed", error) from error

    def _failed(self, path: Path, done: str, error: OSError) -> ArchiveError:
        return ArchiveError(
            f"{path} cannot be {done}: {error.strerror or error}; check the space and who may "
            f"write in {self._folder}"
        )


def _fail(error: OSError) -> None:
    """A folder that cannot be listed is not an empty one, as os.walk alone takes it to be."""
    if not isinstance(error, FileNotFoundError):
        raise error


# An archive in a bucket of an S3-compatible store.

_CONNECT = timedelta(seconds=5)
_TIMEOUT = timedelta(seconds=60)
# A page of a listing, asked for twice.
_LONGEST_QUIET = timedelta(seconds=180)
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
                "allow_http": scheme_of(endpoint) == "http",
                "connect_timeout": _CONNECT,
                "timeout": _TIMEOUT,
            },
            # The archiver tries again itself, and says so.
            retry_config={"max_retries": 1, "retry_timeout": _TIMEOUT},
        )

    def __str__(self) -> str:
        return self._url

    def location(self, name: str) -> str:
        """The URL of the object ``name``, which need not exist."""
        return f"{self._url}/{name}"

    def put(self, name: str, data: bytes) -> None:
        """Create or replace an object in one step; durable on return. ArchiveError if it fails."""
        with self._explained(name):
            self._obstore.put(self._store, name, data, use_multipart=False)

    def create(self, name: str, data: bytes) -> bool:
        """Create an object; False if there is one of this name, which then stays. ArchiveError."""
        with self._explained(name):
            try:
                self._obstore.put(self._store, name, data, mode="create", use_multipart=False)
            except self._errors.AlreadyExistsError:
                return False
        return True

    def read(self, name: str) -> bytes | None:
        """The bytes of an object; None if it is not there. ArchiveError if it cannot be read."""
        with self._explained(name):
            try:
                return bytes(self._obstore.get(self._store, name).bytes())
            except (FileNotFoundError, self._errors.NotFoundError):
                return None

    def list(self, folder: str) -> list[StoredObject]:
        """All objects below ``folder``, in the order of their names.

        Raises:
            ArchiveError: the store does not answer, or its listing does not end.
        """
        # Here, because a folder needs neither, and a small query would wait for their import.
        import asyncio
        from concurrent.futures import ThreadPoolExecutor

        # In a thread of its own, since the caller's may run a loop.
        with self._explained(folder), ThreadPoolExecutor(1) as thread:
            found = thread.submit(asyncio.run, self._listed(folder)).result()
        return sorted(found.values(), key=lambda each: each.name)

    def delete(self, name: str) -> None:
        """Remove an object; do nothing if it is not there. ArchiveError if it cannot be removed."""
        with self._explained(name), suppress(FileNotFoundError, self._errors.NotFoundError):
            self._obstore.delete(self._store, name)

    # A listing comes in pages, and each page names the next one. obstore ends at a page that names
    # none, even if more is to come, and never ends if each page names another. So a listing that
    # has ended is asked for what follows its last name, until nothing follows.

    async def _listed(self, folder: str) -> dict[str, StoredObject]:
        found: dict[str, StoredObject] = {}
        after: str | None = None
        while True:
            known = len(found)
            await self._list_after(folder, after, found)
            if len(found) == known:
                return found
            after = max(found)

    async def _list_after(
        self, folder: str, after: str | None, found: dict[str, StoredObject]
    ) -> None:
        """Add the objects of one listing, those after the name ``after``."""
        import asyncio

        where, quiet = self.location(folder), _LONGEST_QUIET.total_seconds()
        told: set[str] = set()
        chunks = aiter(self._obstore.list(self._store, folder.rstrip("/") or None, offset=after))
        while True:
            try:
                async with asyncio.timeout(quiet):
                    chunk = await anext(chunks)
            except StopAsyncIteration:
                return
            except TimeoutError as error:
                raise ArchiveError(
                    f"the listing of {where} does not end: {len(told)} objects, and no further one "
                    f"for {quiet:g} s; check the store"
                ) from error
            for each in chunk:
                name = each["path"]
                if name in told:
                    raise ArchiveError(
                        f"the listing of {where} does not end: it names {name} again, after "
                        f"{len(told)} objects; check the store"
                    )
                told.add(name)
                modified = each["last_modified"].timestamp()
                found[name] = StoredObject(name, each["size"], modified)

    @contextmanager
    def _explained(self, name: str) -> Iterator[None]:
        try:
            yield
        except (OSError, self._errors.BaseError) as error:
            reason = " ".join(str(error).partition("Debug source")[0].split())[:300]
            raise ArchiveError(
                f"{self.location(name)} cannot be reached: {reason}; {_SECRETS}"
            ) from error


# Where an archive is: a folder, or a bucket of an S3-compatible store.


def store_at(target: str) -> Store:
    """The store of ``s3://BUCKET/PREFIX``, or of a folder.

    Raises:
        ValueError: the URL is malformed.
        SinkDependencyError: a package is missing.
    """
    return S3Store(target) if scheme_of(target) else FolderStore(target)
