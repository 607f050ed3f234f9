"""``BinaryFile.sendfile``: from a file to a stream, inside the kernel where it can."""

from __future__ import annotations

import asyncio
import ctypes
import errno
import os
import socket
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
from anyio.abc import ByteSendStream, SocketAttribute, SocketStream

from penstock.files._backend import FileBackend
from penstock.files._detached import Stop, run_whole

if TYPE_CHECKING:
    from penstock.files._file_objects.binary_file import BinaryFile

SendTarget = Any
"""A stream writer or transport of asyncio, a byte stream of AnyIO, a socket, or a binary file."""

_IN_KERNEL = 1 << 20  # bytes a step; a cancellation takes effect between two
_COPIED = 256 << 10
_CANNOT = frozenset({errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM})


async def send_range(
    backend: FileBackend, fd: int, target: SendTarget, offset: int, count: int
) -> int:
    """Send up to ``count`` bytes from ``offset`` on; returns how many the file had."""
    transport = getattr(target, "transport", target)
    if hasattr(transport, "get_extra_info"):  # uvloop's are not asyncio.BaseTransport
        return await _to_transport(backend, fd, target, transport, offset, count)
    if isinstance(target, socket.socket):
        if target.gettimeout() != 0:
            raise ValueError("the socket blocks; call setblocking(False) first")
        return await _to_descriptor(backend, fd, target, offset, count, _by_sendfile, None)
    if isinstance(target, SocketStream):
        await target.send(b"")  # raises what it raises, and waits for what is queued
        raw = target.extra(SocketAttribute.raw_socket)
        return await _to_descriptor(backend, fd, raw, offset, count, _by_sendfile, target.send)
    if isinstance(target, ByteSendStream):
        return await _copied(backend, fd, offset, count, target.send)
    if hasattr(target, "fileno") and hasattr(target, "pwrite"):
        return await _to_file(backend, fd, target, offset, count)
    raise TypeError(
        f"sendfile() cannot send to {type(target).__name__}: give it a stream, a transport, a"
        " socket or a binary file"
    )


async def _copied(
    backend: FileBackend,
    fd: int,
    offset: int,
    count: int,
    write: Callable[[bytes], Awaitable[Any]],
) -> int:
    """Read and write in pieces."""
    sent = 0
    while sent < count:
        data = await backend.read(fd, min(_COPIED, count - sent), offset + sent)
        if not data:
            break
        await write(data)
        sent += len(data)
    return sent


# ---- descriptors that do not block --------------------------------------------------------------


def _by_sendfile(target: int, fd: int, offset: int, count: int) -> int:
    return os.sendfile(target, fd, offset, count)


def _by_splice(target: int, fd: int, offset: int, count: int) -> int:
    flags = os.SPLICE_F_NONBLOCK | os.SPLICE_F_MORE
    return os.splice(fd, target, count, offset_src=offset, flags=flags)


async def _to_descriptor(
    backend: FileBackend,
    fd: int,
    target: Any,
    offset: int,
    count: int,
    send: Callable[[int, int, int, int], int],
    write: Callable[[bytes], Awaitable[Any]] | None,
) -> int:
    """Send on a worker, which may wait for the disk, and wait for the target on the loop.

    ``write`` takes over where the kernel cannot send this file.
    """
    # A number of its own: a target that another task closes is not replaced by another file, and
    # asyncio watches no descriptor of a transport.
    number = os.dup(target.fileno())
    sent = 0
    try:
        while sent < count:
            work = partial(send, number, fd, offset + sent, min(_IN_KERNEL, count - sent))
            done = await run_whole(partial(_one_step, backend, work))
            if done is None:
                await anyio.wait_writable(number)
            elif done:
                sent += done
            else:
                break
    except OSError as error:
        if write is None or sent or error.errno not in _CANNOT:
            raise
    else:
        return sent
    finally:
        os.close(number)
    return await _copied(backend, fd, offset, count, write)


async def _one_step(backend: FileBackend, work: Callable[[], int], stop: Stop) -> int | None:
    """Return how much was sent; None if the target has no room."""
    try:
        return await stop.step(backend.call(work))
    except BlockingIOError:
        return None


