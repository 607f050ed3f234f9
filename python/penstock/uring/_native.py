"""The native half, or its substitute where the build found no liburing."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Any, NoReturn

from penstock.uring._errors import UringError

NOT_BUILT = "penstock was built without liburing; install it (Debian: liburing-dev) and build again"

if TYPE_CHECKING:
    from penstock._uring import (
        BufferPool,
        BufferRing,
        Message,
        PoolBuffer,
        Ring,
        probe_kernel,
        read_cached_file,
    )

    built: bool
else:
    try:
        from penstock._uring import (
            BufferPool,
            BufferRing,
            Message,
            PoolBuffer,
            Ring,
            probe_kernel,
            read_cached_file,
        )

        built = True
    except ModuleNotFoundError:
        built = False

        class _Absent:
            def __init__(self, *arguments: Any, **keywords: Any) -> None:
                raise UringError(errno.ENOSYS, NOT_BUILT)

        class Ring(_Absent):
            """Refuses to be made."""

        BufferPool = BufferRing = Message = PoolBuffer = _Absent

        def probe_kernel() -> NoReturn:
            """Refuse."""
            raise UringError(errno.ENOSYS, NOT_BUILT)

        def read_cached_file(path: Any) -> NoReturn:
            """Refuse."""
            raise UringError(errno.ENOSYS, NOT_BUILT)


__all__ = ["NOT_BUILT", "BufferPool", "BufferRing", "Message", "PoolBuffer", "Ring", "built"]
__all__ += ["probe_kernel", "read_cached_file"]
