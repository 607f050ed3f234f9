"""The datagram echo server of the UDP page: the same program for every asyncio loop, in two styles.

    python benchmarks/udp_server.py --loop penstock --style protocol

It binds a free UDP port of the loopback interface and prints the port when it is ready.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

# Python puts the folder of a script on the path; the package is in a folder above.
sys.path[0] = str(Path(__file__).resolve().parent.parent)

from benchmarks.measured_program import (  # noqa: E402
    Unavailable,
    exit_code,
    loop_factory,
    loop_parser,
    serve_until_stdin_ends,
)

READ_SIZE = 64 * 1024


class EchoProtocol(asyncio.DatagramProtocol):
    """Echo by ``datagram_received``."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: Any = transport

    def datagram_received(self, data: bytes, addr: Any) -> None:
        self.transport.sendto(data, addr)


async def serve_protocol(loop: asyncio.AbstractEventLoop, sock: socket.socket) -> object:
    return await loop.create_datagram_endpoint(EchoProtocol, sock=sock)


async def serve_sock(loop: asyncio.AbstractEventLoop, sock: socket.socket) -> object:
    # Use each call once, so that a missing one is reported before the port is printed.
    await loop.sock_sendto(sock, b"x", sock.getsockname())
    await loop.sock_recvfrom(sock, READ_SIZE)

    async def echo() -> None:
        while True:
            data, sender = await loop.sock_recvfrom(sock, READ_SIZE)
            await loop.sock_sendto(sock, data, sender)

    return loop.create_task(echo())


Serve = Callable[[asyncio.AbstractEventLoop, socket.socket], Awaitable[object]]

STYLES: dict[str, Serve] = {"protocol": serve_protocol, "sock": serve_sock}


async def serve(style: str) -> None:
    """Serve until standard input ends."""
    sock = socket.socket(type=socket.SOCK_DGRAM)
    sock.bind(("127.0.0.1", 0))
    sock.setblocking(False)
    port = sock.getsockname()[1]
    try:
        server = await STYLES[style](asyncio.get_running_loop(), sock)
    except NotImplementedError as error:
        raise Unavailable(f"the loop does not implement the style {style}: {error!r}") from error
    await serve_until_stdin_ends(port)
    del server


def main() -> None:
    """Run the server."""
    parser = loop_parser("datagram echo server on a chosen event loop")
    parser.add_argument("--style", required=True, choices=STYLES)
    arguments = parser.parse_args()
    with asyncio.Runner(loop_factory=loop_factory(arguments.loop)) as runner:
        runner.run(serve(arguments.style))


if __name__ == "__main__":
    sys.exit(exit_code(main))
