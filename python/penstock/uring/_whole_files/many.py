"""Many whole files at once: :func:`read_many`, :func:`write_many`."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from penstock._durable_files import remove_temporary, temporary_path
from penstock._renamed import renamed
from penstock.uring._context import UringCtx
from penstock.uring._errors import check_result, naming
from penstock.uring._native import read_cached_file
from penstock.uring._whole_files.jobs import Job, run_jobs
from penstock.uring._whole_files.targets import Target, choose_target, sync_folders

if TYPE_CHECKING:
    from typing_extensions import Buffer

    Path = str | bytes | os.PathLike[Any]

# A dictionary's keys are invariant: one of str keys is not a mapping of paths of all kinds.
AnyPath = TypeVar("AnyPath", bound="Path")

# For files that do not report their size.
FIRST_READ = 64 * 1024
LARGEST_READ = 8 * 1024 * 1024
LARGEST_WRITE = 1 << 30


def read_many(paths: Iterable[Path], *, queue_depth: int = 64) -> list[bytes]:
    """Read whole files and return their contents in the order of ``paths``.

    Files in the page cache, up to 2 MiB each, are read at once, without the ring. Up to
    ``queue_depth`` of the others are read concurrently.

    Raises:
        UringError: if a file cannot be read. It names the file, and is also a ``FileNotFoundError``
            or another class by its errno. Reads in progress are completed first.
    """
    check_depth(queue_depth)
    contents: list[bytes] = []
    by_ring: list[int] = []

    def jobs() -> Iterator[Job[bytes]]:
        for path in paths:
            content = read_cached_file(path)
            if isinstance(content, bytes):
                contents.append(content)
                continue
            if content != -errno.EAGAIN:
                check_result(content, path)
            by_ring.append(len(contents))
            contents.append(b"")
            yield _read_file(ctx, path)

    with UringCtx(queue_depth) as ctx:
        read = run_jobs(ctx, jobs(), queue_depth)
    for number, content in zip(by_ring, read, strict=True):
        contents[number] = content
    return contents


def _read_file(ctx: UringCtx, path: Path) -> Job[bytes]:
    result = yield partial(_open, ctx, path)
    fd = check_result(result, path)
    try:
        # fstat of an open file does not wait, and saves the read that would find the end. A size of
        # 0 means nothing: files of /proc have it.
        about = os.fstat(fd)
        size = about.st_size if stat.S_ISREG(about.st_mode) else 0
        if 0 < size <= LARGEST_READ:
            whole = yield partial(ctx.prep_read, fd, size, 0)
            if len(check_result(whole, path)) == size:
                return bytes(whole)
        parts: list[bytes] = []
        position = 0
        while True:
            wanted = LARGEST_READ if position or size > LARGEST_READ else FIRST_READ
            # Pipes have no positions.
            at = position if stat.S_ISREG(about.st_mode) else -1
            part = yield partial(ctx.prep_read, fd, wanted, at)
            check_result(part, path)
            if not part:
                return b"".join(parts)
            parts.append(part)
            position += len(part)
    finally:
        # Not an operation: a generator that is closed must not yield, and closing a file that was
        # only read does not block.
        os.close(fd)


def _open(ctx: UringCtx, path: Path, tag: int) -> object:
    return ctx.prep_openat(path, user_data=tag)


@renamed(progress_cb="progress")
def write_many(
    files: Mapping[AnyPath, Buffer] | Iterable[tuple[AnyPath, Buffer]],
    *,
    queue_depth: int = 64,
    fsync: bool = False,
    progress: Callable[[int, int], object] | None = None,
) -> int:
    """Write whole files, each of them completely or not at all.

    A file is written under a temporary name in the same folder and then renamed. A replaced file's
    permissions are kept, and a symbolic link stays one. On ext4 the kernel hands buffered writes to
    worker threads, so this is no faster than plain ``os`` calls, but the caller does not block.

    Args:
        files: contents by path, or pairs of both. Pairs are consumed as they are needed.
        queue_depth: how many files are written concurrently.
        fsync: return only when files and names are on the disk.
        progress: called with the number of files written and the number of bytes. If it returns
            a true value, no other file is begun and ``UringError`` (ECANCELED) is raised.

    Returns:
        The number of bytes written.

    Raises:
        UringError: names the file that cannot be written. Files begun before are finished.
        ValueError: if a path leads to a device or the like.
    """
    check_depth(queue_depth)
    pairs = files.items() if isinstance(files, Mapping) else files
    written: list[str] = []
    total = 0

    def finished(target: Target, size: int) -> None:
        nonlocal total
        total += size
        written.append(target.final)
        if progress is not None and progress(len(written), total):
            check_result(-errno.ECANCELED, target.path)

    def jobs() -> Iterator[Job[None]]:
        for path, data in pairs:
            yield _write_file(ctx, choose_target(path), data, fsync, finished)

    with UringCtx(queue_depth) as ctx:
        run_jobs(ctx, jobs(), queue_depth)
    if fsync:
        sync_folders(written)
    return total


def _write_file(
    ctx: UringCtx,
    target: Target,
    data: Buffer,
    fsync: bool,
    finished: Callable[[Target, int], None],
) -> Job[None]:
    temporary = temporary_path(target.final)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    opened = yield lambda tag: ctx.prep_openat(temporary, flags, user_data=tag)
    fd = check_result(opened, target.path)
    try:
        try:
            with memoryview(data) as view, view.cast("B") as content:
                done = 0
                while done < len(content):
                    part = content[done : done + LARGEST_WRITE]
                    offset = done
                    count = yield lambda tag, part=part, offset=offset: ctx.prep_write(  # type: ignore[misc]
                        fd, part, offset, tag
                    )
                    done += check_result(count, target.path)
                    part.release()
            if target.permissions is not None:
                with naming(target.path):
                    os.fchmod(fd, target.permissions)
            if fsync:
                synced = yield lambda tag: ctx.prep_fsync(fd, user_data=tag)
                check_result(synced, target.path)
        finally:
            os.close(fd)
        renamed = yield lambda tag: ctx.prep_rename(temporary, target.final, user_data=tag)
        check_result(renamed, target.path)
    except BaseException:
        remove_temporary(temporary)
        raise
    finished(target, done)


def check_depth(queue_depth: int) -> None:
    """Raise ValueError unless so many operations can be in flight."""
    if not 1 <= queue_depth <= 4096:
        raise ValueError(f"queue_depth is {queue_depth}; it must be from 1 to 4096")
