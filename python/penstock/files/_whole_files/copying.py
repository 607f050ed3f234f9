"""Copying a file, inside the kernel where possible."""

from __future__ import annotations

import errno
import fcntl
import functools
import os
import stat
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock._durable_files import PERMISSIONS
from penstock.files._backend import FileBackend, current_backend
from penstock.files._detached import Stop, run_whole
from penstock.files._whole_files.replacement import replace_file

if TYPE_CHECKING:
    from _typeshed import StrOrBytesPath

Progress = Callable[[int, int], object]

FICLONE = 0x40049409  # ioctl_ficlone(2)
_PIECE = 8 << 20
_BUFFER = 1 << 20
_BLOCK = 512  # the unit of st_blocks, stat(2)

# Errors that mean: these files cannot share extents, so their bytes must be copied.
_NO_CLONE = frozenset(
    {
        errno.EBADF,
        errno.EINVAL,
        errno.EISDIR,
        errno.ENOSYS,
        errno.ENOTTY,
        errno.EOPNOTSUPP,
        errno.EPERM,
        errno.ETXTBSY,
        errno.EXDEV,
    }
)
# Errors that mean: the kernel cannot copy between these files, so they are read and written.
_NO_COPY_RANGE = frozenset(
    {errno.EBADF, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM, errno.EXDEV}
)


async def copy(
    source: StrOrBytesPath,
    target: StrOrBytesPath,
    *,
    progress: Progress | None = None,
    sync: bool = True,
) -> int:
    """Copy the file ``source`` to ``target``, and return its size in bytes.

    The target appears when the copy is complete, and replaces a file of that name in one step, as
    with ``write_file(atomic=True)``. It gets the permissions of the source, without set-user-ID
    bits. Owner, times and extended attributes are not copied.

    Where the file system can, the copy shares the source's blocks (``FICLONE``: Btrfs, XFS) and
    takes no time and no space. Otherwise the kernel copies (``copy_file_range(2)``), or, where it
    cannot, the bytes are read and written. Holes of a sparse source stay holes.

    If the source is written meanwhile, the copy mixes old and new data. If it is truncated, the
    copy is shorter.

    Args:
        source: a regular file; a symbolic link is followed.
        target: the file's name, not its folder's; a symbolic link is followed.
        progress: called on the loop with the bytes copied so far and the source's size, after each
            8 MiB at most, and at the end. An exception of it ends the copy.
        sync: make the copy durable before it gets its name. Without it a power cut soon after may
            leave an empty or partial target; a crash of the program does not.

    Cancellation: ends after the current piece of at most 8 MiB. The target is unchanged, or the
    complete copy if the rename had begun. No temporary file is left.

    Raises:
        OSError: with a file's name; also if the source is not a regular file.
        shutil.SameFileError: if both are the same file.
    """
    source_name, target_name = os.fsdecode(source), os.fsdecode(target)
    backend = current_backend()

    async def work(stop: Stop) -> int:
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK
        try:
            source_fd = await stop.step(backend.open(source_name, flags))
        except OSError as error:
            if error.errno == errno.ENXIO:  # a socket, or a device that is not there
                raise _not_regular(source_name) from error
            raise
        try:
            found = await stop.step(
                backend.call(lambda: _examine(source_fd, source_name, target_name))
            )
            copying = _Copying(backend, stop, found, progress)
            return await replace_file(
                backend, stop, target_name, copying.into, mode=0o600, keep_mode=False, sync=sync
            )
        finally:
            await backend.close(source_fd)

    return await run_whole(work)


@dataclass(frozen=True)
class _Source:
    fd: int
    name: str
    size: int
    sparse: bool
    permissions: int


def _not_regular(source: str) -> OSError:
    return OSError(errno.EINVAL, "is not a regular file; only regular files can be copied", source)


