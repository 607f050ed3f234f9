"""Write ends of pipes: asyncio's transport, which tells its end once.

asyncio's own calls ``connection_lost`` twice if ``resume_writing`` closes the transport or if
``abort`` follows ``close``, and its ``abort`` raises AttributeError after the end. The second call
finds no protocol, and the loop reports an AttributeError.
"""

from __future__ import annotations

from asyncio import unix_events
from typing import Any

_WritePipeTransport: Any = unix_events._UnixWritePipeTransport  # type: ignore[attr-defined]


class _UnixWritePipeTransport(_WritePipeTransport):  # type: ignore[misc]
    """asyncio's transport; ``_loop`` is None from the call of ``connection_lost`` on."""

    def _close(self, exc: BaseException | None = None) -> None:
        if self._loop is not None:
            super()._close(exc)

    def _call_connection_lost(self, exc: BaseException | None) -> None:
        if self._loop is not None:
            super()._call_connection_lost(exc)
