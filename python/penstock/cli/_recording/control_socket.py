"""The socket ``recorder.sock`` in the folder of a running recording, and both of its ends.

Other processes of this machine reach the recorder by it (unix(7)). Its mode is 0660: owner and
group may connect, as they may write the files.

A recorder that was killed leaves the name of its socket. The next one in the folder takes it, if
nobody listens there. A lock of the folder (flock(2)) keeps two recorders from doing so at the same
time.

A socket's path has at most 107 bytes. Both ends therefore open the folder and go through
``/proc/self/fd``, so that the folder's own path may have any length.
"""

from __future__ import annotations

import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from penstock.cli._socket_file import SocketFile, remove_abandoned

SOCKET_NAME = "recorder.sock"


@contextmanager
def listening_in(folder: Path) -> Iterator[socket.socket]:
    """A non-blocking socket that listens in ``folder``; its name is removed at the end.

    Raises:
        OSError: EADDRINUSE if another recorder listens there, EEXIST if the name is that of
            something else than a socket.
    """
    with _opened(folder) as (descriptor, name), socket.socket(socket.AF_UNIX) as listener:
        listener.setblocking(False)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        try:
            remove_abandoned(name)
            listener.bind(name)
            own = SocketFile(name)
            try:
                # Nobody can connect before listen().
                os.chmod(name, 0o660)
                listener.listen(16)
            except BaseException:
                os.unlink(name)
                raise
        finally:
            fcntl.flock(descriptor, fcntl.LOCK_UN)
        try:
            yield listener
        finally:
            own.remove()


@contextmanager
def connected_to(folder: Path, timeout: float) -> Iterator[socket.socket]:
    """A connection to the recorder that runs in ``folder``.

    Args:
        folder: the folder of the recording.
        timeout: seconds for the connection and for each call of the socket.

    Raises:
        OSError: ENOENT or ECONNREFUSED if no recorder runs there, EACCES if this user may not
            connect.
        TimeoutError: the recorder accepts no connection.
    """
    with _opened(folder) as (_, name), socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(timeout)
        connection.connect(name)
        yield connection


@contextmanager
def _opened(folder: Path) -> Iterator[tuple[int, str]]:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield descriptor, f"/proc/self/fd/{descriptor}/{SOCKET_NAME}"
    finally:
        os.close(descriptor)
