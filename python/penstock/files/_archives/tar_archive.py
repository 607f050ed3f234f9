"""``TarArchive``, and ``open_tar``, which makes one."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from anyio.abc import AsyncResource

from penstock.files._archives.compressed_file import CompressedFile, opened
from penstock.files._archives.worker_turns import WorkerTurns
from penstock.files._file_objects.opening import Opening

if TYPE_CHECKING:
    from typing import Self

    from _typeshed import StrPath

Filter = str | Callable[[tarfile.TarInfo, str], tarfile.TarInfo | None]


class TarArchive(AsyncResource):
    """A tar archive; the methods are those of ``tarfile.TarFile``, awaited.

    ``async for member in archive`` yields each ``tarfile.TarInfo`` when its header has been read.
    The calls of the archive and of its members run one at a time, each on a worker thread.
    **Cancellation**: a cancelled await returns at once, while its call is completed; the next one
    waits for it. ``extractall`` ends between two members. A cancelled
    ``close`` is completed first.
    """

    def __init__(self, archive: tarfile.TarFile) -> None:
        self._archive = archive
        self._turns = WorkerTurns()

    @property
    def name(self) -> Any:
        """The path of the archive."""
        return self._archive.name

    def __aiter__(self) -> _Members:
        return _Members(self)

    async def getmembers(self) -> list[tarfile.TarInfo]:
        """Return all members; reads the archive to its end."""
        return await self._turns.work(self._archive.getmembers)

    async def getnames(self) -> list[str]:
        """Return the names of all members; reads the archive to its end."""
        return await self._turns.work(self._archive.getnames)

    async def getmember(self, name: str) -> tarfile.TarInfo:
        """Return the last member of this name; KeyError if there is none."""
        return await self._turns.work(partial(self._archive.getmember, name))

    async def read(self, member: str | tarfile.TarInfo) -> bytes:
        """Return the content of a member that is a file.

        Raises:
            KeyError: if there is none of that name.
            ValueError: for a member that has no content, such as a folder.
        """
        return await self._turns.work(partial(self._read, member))

    def _read(self, member: str | tarfile.TarInfo) -> bytes:
        file = self._archive.extractfile(member)
        if file is None:
            name = member if isinstance(member, str) else member.name
            raise ValueError(f"{name!r} is neither a file nor a link to one")
        with file:
            return file.read()

    async def extractfile(self, member: str | tarfile.TarInfo) -> CompressedFile[bytes] | None:
        """Open a member for reading; None if it is neither a file nor a link to one."""
        file = await self._turns.work(partial(self._archive.extractfile, member))
        name = member if isinstance(member, str) else member.name
        return None if file is None else CompressedFile(file, self._turns, name)

    async def extract(
        self,
        member: str | tarfile.TarInfo,
        path: StrPath = "",
        *,
        set_attrs: bool = True,
        numeric_owner: bool = False,
        filter: Filter = "data",
    ) -> None:
        """Write a member below a folder.

        ``filter="data"`` refuses what leads out of the folder, and devices, with
        ``tarfile.FilterError``; the other filters are in the manual of ``tarfile``.
        """
        take: Callable[..., None] = self._archive.extract
        options = {"set_attrs": set_attrs, "numeric_owner": numeric_owner, "filter": filter}
        await self._turns.work(partial(take, member, os.fspath(path), **options))

    async def extractall(
        self,
        path: StrPath = ".",
        members: Iterable[tarfile.TarInfo] | None = None,
        *,
        numeric_owner: bool = False,
        filter: Filter = "data",
    ) -> None:
        """Write all members, or these, below a folder, as ``extract``."""
        folders: list[tarfile.TarInfo] = []
        for member in await self.getmembers() if members is None else members:
            # The permissions and times of folders are set last: they may forbid writing.
            folder = member.isdir()
            if folder:
                folders.append(member)
            await self.extract(
                member, path, set_attrs=not folder, numeric_owner=numeric_owner, filter=filter
            )
        for member in sorted(folders, key=lambda each: each.name, reverse=True):
            await self.extract(member, path, numeric_owner=numeric_owner, filter=filter)

    async def add(
        self,
        name: StrPath,
        arcname: StrPath | None = None,
        recursive: bool = True,
        *,
        filter: Callable[[tarfile.TarInfo], tarfile.TarInfo | None] | None = None,
    ) -> None:
        """Add a file, or a folder with all below it. ``filter`` is called on the worker thread."""
        await self._turns.work(partial(self._archive.add, name, arcname, recursive, filter=filter))

    async def addbytes(self, name: str | tarfile.TarInfo, data: bytes) -> None:
        """Add a file with this content; a ``tarfile.TarInfo`` says more than its name."""
        info = tarfile.TarInfo(name) if isinstance(name, str) else name
        info.size = len(data)
        await self._turns.work(partial(self._archive.addfile, info, io.BytesIO(data)))

    async def close(self) -> None:
        """Write the end of the archive, and close it. Does nothing the second time."""
        await self._turns.finish(self._archive.close)

    aclose = close

    def __repr__(self) -> str:
        return f"<TarArchive name={self.name!r}>"


class _Members:
    """Iterates over the members, from the first one on."""

    def __init__(self, archive: TarArchive) -> None:
        self._archive = archive
        self._following = iter(archive._archive)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> tarfile.TarInfo:
        member = await self._archive._turns.work(lambda: next(self._following, None))
        if member is None:
            raise StopAsyncIteration
        return member


def open_tar(path: StrPath, mode: str = "r", **options: Any) -> Opening[TarArchive]:
    """Open a tar archive; ``await`` the result, or use it with ``async with``.

    Args:
        path: the archive.
        mode: as for ``tarfile.open``: "r" tells the compression itself, "w:gz", "w:bz2", "w:xz"
            and "w" write, "a" adds to an archive without compression.
        options: further arguments of ``tarfile.open``, such as ``compresslevel``, ``format``.

    Cancellation: a cancelled await leaves nothing open.

    Raises:
        OSError: when awaited, with the name.
        tarfile.TarError: if it is not a tar archive, or not one of this mode.
    """

    def make() -> tarfile.TarFile:
        opening: Callable[..., tarfile.TarFile] = tarfile.open
        return opening(os.fspath(path), mode, **options)

    async def open_now() -> TarArchive:
        return TarArchive(await opened(make, lambda archive: archive.close()))

    return Opening(open_now)
