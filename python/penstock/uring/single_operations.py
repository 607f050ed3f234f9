"""One operation at a time: prepared, submitted and waited for in one call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.uring.constants import CQE_F_MORE
from penstock.uring.errors import check_result
from penstock.uring.native import Ring

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from typing_extensions import Buffer

    from penstock._uring import Fd


class _Call:
    """The ``user_data`` of an operation that nobody else knows."""


class SingleOperations(Ring):
    """Calls that return what their one operation has done.

    Operations that were prepared before are submitted too; an open chain of them is refused with
    ``ValueError``. Completions of others are kept for :meth:`completions`. An exception, such as a
    signal handler's, cancels the operation, and its buffers are free when it leaves.
    """

    def run(self, prepare: Callable[..., object], *arguments: Any, **options: Any) -> Any:
        """Prepare an operation by a ``prep_`` method of this ring, and return its result.

        ``fd = ctx.run(ctx.prep_openat, "name")``. Of an operation with several completions it is
        the first one's result, once the last has come.

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
        """Write ``data`` at ``offset``, or at the file's own position for -1; how much it was."""
        count: int = self.run(self.prep_write, fd, data, offset)
        return count

    def readv(self, fd: Fd, buffers: Sequence[Buffer], offset: int = -1) -> int:
        """Read into several buffers; the number of bytes."""
        count: int = self.run(self.prep_readv, fd, buffers, offset)
        return count

    def writev(self, fd: Fd, buffers: Sequence[Buffer], offset: int = -1) -> int:
        """Write several buffers; the number of bytes."""
        count: int = self.run(self.prep_writev, fd, buffers, offset)
        return count
