"""An archive in a folder."""

from __future__ import annotations

import errno
import os
from functools import partial
from pathlib import Path

from penstock._durable_files import put_file, sync_folder, write_fully
from penstock.record.archives.stores import ArchiveError, StoredObject

__all__ = ["FolderStore"]


class FolderStore:
    """A :class:`~penstock.record.archives.stores.Store` of files, synced with their folders."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._folder = Path(folder)

    def __str__(self) -> str:
        return str(self._folder)

    def location(self, name: str) -> str:
        return str(self._folder / name)

    def put(self, name: str, data: bytes) -> None:
        self._put(name, data, overwrite=True)

    def create(self, name: str, data: bytes) -> bool:
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
        path = self._folder / name
        try:
            return path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._failed(path, "read", error) from error

    def list(self, folder: str) -> list[StoredObject]:
        found = []
        try:
            for here, _, names in os.walk(self._folder / folder):
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