def _examine(fd: int, source: str, target: str) -> _Source:
    status = os.fstat(fd)
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), source)
    if not stat.S_ISREG(status.st_mode):
        raise _not_regular(source)
    try:
        same = os.path.samestat(status, os.stat(target))
    except OSError:
        same = False
    if same:
        from shutil import SameFileError  # a heavy import for a rare error

        raise SameFileError(f"{source!r} and {target!r} are the same file")
    return _Source(
        fd,
        source,
        status.st_size,
        sparse=status.st_blocks * _BLOCK < status.st_size,
        permissions=stat.S_IMODE(status.st_mode) & PERMISSIONS,
    )


def _prepare(source: _Source, target_fd: int) -> bool:
    """Set the target's permissions, and share the source's blocks; return whether that worked."""
    os.fchmod(target_fd, source.permissions)
    if not source.size:
        return False
    try:
        fcntl.ioctl(target_fd, FICLONE, source.fd)
    except OSError as error:
        if error.errno not in _NO_CLONE:
            raise
        return False
    return True


def _next_data(source: _Source, position: int) -> tuple[int, int]:
    """Return begin and end of the first data at or after ``position``; twice the end if none.

    Moves the file's position, which nothing else here uses.
    """
    try:
        begin = os.lseek(source.fd, position, os.SEEK_DATA)
        end = os.lseek(source.fd, begin, os.SEEK_HOLE)
        return min(begin, source.size), min(end, source.size)
    except OSError as error:
        if error.errno == errno.ENXIO:
            # Only a hole is left, or the source has been truncated.
            end = min(os.fstat(source.fd).st_size, source.size)
            return end, end
        if error.errno == errno.EINVAL:  # a file system that does not report holes
            return position, source.size
        raise


class _Copying:
    """A copy in progress."""

    def __init__(
        self, backend: FileBackend, stop: Stop, source: _Source, progress: Progress | None
    ) -> None:
        self._backend = backend
        self._stop = stop
        self._source = source
        self._progress = progress
        # Files of the kernel's own (/proc) report size 0; only reading shows their content.
        self._by_kernel = source.size > 0

    async def into(self, target_fd: int) -> int:
        """Copy everything; return the number of bytes."""
        source = self._source
        if await self._stop.step(self._backend.call(lambda: _prepare(source, target_fd))):
            copied = source.size
        elif not source.size:
            copied = await self._copy_span(target_fd, 0, sys.maxsize)
        elif not source.sparse:
            copied = await self._copy_span(target_fd, 0, source.size)
        else:
            copied = await self._copy_data(target_fd)
        self._report(copied)
        return copied

    async def _copy_data(self, target_fd: int) -> int:
        """Copy the data between the holes."""
        source = self._source
        position, end = 0, 0
        while position == end < source.size:
            begin, end = await self._stop.step(
                self._backend.call(functools.partial(_next_data, source, position))
            )
            position = await self._copy_span(target_fd, begin, end)
            if begin == end:
                break
        await self._stop.step(self._backend.truncate(target_fd, position))
        return position

    async def _copy_span(self, target_fd: int, begin: int, end: int) -> int:
        """Copy from ``begin`` to ``end``, or to the end of a truncated source; return the end."""
        position = begin
        while position < end:
            if position > begin:
                self._report(position)
            copied = await self._copy_piece(target_fd, position, end - position)
            if not copied:
                break
            position += copied
        return position

    async def _copy_piece(self, target_fd: int, position: int, left: int) -> int:
        source = self._source
        if self._by_kernel:
            try:
                copied = await self._stop.step(
                    self._backend.copy_range(source.fd, target_fd, position, min(left, _PIECE))
                )
            except OSError as error:
                if error.errno not in _NO_COPY_RANGE:
                    raise
                self._by_kernel = False
            else:
                if copied:
                    return copied
                # The end, or a file system whose files the kernel cannot copy: reading shows which.
        try:
            data = await self._stop.step(
                self._backend.read(source.fd, min(left, _BUFFER), position)
            )
        except OSError as error:
            raise OSError(error.errno, error.strerror, source.name) from error
        if data:
            await self._stop.step(self._backend.write(target_fd, data, position))
        return len(data)

    def _report(self, copied: int) -> None:
        if self._progress is not None:
            self._progress(copied, self._source.size)
