#!/usr/bin/env python3
"""When a reply leaves: at once in ``write``, or only when its callback has returned.

    python benchmarks/blocked_writer.py --loop penstock

The server writes a reply in two parts and then blocks for half a second, as a handler does that
calls a library without asyncio. asyncio sends in ``write``: its client has the reply at once. A
loop that sends at the end of an iteration needs fewer system calls; its client waits.
"""

from __future__ import annotations

import asyncio
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import cast

# Python puts the folder of a script on the path; the package is in a folder above.
sys.path[0] = str(Path(__file__).resolve().parent.parent)

from benchmarks.measured_program import exit_code, loop_factory, loop_parser  # noqa: E402

BLOCKED_FOR = 0.5  # seconds
REPLY = (b"head", b"body")


class BlockingProtocol(asyncio.Protocol):
    """Replies to what it receives, then blocks."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport to reply on."""
        # Not every loop derives its transports from asyncio's.
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Reply, then block."""
        for part in REPLY:
            self.transport.write(part)
        time.sleep(BLOCKED_FOR)


def seconds_until_reply(port: int) -> float:
    """Ask once, with a blocking socket."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
        client.sendall(b"?")
        asked = time.perf_counter()
        missing = len(b"".join(REPLY))
        while missing:
            missing -= len(client.recv(missing)) or missing
        return time.perf_counter() - asked


async def measure() -> float:
    """Serve one client, which runs in a thread."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(BlockingProtocol, "127.0.0.1", 0)
    try:
        port = server.sockets[0].getsockname()[1]
        return await loop.run_in_executor(None, seconds_until_reply, port)
    finally:
        server.close()


def show(factory: Callable[[], asyncio.AbstractEventLoop], name: str) -> None:
    """Measure on a loop and print the result."""
    with asyncio.Runner(loop_factory=factory) as runner:
        seconds = runner.run(measure())
    print(f"{name}: reply after {seconds * 1e3:.1f} ms, handler of {BLOCKED_FOR * 1e3:.0f} ms")


def main() -> None:
    """Run the server on the chosen loop."""
    arguments = loop_parser("When a reply leaves a handler that blocks").parse_args()
    show(loop_factory(arguments.loop), arguments.loop)


if __name__ == "__main__":
    sys.exit(exit_code(main))
