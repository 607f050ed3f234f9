"""Operations on memory and processes: futexes, waiting for children, advice on mappings."""

from __future__ import annotations

import ctypes
import os
import struct
from typing import TYPE_CHECKING, Any

from penstock.uring._capabilities import require
from penstock.uring._native import Ring
from penstock.uring._operations.extended_attributes import NO_FILE, writable
from penstock.uring.constants import OPCODE

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Unpack

    from typing_extensions import Buffer

    from penstock._uring import Options

FUTEX2_SIZE_U32 = 0x02
FUTEX2_PRIVATE = 128
FUTEX_BITSET_MATCH_ANY = 0xFFFFFFFF
_FUTEX_WAITV = struct.Struct("=QQII")

_SIGINFO_SIZE = 128
# signo, errno, code, and after the union's alignment pid, uid, status: 64-bit Linux.
_SIGINFO = struct.Struct("=iii4xiIi")


class WaitidBuffer:
    """The output buffer of :meth:`ProcessOperations.prep_waitid`; one operation at a time."""

    def __init__(self) -> None:
        self._memory = bytearray(_SIGINFO_SIZE)

    def result(self) -> os.waitid_result | None:
        """Return what the last completed operation has written; None if no child was ready."""
        signo, _, code, pid, uid, status = _SIGINFO.unpack_from(self._memory)
        return os.waitid_result((pid, uid, signo, status, code)) if pid else None


class _Futexes(bytearray):
    """The argument of futex_waitv, with references to the futexes that it points to."""

    words: list[Any]


class ProcessOperations(Ring):
    """What a ring prepares for memory and processes.

    Each method returns the operation's ``user_data`` and takes the options that :class:`UringCtx`
    describes. ``UringError`` (EOPNOTSUPP) where the kernel lacks one.

    A futex is four aligned bytes of a writable buffer, held until the completion. ``private`` ones
    are of this process only; others may lie in shared memory.
    """

    def prep_futex_wait(
        self,
        futex: Buffer,
        value: int,
        *,
        mask: int = FUTEX_BITSET_MATCH_ANY,
        private: bool = True,
        **options: Unpack[Options],
    ) -> Any:
        """Prepare waiting to be woken; ``-EAGAIN`` if the futex has another value. Linux 6.7."""
        require("futex_wait")
        writable(futex)
        return self._prep(
            OPCODE["futex_wait"],
            _futex_flags(private),
            futex,
            0,
            offset=value & 0xFFFFFFFF,
            third_address=mask,
            **options,
        )

    def prep_futex_wake(
        self,
        futex: Buffer,
        count: int = 1,
        *,
        mask: int = FUTEX_BITSET_MATCH_ANY,
        private: bool = True,
        **options: Unpack[Options],
    ) -> Any:
        """Prepare waking at most ``count`` waiters; the result is their number. Linux 6.7."""
        require("futex_wake")
        writable(futex)
        return self._prep(
            OPCODE["futex_wake"],
            _futex_flags(private),
            futex,
            0,
            offset=count,
            third_address=mask,
            **options,
        )

    def prep_futex_waitv(
        self,
        futexes: Sequence[tuple[Buffer, int]],
        *,
        private: bool = True,
        **options: Unpack[Options],
    ) -> Any:
        """Prepare waiting for one of several (futex, value); the result is its index. Linux 6.7."""
        require("futex_waitv")
        listed = _Futexes()
        listed.words = [ctypes.c_uint32.from_buffer(futex) for futex, _ in futexes]
        for word, (_, value) in zip(listed.words, futexes, strict=True):
            listed += _FUTEX_WAITV.pack(
                value & 0xFFFFFFFF, ctypes.addressof(word), _futex_flags(private), 0
            )
        return self._prep(OPCODE["futex_waitv"], 0, listed, len(futexes), **options)

    def prep_waitid(
        self,
        idtype: int,
        id: int,
        options_: int,
        into: WaitidBuffer | None = None,
        **options: Unpack[Options],
    ) -> Any:
        """Prepare waitid(2), as ``os.waitid(idtype, id, options)``. Linux 6.7.

        After its completion ``into.result()`` describes the child.
        """
        require("waitid")
        if into is not None:
            into._memory[:] = bytes(_SIGINFO_SIZE)
        return self._prep(
            OPCODE["waitid"],
            id,
            0,
            idtype,
            offset=0 if into is None else into._memory,
            file_index=options_,
            **options,
        )

    def prep_madvise(self, memory: Buffer, advice: int, **options: Unpack[Options]) -> Any:
        """Prepare madvise(2) on an ``mmap`` or a page-aligned part of one; ``mmap.MADV_*``."""
        length = writable(memory).nbytes
        return self._prep(OPCODE["madvise"], NO_FILE, memory, length, flags=advice, **options)


def _futex_flags(private: bool) -> int:
    return FUTEX2_SIZE_U32 | (FUTEX2_PRIVATE if private else 0)
