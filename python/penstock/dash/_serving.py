"""The dashboard's server, on the running event loop: beside a recording, or alone."""

from __future__ import annotations

import socket
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager

import anyio
import uvicorn

from penstock._plain_task_group import plain_task_group
from penstock.dash._application import Dashboard
from penstock.dash._board import Board

_BACKLOG = 128
_LONGEST_MESSAGE = 65_536
"""The most bytes that a browser may send. The page's longest names all devices of its view."""
_CLOSING_S = 1
_FAREWELL_S = 1


def listening_socket(host: str, port: int) -> socket.socket:
    """Return a non-blocking socket that listens on ``host`` and ``port``; 0 takes a free port.

    Raises:
        OSError: the address is in use, or is not an address of this machine.
    """
    infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, kind, protocol, _, address = infos[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(_BACKLOG)
        listener.setblocking(False)
    except BaseException:
        listener.close()
        raise
    return listener


@asynccontextmanager
async def serving(
    dashboard: Dashboard,
    listener: socket.socket,
    *,
    on_failure: Callable[[Exception], Awaitable[object]] | None = None,
) -> AsyncGenerator[None, None]:
    """Serve the dashboard inside the block, on an asyncio event loop; close ``listener`` after it.

    A failure of the server ends the page and not the block, so a recording goes on. The exception
    is passed to ``on_failure``. Leaving the block takes up to two seconds, in which browsers get
    their last state and the server closes their connections.
    """
    server = _Server(
        uvicorn.Config(
            dashboard.app,
            http="h11",
            ws="websockets-sansio",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            ws_max_size=_LONGEST_MESSAGE,
            # Loopback bandwidth costs less than the CPU time that the recorder needs.
            ws_per_message_deflate=False,
            timeout_graceful_shutdown=_CLOSING_S,
        )
    )
    ended = anyio.Event()

    async def serve() -> None:
        try:
            # Shielded: uvicorn, when cancelled, does not close its connections.
            with anyio.CancelScope(shield=True):
                await server.serve(sockets=[listener])
        except Exception as error:
            if on_failure is not None:
                await on_failure(error)
        finally:
            listener.close()
            ended.set()

    async with plain_task_group() as tasks:
        tasks.start_soon(serve)
        tasks.start_soon(_watch_silence, dashboard.board)
        try:
            yield
        finally:
            # Without the last state, a browser would show the end of a recording as a lost
            # connection.
            with anyio.move_on_after(_FAREWELL_S, shield=True):
                await dashboard.farewell()
            server.should_exit = True
            with anyio.CancelScope(shield=True):
                await ended.wait()
            tasks.cancel_scope.cancel()


async def _watch_silence(board: Board) -> None:
    while True:
        board.watch_silence(time.time_ns())
        await anyio.sleep(1)


class _Server(uvicorn.Server):
    """uvicorn's server without its signal handlers: the program has its own."""

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield
