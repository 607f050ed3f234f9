"""One operation at a time: prepared, submitted and waited for in one call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.uring._errors import check_result
from penstock.uring._native import Ring
from penstock.uring.constants import CQE_F_MORE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from typing_extensions import Buffer

    from penstock._uring import Fd


class _Call:
    """The private ``user_data`` of an operation."""


class SingleOperations(Ring):
    """Methods that do one operation and return its result.

    Operations that were prepared before are submitted too; an open chain of them is refused with
    ``ValueError``. Their completions are kept for :meth:`completions`. An exception, such as that
    of a signal handler, cancels the operation; its buffers are free when the exception leaves.
    """

    def run(self, prepare: Callable[..., object], *arguments: Any, **options: Any) -> Any:
        """Prepare an operation by a ``prep_`` method of this ring, wait, and return its result.

        ``fd = ctx.run(ctx.prep_openat, "name")``. If the operation has several completions, waits
        for the last one and returns the result of the first.

        Raises:
            UringError: if the operation fails.
        """
        self.submit()
        call = _Call()
        prepare(*arguments, user_data=call, **options)
        try:
            _, result, flags = self._wait_for(call)
            while flags & CQE_F_MORE:
                _, _, flags = self._wait_for(call)
        except BaseException:
            self._end(call)
            raise
        return check_result(result)

    def read(self, fd: Fd, length: int, offset: int = -1) -> bytes:
        """Read up to ``length`` bytes at ``offset``, or at the file's own position for -1."""
        data: bytes = self.run(self.prep_read, fd, length, offset)
        return data

    def write(self, fd: Fd, data: Buffer, offset: int = -1) -> int:
        """Write ``data`` at ``offset``, or at the file's own position for -1; return the count."""
        count: int = self.run(self.prep_write, fd, data, offset)
        return count

    def readv(self, fd: Fd, buffers: Sequence[Buffer], offset: int = -1) -> int:
        """Read into several buffers; return the number of bytes."""
        count: int = self.run(self.prep_readv, fd, buffers, offset)
        return count

    def writev(self, fd: Fd, buffers: Sequence[Buffer], offset: int = -1) -> int:
        """Write several buffers; return the number of bytes."""
        count: int = self.run(self.prep_writev, fd, buffers, offset)
        return count
