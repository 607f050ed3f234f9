"""Copying a file with several reads and writes in flight: :func:`copy`."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Literal

from penstock._durable_files import put_file
from penstock._renamed import renamed
from penstock.uring._context import UringCtx
from penstock.uring._errors import UringError, check_result, naming
from penstock.uring._native import BufferPool
from penstock.uring._whole_files.jobs import Job, run_jobs
from penstock.uring._whole_files.many import check_depth
from penstock.uring._whole_files.targets import Target, choose_target, sync_folders

if TYPE_CHECKING:
    from penstock._uring import PoolBuffer

    Path = str | bytes | os.PathLike[Any]

Mode = Literal["auto", "safe", "fast"]
SyncPolicy = Literal["default", "none", "end"]

MEBIBYTE = 1 << 20
# What "auto" lets the buffers of a copy take.
AUTO_MEMORY = 64 * MEBIBYTE
LARGEST_BLOCK = 256 * MEBIBYTE


@renamed(qd="queue_depth", progress_cb="progress")
def copy(
    src: Path,
    dst: Path,
    *,
    mode: Mode = "auto",
    queue_depth: int = 32,
    block_size: int = MEBIBYTE,
    fsync: bool = False,
    sync_policy: SyncPolicy = "default",
    buffer_size_cb: Callable[[int, int, int], int] | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> int:
    """Copy the contents of a file; ``dst`` appears, or is replaced, only when the copy is complete.

    It is written under a temporary name in the same folder. A replaced file's permissions are kept,
    and a symbolic link stays one. The source is read to its end, even if it grows meanwhile.

    Args:
        src: the file to read.
        dst: the file to write; its folder must exist.
        mode: ``"safe"`` bounds the copy to 16 blocks of at most 1 MiB in flight, ``"fast"`` has at
            least 64 blocks of at least 1 MiB, and ``"auto"`` takes as many as fit in 64 MiB.
        queue_depth: blocks in flight.
        block_size: bytes of a block.
        fsync: return only when contents and name are on the disk.
        sync_policy: ``"end"`` is the same as ``fsync=True``, ``"none"`` overrules it.
        buffer_size_cb: called with the offset, the file's size and ``block_size`` for each block;
            returns the bytes of this block.
        progress: called after each block with the bytes copied and the file's size. If it
            returns a true value the copy ends with ``UringError`` (ECANCELED).

    Returns:
        The number of bytes copied.

    Raises:
        UringError: names the file that cannot be read or written. ``dst`` is unchanged, and no
            temporary file is left. What a callback raises leaves unchanged.
        ValueError: for a bad argument, or if ``dst`` is the source itself or a device.
    """
    depth, block = _choose_shape(mode, queue_depth, block_size)
    if sync_policy not in ("default", "none", "end"):
        raise ValueError(f"sync_policy is {sync_policy!r}; it must be 'default', 'none' or 'end'")
    durable = sync_policy == "end" or (fsync and sync_policy != "none")
    with naming(src):
        source = os.open(src, os.O_RDONLY | os.O_CLOEXEC)
    try:
        with naming(src):
            about = os.fstat(source)
        if stat.S_ISDIR(about.st_mode):
            check_result(-errno.EISDIR, src)
        target = choose_target(dst)
        if target.permissions is not None and _is_same(target.final, about):
            raise ValueError(f"{target.path!r} is the source itself")
        task = _Copy(src, source, target.path, about.st_size, block)
        task.progress = progress
        task.buffer_size_cb = buffer_size_cb
        # Only a regular file can be read at several offsets at once, and only one that reports its
        # size, which files of /proc do not.
        seekable = stat.S_ISREG(about.st_mode) and about.st_size > 0
        total = _write_target(target, task, depth if seekable else None, durable)
    finally:
        os.close(source)
    if durable:
        sync_folders([target.final])
    return total


def _is_same(path: str, about: os.stat_result) -> bool:
    with naming(path):
        return os.path.samestat(os.stat(path), about)


def _write_target(target: Target, task: _Copy, depth: int | None, durable: bool) -> int:
    """Copy to a temporary name and rename; sequentially if ``depth`` is None."""
    total = 0
    filling = False

    def fill(descriptor: int) -> None:
        nonlocal total, filling
        task.target = descriptor
        filling = True
        total = task.run_in_order() if depth is None else task.run(depth)
        filling = False

    try:
        os.close(put_file(target, fill, sync=durable))
    except OSError as error:
        if filling:  # it names the source or the target already, or is a callback's own
            raise
        raise UringError(error.errno, error.strerror, target.path) from error
    return total


def _choose_shape(mode: str, queue_depth: int, block_size: int) -> tuple[int, int]:
    check_depth(queue_depth)
    if not 1 <= block_size <= LARGEST_BLOCK:
        raise ValueError(f"block_size is {block_size}; it must be from 1 to {LARGEST_BLOCK}")
    if mode == "safe":
        return min(queue_depth, 16), min(block_size, MEBIBYTE)
    if mode == "fast":
        return max(queue_depth, 64), max(block_size, MEBIBYTE)
    if mode == "auto":
        return max(1, min(queue_depth, AUTO_MEMORY // block_size)), block_size
    raise ValueError(f"mode is {mode!r}; it must be 'auto', 'safe' or 'fast'")


class _Copy:
    progress: Callable[[int, int], object] | None = None
    buffer_size_cb: Callable[[int, int, int], int] | None = None

    target = -1  # the descriptor

    def __init__(self, src: Path, source: int, dst: str, size: int, block_size: int) -> None:
        self.src = src
        self.source = source
        self.dst = dst
        self.size = size
        self.block_size = block_size
        self.done = 0

    def run(self, depth: int) -> int:
        """Copy the blocks, several at a time, then what was appended meanwhile."""
        depth = min(depth, -(-self.size // self.block_size))
        with UringCtx(depth) as ctx, BufferPool(depth, self.block_size) as pool:
            copied = run_jobs(ctx, self._blocks(ctx, pool), depth)
            wanted = sum(wanted for wanted, _ in copied)
            if self.done < wanted:
                # The source was truncated while it was read: what follows a gap is not a copy.
                end = _end_of(copied)
                with naming(self.dst):
                    os.ftruncate(self.target, end)
                return end
            run_jobs(ctx, [self._rest(ctx, self.done)], 1)
        return self.done

    def run_in_order(self) -> int:
        """Copy a source that can only be read sequentially."""
        with UringCtx(1) as ctx:
            run_jobs(ctx, [self._rest(ctx, None)], 1)
        return self.done

    def _blocks(self, ctx: UringCtx, pool: BufferPool) -> Iterator[Job[tuple[int, int]]]:
        offset = 0
        while offset < self.size:
            length = self.block_size
            if self.buffer_size_cb is not None:
                length = self.buffer_size_cb(offset, self.size, self.block_size)
                if not 1 <= length <= LARGEST_BLOCK:
                    raise ValueError(
                        f"buffer_size_cb returned {length}; it must be from 1 to {LARGEST_BLOCK}"
                    )
            length = min(length, self.size - offset)
            yield self._block(ctx, pool, offset, length)
            offset += length

    def _block(
        self, ctx: UringCtx, pool: BufferPool, offset: int, length: int
    ) -> Job[tuple[int, int]]:
        if length > self.block_size:
            memory = memoryview(bytearray(length))
            done = yield from self._transfer(ctx, memory, offset)
            return length, done
        buffer: PoolBuffer = pool.acquire()
        try:
            with memoryview(buffer) as whole, whole[:length] as memory:
                done = yield from self._transfer(ctx, memory, offset)
        finally:
            buffer.release()
        return length, done

    def _transfer(self, ctx: UringCtx, memory: memoryview, offset: int) -> Job[int]:
        filled = 0
        while filled < len(memory):
            with memory[filled:] as part:
                at = offset + filled
                count = yield lambda tag, part=part, at=at: ctx.prep_read(  # type: ignore[misc]
                    self.source, part, at, tag
                )
            check_result(count, self.src)
            if count == 0:
                break
            filled += count
        yield from self._write(ctx, memory, filled, offset)
        return filled

    def _write(self, ctx: UringCtx, memory: memoryview, length: int, offset: int) -> Job[None]:
        done = 0
        while done < length:
            with memory[done:length] as part:
                at = offset + done
                count = yield lambda tag, part=part, at=at: ctx.prep_write(  # type: ignore[misc]
                    self.target, part, at, tag
                )
            done += check_result(count, self.dst)
        self.done += length
        if length and self.progress is not None and self.progress(self.done, self.size):
            check_result(-errno.ECANCELED, self.dst)

    def _rest(self, ctx: UringCtx, offset: int | None) -> Job[None]:
        while True:
            at = -1 if offset is None else offset
            data = yield lambda tag, at=at: ctx.prep_read(self.source, self.block_size, at, tag)  # type: ignore[misc]
            check_result(data, self.src)
            if not data:
                return
            yield from self._write(ctx, memoryview(data), len(data), self.done)
            if offset is not None:
                offset += len(data)


def _end_of(copied: list[tuple[int, int]]) -> int:
    end = 0
    for wanted, done in copied:
        end += done
        if done < wanted:
            break
    return end
