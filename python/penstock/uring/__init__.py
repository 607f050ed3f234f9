"""io_uring without an event loop: prepare many operations, submit once, take all completions.

:class:`UringCtx` is a ring; :class:`BufferPool` has aligned and registered buffers;
:func:`probe` says what the kernel allows. :func:`copy`, :func:`read_many` and :func:`write_many`
are complete jobs on a ring of their own.

Importing this package works everywhere. Where the kernel or a container refuses io_uring,
:class:`UringCtx` raises :class:`UringError` with the reason.
"""

from __future__ import annotations

from penstock.uring.awaiting import UringAsync
from penstock.uring.capabilities import Capabilities, probe
from penstock.uring.constants import CQE_F_BUFFER, CQE_F_MORE, CQE_F_NOTIF, CQE_F_SOCK_NONEMPTY
from penstock.uring.context import UringCtx
from penstock.uring.control_operations import EpollBuffer
from penstock.uring.copying import copy
from penstock.uring.errors import UringError, check_result
from penstock.uring.file_operations import PipeBuffer, StatxBuffer, StatxResult
from penstock.uring.native import BufferPool, BufferRing, Message
from penstock.uring.pool import UringPool
from penstock.uring.process_operations import WaitidBuffer
from penstock.uring.socket_operations import ReceivedMessage
from penstock.uring.whole_files import read_many, write_many

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
