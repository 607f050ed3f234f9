"""``ZipArchive``, and ``open_zip``, which makes one."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Literal

from anyio.abc import AsyncResource

from penstock.files._archives.compressed_file import CompressedFile, opened
from penstock.files._archives.worker_turns import WorkerTurns
from penstock.files._file_objects.opening import Opening

if TYPE_CHECKING:
    from _typeshed import StrPath


class ZipArchive(AsyncResource):
    """A zip archive; the methods are those of ``zipfile.ZipFile``, awaited.

    The calls of the archive and of its members run one at a time, each on a worker thread.
    **Cancellation**: a cancelled await returns at once, while its call is completed; the next one
    waits for it. ``extractall`` ends between two members. A cancelled
    ``close`` is completed first.
    """

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive
        self._turns = WorkerTurns()

    @property
    def filename(self) -> str | None:
        """The path of the archive."""
        return self._archive.filename

    @property
    def comment(self) -> bytes:
        """The archive's comment; one that is set is written by ``close``."""
        return self._archive.comment

    @comment.setter
    def comment(self, comment: bytes) -> None:
        self._archive.comment = comment

    def namelist(self) -> list[str]:
        """Return the names of the members."""
        return self._archive.namelist()

    def infolist(self) -> list[zipfile.ZipInfo]:
        """Return what is known of each member."""
        return self._archive.infolist()

    def getinfo(self, name: str) -> zipfile.ZipInfo:
        """Return what is known of a member; KeyError if there is none of that name."""
        return self._archive.getinfo(name)

    def setpassword(self, pwd: bytes | None) -> None:
        """Set the password of encrypted members."""
        self._archive.setpassword(pwd)  # type: ignore[arg-type]

    async def read(self, name: str | zipfile.ZipInfo, pwd: bytes | None = None) -> bytes:
        """Return the content of a member.

        Raises:
            KeyError: if there is none of that name.
            zipfile.BadZipFile: if its checksum is wrong.
        """
        return await self._turns.work(partial(self._archive.read, name, pwd))

    def open(
        self,
        name: str | zipfile.ZipInfo,
        mode: Literal["r", "w"] = "r",
        pwd: bytes | None = None,
        *,
        force_zip64: bool = False,
    ) -> Opening[CompressedFile[bytes]]:
        """Open a member for reading or writing; ``await`` it, or use it with ``async with``.

        A member that is being written must be closed before anything else of the archive is used.
        """

        async def open_now() -> CompressedFile[bytes]:
            file = await self._turns.work(
                lambda: self._archive.open(name, mode, pwd, force_zip64=force_zip64)
            )
            inside = name if isinstance(name, str) else name.filename
            return CompressedFile(file, self._turns, inside)

        return Opening(open_now)

    async def write(
        self,
        filename: StrPath,
        arcname: StrPath | None = None,
        compress_type: int | None = None,
        compresslevel: int | None = None,
    ) -> None:
        """Add a file or a folder's name."""
        add = self._archive.write
        await self._turns.work(partial(add, filename, arcname, compress_type, compresslevel))

    async def writestr(
        self,
        zinfo_or_arcname: str | zipfile.ZipInfo,
        data: bytes | str,
        compress_type: int | None = None,
        compresslevel: int | None = None,
    ) -> None:
        """Add a member with this content; text is encoded as UTF-8."""
        add = self._archive.writestr
        await self._turns.work(partial(add, zinfo_or_arcname, data, compress_type, compresslevel))

    async def extract(
        self,
        member: str | zipfile.ZipInfo,
        path: StrPath | None = None,
        pwd: bytes | None = None,
    ) -> str:
        """Write a member below a folder, by default the current one; returns its path.

        Names that lead out of the folder are changed, as by ``zipfile``.
        """
        return await self._turns.work(partial(self._archive.extract, member, path, pwd))

    async def extractall(
        self,
        path: StrPath | None = None,
        members: Iterable[str | zipfile.ZipInfo] | None = None,
        pwd: bytes | None = None,
    ) -> None:
        """Write all members, or these, below a folder."""
        for member in list(self.namelist() if members is None else members):
            await self.extract(member, path, pwd)

    async def testzip(self) -> str | None:
        """Read everything; returns the name of the first damaged member, or None."""
        return await self._turns.work(self._archive.testzip)

    async def close(self) -> None:
        """Write the archive's directory, and close it. Does nothing the second time."""
        await self._turns.finish(self._archive.close)

    aclose = close

    def __repr__(self) -> str:
        return f"<ZipArchive filename={self.filename!r}>"


def open_zip(
    path: StrPath,
    mode: Literal["r", "w", "x", "a"] = "r",
    compression: int = zipfile.ZIP_DEFLATED,
    *,
    allow_zip64: bool = True,
    compresslevel: int | None = None,
    strict_timestamps: bool = True,
    metadata_encoding: str | None = None,
) -> Opening[ZipArchive]:
    """Open a zip archive; ``await`` the result, or use it with ``async with``.

    The arguments are those of ``zipfile.ZipFile``, but members are compressed by default.

    Cancellation: a cancelled await leaves nothing open.

    Raises:
        OSError: when awaited, with the name.
        zipfile.BadZipFile: if it is not a zip archive.
    """

    def make() -> zipfile.ZipFile:
        return zipfile.ZipFile(
            os.fspath(path),
            mode,
            compression,
            allow_zip64,
            compresslevel,
            strict_timestamps=strict_timestamps,
            metadata_encoding=metadata_encoding,
        )

    async def open_now() -> ZipArchive:
        return ZipArchive(await opened(make, lambda archive: archive.close()))

    return Opening(open_now)
