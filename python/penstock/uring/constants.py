"""Numbers of io_uring(7).

Opcodes and flags are the kernel's (include/uapi/linux/io_uring.h), and never change.
"""

from __future__ import annotations

from typing import Final

CQE_F_BUFFER: Final = 1 << 0
"""The completion names a buffer of a :class:`BufferRing`."""
CQE_F_MORE: Final = 1 << 1
"""More completions of the same operation will come."""
CQE_F_SOCK_NONEMPTY: Final = 1 << 2
"""The socket has more to read."""
CQE_F_NOTIF: Final = 1 << 3
"""A zero-copy send no longer needs its data."""

SETUP_IOPOLL: Final = 1 << 0
SETUP_SQPOLL: Final = 1 << 1
SETUP_SQ_AFF: Final = 1 << 2
SETUP_CQSIZE: Final = 1 << 3
SETUP_SUBMIT_ALL: Final = 1 << 7
SETUP_COOP_TASKRUN: Final = 1 << 8
SETUP_TASKRUN_FLAG: Final = 1 << 9
SETUP_SINGLE_ISSUER: Final = 1 << 12
SETUP_DEFER_TASKRUN: Final = 1 << 13

OPCODES: Final = (
    *("nop", "readv", "writev", "fsync", "read_fixed", "write_fixed", "poll_add", "poll_remove"),
    *("sync_file_range", "sendmsg", "recvmsg", "timeout", "timeout_remove", "accept"),
    *("async_cancel", "link_timeout", "connect", "fallocate", "openat", "close", "files_update"),
    *("statx", "read", "write", "fadvise", "madvise", "send", "recv", "openat2", "epoll_ctl"),
    *("splice", "provide_buffers", "remove_buffers", "tee", "shutdown", "renameat", "unlinkat"),
    *("mkdirat", "symlinkat", "linkat", "msg_ring", "fsetxattr", "setxattr", "fgetxattr"),
    *("getxattr", "socket", "uring_cmd", "send_zc", "sendmsg_zc", "read_multishot", "waitid"),
    *("futex_wait", "futex_wake", "futex_waitv", "fixed_fd_install", "ftruncate", "bind", "listen"),
    *("recv_zc", "epoll_wait", "readv_fixed", "writev_fixed", "pipe", "nop128", "uring_cmd128"),
)
"""Names of the operations, by opcode."""

OPCODE: Final = {name: opcode for opcode, name in enumerate(OPCODES)}

SINCE: Final = {
    **dict.fromkeys(("fsetxattr", "setxattr", "fgetxattr", "getxattr", "uring_cmd"), "5.19"),
    "sendmsg_zc": "6.1",
    **dict.fromkeys(("waitid", "futex_wait", "futex_wake", "futex_waitv"), "6.7"),
    **dict.fromkeys(("epoll_wait", "readv_fixed", "writev_fixed"), "6.15"),
    "pipe": "6.16",
}
"""The first Linux with an operation, for messages only: :func:`penstock.uring.probe` decides."""

RESOLVE_NO_XDEV: Final = 0x01
RESOLVE_NO_MAGICLINKS: Final = 0x02
RESOLVE_NO_SYMLINKS: Final = 0x04
RESOLVE_BENEATH: Final = 0x08
RESOLVE_IN_ROOT: Final = 0x10
RESOLVE_CACHED: Final = 0x20
"""How openat2(2) follows a path."""
