"""Locks between processes: :func:`lock`."""

from __future__ import annotations

import errno
import fcntl
import os
import struct
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, NoReturn

import anyio

from penstock.files._backend import current_backend
from penstock.files._not_copied import refuse_to_copy

if TYPE_CHECKING:
    from collections.abc import Generator
    from types import TracebackType

    from _typeshed import StrOrBytesPath

_FLOCK = struct.Struct("hhqqi4x")  # struct flock, fcntl(2)
_OTHERS_HOLD_IT = frozenset({errno.EAGAIN, errno.EACCES})
_NOT_FOR_WRITING = frozenset({errno.EACCES, errno.EPERM, errno.EROFS, errno.ETXTBSY})


def lock(
    path: StrOrBytesPath, *, shared: bool = False, timeout: float | None = None, mode: int = 0o666
) -> FileLock:
    """Lock a file against other holders, in this process and in others.

    >>> async with files.lock("state.lock"):
    ...     ...

    The lock is advisory: it excludes only those who lock the file too. It belongs to the open file
    description (``F_OFD_SETLK``, fcntl(2)). So closing another descriptor of the file does not
    release it, as with ``fcntl.lockf``, and two tasks exclude each other as two processes do. It
    ends with ``release``, or with the process, however that ends. Forked children share it until
    they call execve(2) or exit, and cannot release it. On NFS the server keeps it. ``flock(2)`` is
    another kind of lock: the two do not exclude each other.

    The file is created if it is missing, and stays: removing it would let two holders in.

    Args:
        path: the file. To guard a file that is replaced, lock another file beside it.
        shared: whether other shared holders are allowed. An exclusive lock allows no other.
        timeout: seconds to wait; None waits forever, 0 tries once.
        mode: permissions of a file that is created, less the umask.

    Returns:
        What ``async with`` or ``await`` acquires.
    """
    if timeout is not None and timeout < 0:
        raise ValueError(f"timeout {timeout} is below 0; it is in seconds")
    return FileLock(os.fsdecode(path), shared, timeout, mode)


class FileLock:
    """What :func:`lock` returns. Await it, or enter it with ``async with``, to acquire the lock.

    Once released it can be acquired again. It is not reentrant: a holder cannot acquire it again.

    Raises:
        TimeoutError: with the path, if others have held the lock until the timeout.
        RuntimeError: if this object already holds it, or waits for it.
        OSError: if the file cannot be opened, or its file system has no locks (ENOLCK, EINVAL).

    Cancellation: a cancelled wait returns at once, and does not hold the lock.
    """

    def __init__(self, path: str, shared: bool, timeout: float | None, mode: int) -> None:
        """Call :func:`lock`, which checks the arguments."""
        self._path = path
        self._shared = shared
        self._timeout = timeout
        self._mode = mode
        self._fd = -1
        self._holder = 0  # the process
        self._busy = False

    @property
    def path(self) -> str:
        """The file."""
        return self._path

    @property
    def held(self) -> bool:
        """Whether this object holds the lock."""
        return self._fd >= 0

    def __await__(self) -> Generator[Any, Any, FileLock]:
        return self._acquire().__await__()

    async def __aenter__(self) -> FileLock:
        return await self._acquire()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.release()

    def release(self) -> None:
        """Release the lock; does nothing if it is not held. Any thread.

        In a child that was forked meanwhile it only ends the child's share: the lock is its
        parent's, which may be at work. Of a lock that a file server keeps, it waits for the server.
        """
        fd, self._fd = self._fd, -1
        if fd < 0:
            return
        try:
            # The descriptor may have copies in children, with which closing it would not do.
            if os.getpid() == self._holder:
                free = _FLOCK.pack(fcntl.F_UNLCK, os.SEEK_SET, 0, 0, 0)
                fcntl.fcntl(fd, fcntl.F_OFD_SETLK, free)
        finally:
            os.close(fd)

    def __reduce__(self) -> NoReturn:
        refuse_to_copy(self)

    def __del__(self) -> None:
        if getattr(self, "_fd", -1) >= 0:
            os.close(self._fd)

    def __repr__(self) -> str:
        kind = "shared" if self._shared else "exclusive"
        return f"<FileLock {self._path!r} {kind}{' held' if self.held else ''}>"

    async def _acquire(self) -> FileLock:
        if self._busy or self._fd >= 0:
            raise RuntimeError(
                f"this lock of {self._path!r} is held or awaited; create another one"
            )
        self._busy = True
        try:
            if self._timeout is None:
                await self._open_and_wait()
            else:
                await self._within(self._timeout)
        finally:
            self._busy = False
        return self

    async def _within(self, seconds: float) -> None:
        if seconds > 0:
            with anyio.move_on_after(seconds):
                await self._open_and_wait()
        else:
            await self._open_and_wait(once=True)
        if self._fd < 0:
            raise TimeoutError(
                errno.ETIMEDOUT, f"is still locked by others after {seconds:g} s", self._path
            )

    async def _open_and_wait(self, once: bool = False) -> None:
        backend = current_backend()
        # A shared lock needs a file that is open for reading, an exclusive one for writing.
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOCTTY
        async with AsyncExitStack() as stack:
            try:
                fd = await backend.open(self._path, flags, self._mode)
            except OSError as error:
                if not self._shared or error.errno not in _NOT_FOR_WRITING:
                    raise
                fd = await backend.open(self._path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY)
            stack.callback(backend.abandon, fd)
            kind = fcntl.F_RDLCK if self._shared else fcntl.F_WRLCK
            # Where a server keeps the lock, it is asked by a thread, unless it is asked once.
            if (backend.is_remote(fd) and not once) or not self._take(fd, kind):
                if once:
                    return
                stack.pop_all()
                await self._wait(fd, kind)
            stack.pop_all()
            self._fd = fd
            self._holder = os.getpid()

    def _take(self, fd: int, kind: int) -> bool:
        """Take the lock if it is free."""
        try:
            fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _FLOCK.pack(kind, os.SEEK_SET, 0, 0, 0))
        except OSError as error:
            if error.errno in _OTHERS_HOLD_IT:
                return False
            raise OSError(error.errno, error.strerror, self._path) from error
        return True

    async def _wait(self, fd: int, kind: int) -> None:
        """Wait for the lock; if that fails, close the descriptor, once the kernel has left it."""
        backend = current_backend()
        while True:
            waiting = backend.lock(fd, kind)
            try:
                await waiting
            except InterruptedError:
                continue
            except BaseException as error:
                waiting.when_released(lambda _: os.close(fd))
                if isinstance(error, OSError):
                    raise OSError(error.errno, error.strerror, self._path) from error
                raise
            return
