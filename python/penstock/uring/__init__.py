"""io_uring without an event loop: prepare many operations, submit once, take all completions.

:class:`UringCtx` is a ring; :class:`BufferPool` has aligned and registered buffers;
:func:`probe` says what the kernel allows. :func:`copy`, :func:`read_many` and :func:`write_many`
are complete jobs on a ring of their own.

Importing this package works everywhere. Where the kernel or a container refuses io_uring,
:class:`UringCtx` raises :class:`UringError` with the reason.
"""

from __future__ import annotations

from penstock._public_names import claim as _claim
from penstock.uring._awaiting import UringAsync
from penstock.uring._capabilities import Capabilities, probe
from penstock.uring._context import UringCtx
from penstock.uring._errors import UringError, check_result
from penstock.uring._native import BufferPool, BufferRing, Message
from penstock.uring._operations.control import EpollBuffer
from penstock.uring._operations.files import PipeBuffer, StatxBuffer, StatxResult
from penstock.uring._operations.processes import WaitidBuffer
from penstock.uring._operations.sockets import ReceivedMessage
from penstock.uring._pool import UringPool
from penstock.uring._whole_files.copying import copy
from penstock.uring._whole_files.many import read_many, write_many
from penstock.uring.constants import CQE_F_BUFFER, CQE_F_MORE, CQE_F_NOTIF, CQE_F_SOCK_NONEMPTY

__all__ = [
    "CQE_F_BUFFER",
    "CQE_F_MORE",
    "CQE_F_NOTIF",
    "CQE_F_SOCK_NONEMPTY",
    "BufferPool",
    "BufferRing",
    "Capabilities",
    "EpollBuffer",
    "Message",
    "PipeBuffer",
    "ReceivedMessage",
    "StatxBuffer",
    "StatxResult",
    "UringAsync",
    "UringCtx",
    "UringError",
    "UringPool",
    "WaitidBuffer",
    "check_result",
    "copy",
    "probe",
    "read_many",
    "write_many",
]

_claim(globals())
