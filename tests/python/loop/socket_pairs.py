"""Pairs of sockets for the tests of `sock_*` methods: one for the loop, one in blocking mode."""

from __future__ import annotations

import asyncio
import socket

Pair = tuple[socket.socket, socket.socket]


def connected_pair() -> Pair:
    left, right = socket.socketpair()
    left.setblocking(False)
    right.settimeout(30)
    return left, right


async def settle() -> None:
    """Let started tasks begin to wait, and the loop poll once."""
    for _ in range(3):
        await asyncio.sleep(0)
