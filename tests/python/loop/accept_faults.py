"""Makes accept4(2) of this process fail as the kernel would, a given number of times.

Real ENFILE and ECONNABORTED errors would harm the machine. A seccomp filter passes each accept4 to
a second process, which answers with an error or lets the kernel execute the call.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import platform
import signal
import struct
from collections.abc import Iterator
from contextlib import contextmanager

# accept4, seccomp, and the architecture's number in seccomp's data; see syscall(2), audit.h.
_NUMBERS = {"x86_64": (288, 317, 0xC000003E), "aarch64": (242, 277, 0xC00000B7)}

_PR_SET_NO_NEW_PRIVS = 38
_SECCOMP_SET_MODE_FILTER = 1
_SECCOMP_FILTER_FLAG_NEW_LISTENER = 1 << 3
_RET_USER_NOTIF = 0x7FC00000
_RET_ALLOW = 0x7FFF0000
_USER_NOTIF_FLAG_CONTINUE = 1
_IOCTL_NOTIF_RECV = 0xC0502100  # struct seccomp_notif: 80 bytes
_IOCTL_NOTIF_SEND = 0xC0182101  # struct seccomp_notif_resp: 24 bytes


class Unavailable(Exception):
    """This kernel or container does not allow seccomp supervision."""


class _Filter(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p)]


def _instruction(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)


def _install() -> int:
    """Filter this thread; return the descriptor that reports each accept4."""
    try:
        accept4, seccomp, architecture = _NUMBERS[platform.machine()]
    except KeyError:
        raise Unavailable(f"system call numbers of {platform.machine()} are not known") from None
    load, jump_if_equal, answer = 0x20, 0x15, 0x06
    program = b"".join(
        [
            _instruction(load, 4),
            _instruction(jump_if_equal, architecture, if_false=3),
            _instruction(load, 0),
            _instruction(jump_if_equal, accept4, if_false=1),
            _instruction(answer, _RET_USER_NOTIF),
            _instruction(answer, _RET_ALLOW),
        ]
    )
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise Unavailable(os.strerror(ctypes.get_errno()))
    filter = _Filter(len(program) // 8, program)
    fd: int = libc.syscall(
        seccomp,
        _SECCOMP_SET_MODE_FILTER,
        _SECCOMP_FILTER_FLAG_NEW_LISTENER,
        ctypes.byref(filter),
    )
    if fd < 0:
        raise Unavailable(os.strerror(ctypes.get_errno()))
    return fd


def _supervise(fd: int, error: int, times: int) -> None:
    while True:
        request = bytearray(80)
        try:
            fcntl.ioctl(fd, _IOCTL_NOTIF_RECV, request)
            (number,) = struct.unpack_from("=Q", request)
            fails = times > 0
            result, flags = (-error, 0) if fails else (0, _USER_NOTIF_FLAG_CONTINUE)
            fcntl.ioctl(fd, _IOCTL_NOTIF_SEND, struct.pack("=QqiI", number, 0, result, flags))
            times -= fails
        except OSError as exc:
            # A signal interrupted the supervised call, which is repeated.
            if exc.errno not in (errno.EINTR, errno.ENOENT):
                raise


@contextmanager
def accept_fails(error: int, times: int) -> Iterator[None]:
    """Make the first `times` calls of accept4 in this thread fail with `error`. The filter cannot
    be removed, so the process must end with the block. Raises `Unavailable`."""
    fd = _install()
    supervisor = os.fork()
    if supervisor == 0:
        try:
            _supervise(fd, error, times)
        finally:
            os._exit(1)
    os.close(fd)
    try:
        yield
    finally:
        os.kill(supervisor, signal.SIGKILL)
        os.waitpid(supervisor, 0)