async def _to_file(
    backend: FileBackend, fd: int, target: BinaryFile, offset: int, count: int
) -> int:
    if target.seekable() or not target.writable():
        return await _copied(backend, fd, offset, count, target.write)
    await target.flush()
    return await _to_descriptor(backend, fd, target, offset, count, _by_splice, _flushed(target))


def _flushed(target: BinaryFile) -> Callable[[bytes], Awaitable[Any]]:
    async def write(data: bytes) -> None:
        await target.write(data)
        await target.flush()

    return write


# ---- transports of asyncio ----------------------------------------------------------------------


class _Range:
    """The file as ``loop.sendfile`` wants it: it is only asked for its descriptor."""

    mode = "rb"

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def fileno(self) -> int:
        return self._fd

    def seek(self, offset: int) -> None:
        """The position of the file does not move."""


async def _to_transport(
    backend: FileBackend,
    fd: int,
    writer: Any,
    transport: Any,
    offset: int,
    count: int,
) -> int:
    """Send by the loop, each piece when it is in the page cache: the loop must not wait for it."""
    sent = 0
    loop = asyncio.get_running_loop()
    native = (
        transport.get_extra_info("socket") is not None
        and transport.get_extra_info("ssl_object") is None
    )
    while native and sent < count:
        size = min(_IN_KERNEL, count - sent)
        if backend.should_yield(size):
            await backend.yield_now()
        size = await _populated(backend, fd, offset + sent, size)
        if not size:
            break
        try:
            done = await loop.sendfile(
                transport,
                _Range(fd),  # type: ignore[arg-type]
                offset + sent,
                size,
                fallback=False,
            )
        except (NotImplementedError, asyncio.SendfileNotAvailableError):  # uvloop; the file
            break
        if not done:
            break
        sent += done
    if sent == count:
        return sent
    drain = writer.drain if hasattr(writer, "drain") else partial(_drained, transport)

    async def write(data: bytes) -> None:
        if transport.is_closing():
            raise ConnectionResetError("the connection is closed")
        writer.write(data)
        await drain()

    return sent + await _copied(backend, fd, offset + sent, count - sent, write)


async def _drained(transport: Any) -> None:
    """Wait until a transport without a stream has sent what is queued; it tells its protocol only.

    A protocol is another's, so the size of the queue is asked for.
    """
    pause = 0.0005
    while transport.get_write_buffer_size() > _COPIED:
        await anyio.sleep(pause)
        pause = min(2 * pause, 0.02)


# ---- the page cache -----------------------------------------------------------------------------


class _CacheRange(ctypes.Structure):
    _fields_ = (("offset", ctypes.c_uint64), ("length", ctypes.c_uint64))


class _CacheCounts(ctypes.Structure):
    _fields_ = tuple(
        (name, ctypes.c_uint64)
        for name in ("cached", "dirty", "writeback", "evicted", "recently_evicted")
    )


_CACHESTAT = 451  # on every architecture, from Linux 6.5 on
_PAGE = os.sysconf("SC_PAGESIZE")
_libc = ctypes.CDLL(None, use_errno=True)


def _is_cached(fd: int, offset: int, size: int) -> bool:
    begin = offset - offset % _PAGE
    pages = (offset + size - begin + _PAGE - 1) // _PAGE
    counts = _CacheCounts()
    wanted = _CacheRange(begin, pages * _PAGE)
    done = _libc.syscall(
        ctypes.c_long(_CACHESTAT),
        ctypes.c_int(fd),
        ctypes.byref(wanted),
        ctypes.byref(counts),
        ctypes.c_uint(0),
    )
    return bool(done == 0 and counts.cached >= pages)


async def _populated(backend: FileBackend, fd: int, offset: int, size: int) -> int:
    """Bring a range into the page cache; returns its size, which the end of the file may cut."""
    size = min(size, max(backend.describe(fd)[1] - offset, 0))
    if size and not _is_cached(fd, offset, size):
        size = len(await backend.read(fd, size, offset))
    return size
