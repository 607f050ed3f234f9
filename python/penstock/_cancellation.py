"""Waiting for work that must not be abandoned, even if the waiting task is cancelled."""

from __future__ import annotations

import asyncio

from anyio import CancelScope, Event


async def wait_despite_cancellation(ended: Event) -> None:
    """Wait until ``ended`` is set, even if the waiting task is cancelled again and again.

    A shield keeps out the cancel scopes of AnyIO and trio. asyncio's ``Task.cancel`` ignores
    scopes, so its CancelledError is caught and the wait goes on. The caller raises the
    cancellation that it was handling.
    """
    with CancelScope(shield=True):
        while not ended.is_set():
            try:
                await ended.wait()
            except asyncio.CancelledError:
                continue
