"""asyncio's own stream classes while a transport of this loop feeds them: their waits are native.

A transport makes a reader and a protocol that are exactly asyncio's into these. They differ in nothing
but the methods named here: the attributes are asyncio's, and so is every other method.
"""

from __future__ import annotations

import asyncio
from typing import Any

from penstock._core import AsyncioWaits


class StreamReader(asyncio.StreamReader, AsyncioWaits):
    """``asyncio.StreamReader``; data that arrives resumes the task that waits for it at once."""

    __slots__ = ()

    read: Any = AsyncioWaits.read
    _wait_for_data: Any = AsyncioWaits._wait_for_data


class StreamReaderProtocol(asyncio.StreamReaderProtocol, AsyncioWaits):
    """``asyncio.StreamReaderProtocol``; a ``drain()`` with nothing to wait for costs little."""

    __slots__ = ()

    _drain_helper: Any = AsyncioWaits._drain_helper
