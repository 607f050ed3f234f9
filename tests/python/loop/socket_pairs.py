"""Pairs of sockets for the tests of sock_recv and its like: one for the loop, one that blocks."""

from __future__ import annotations

import asyncio
import socket

Pair = tuple[socket.socket, socket.socket]


def connected_pair() -> Pair:
    left, right = socket.socketpair()
    left.setblocking(False)
    right.settimeout(10)
    return left, right


async def settle() -> None:
    """Let tasks that were started begin to wait, and the loop look for events."""
    for _ in range(3):
        await asyncio.sleep(0)
