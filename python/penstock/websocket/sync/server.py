"""The blocking server: a thread for each connection."""

from __future__ import annotations

import asyncio
import inspect
import socket as socket_module
import sys
import threading
from collections.abc import Callable
from typing import Any

from penstock.websocket import server as asynchronous
from penstock.websocket.auth import basic_auth as asynchronous_basic_auth
from penstock.websocket.http11 import Response
from penstock.websocket.sync.background import call
from penstock.websocket.sync.connection import Connection
from penstock.websocket.typing import PathLike, StatusLike

__all__ = ["Server", "ServerConnection", "basic_auth", "serve", "unix_serve"]

basic_auth = asynchronous_basic_auth


class ServerConnection(Connection):
    """A connection that a client has opened.

    Attributes:
        username: The user that `basic_auth` has let in.
    """

    _connection: asynchronous.ServerConnection

    @property
    def username(self) -> str:
        """The user that `basic_auth` has let in."""
        return self._connection.username

    def respond(self, status: StatusLike, text: str) -> Response:
        """Return a response that refuses the handshake, for `process_request`."""
        return self._connection.respond(status, text)


class Server:
    """A WebSocket server; `serve` makes it."""

    def __init__(self, server: asynchronous.Server, logger: Any) -> None:
        self._server = server
        self.logger = logger

    @property
    def socket(self) -> socket_module.socket:
        """The first listening socket."""
        sock: socket_module.socket = self._server.sockets[0]
        return sock

    def fileno(self) -> int:
        """Return the descriptor of the first listening socket."""
        return self.socket.fileno()

    def serve_forever(self) -> None:
        """Accept connections until `shutdown` is called, even by another thread."""
        call(self._server.serve_forever)

    def shutdown(self, code: int = 1001, reason: str = "") -> None:
        """Stop accepting connections, close the open ones and wait for their handlers.

        May be called by any thread that is not a handler's.

        Args:
            code: The code of the close frames.
            reason: The reason in the close frames, at most 123 bytes in UTF-8.

        Raises:
            ProtocolError: If the code or the reason cannot be sent. The server is not closed then.
        """

        async def stop() -> None:
            self._server.close(code=code, reason=reason)
            await self._server.wait_closed()

        call(stop)

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.shutdown()


def _in_thread(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a coroutine function that calls a blocking one in a thread of its own.

    Not in the executor's threads: handlers take as long as their connections, and would use them
    all up.
    """

    async def run(*arguments: Any) -> Any:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Any] = loop.create_future()

        def finish(result: Any, error: BaseException | None) -> None:
            if done.done():
                return
            if error is None:
                done.set_result(result)
            elif isinstance(error, Exception) and not isinstance(error, StopIteration):
                done.set_exception(error)
            else:  # of this thread alone
                done.set_exception(RuntimeError(f"the thread has raised {error!r}"))

        def work() -> None:
            try:
                result, error = function(*arguments), None
            except BaseException as raised:
                result, error = None, raised
            loop.call_soon_threadsafe(finish, result, error)

        threading.Thread(target=work, name="penstock.websocket handler", daemon=True).start()
        return await done

    return run


def serve(
    handler: Callable[[ServerConnection], None],
    host: str | None = None,
    port: int | None = None,
    *,
    sock: socket_module.socket | None = None,
    process_request: Callable[..., Any] | None = None,
    process_response: Callable[..., Any] | None = None,
    select_subprotocol: Callable[..., str | None] | None = None,
    create_connection: Callable[..., ServerConnection] | None = None,
    **kwargs: Any,
) -> Server:
    """Serve WebSocket connections.

    The call binds the address; `serve_forever` of the result accepts connections. For each
    connection, `handler`, `process_request` and `process_response` run in threads of their own.

    Args:
        handler: The function for a connection. When it returns, the connection is closed.
        host: The address to listen on.
        port: The port to listen on.
        sock: A listening socket, instead of host and port.
        process_request: As for `penstock.websocket.serve`; may block.
        process_response: As for `penstock.websocket.serve`; may block.
        select_subprotocol: As for `penstock.websocket.serve`; must not block.
        create_connection: Called instead of `ServerConnection` with the asynchronous connection.
        **kwargs: As for `penstock.websocket.serve`.

    Raises:
        OSError: If the address cannot be bound.
    """
    make = create_connection or ServerConnection

    # One object for a connection, which keeps what `process_request` sets on it.
    def blocking(connection: asynchronous.ServerConnection) -> ServerConnection:
        made: ServerConnection | None = getattr(connection, "_blocking", None)
        if made is None:
            made = make(connection)
            connection._blocking = made  # type: ignore[attr-defined]
        return made

    def adapted(function: Callable[..., Any] | None) -> Callable[..., Any] | None:
        if function is None or inspect.iscoroutinefunction(function):
            return function
        return _in_thread(lambda connection, *others: function(blocking(connection), *others))

    run_handler = _in_thread(lambda connection: handler(blocking(connection)))
    select = select_subprotocol
    # It listens from now on, not only when connections are accepted.
    path = kwargs.pop("path", None)
    if sock is None and kwargs.get("unix", False):
        sock = socket_module.socket(socket_module.AF_UNIX)
        try:
            sock.bind(path)
            sock.listen()
        except BaseException:
            sock.close()
            raise
        if sys.version_info >= (3, 13):
            kwargs.setdefault("cleanup_socket", True)  # it is this server's own
    elif sock is None:
        sock = socket_module.create_server((host or "", port or 0))
    sock.setblocking(False)
    kwargs |= {
        "sock": sock,
        "process_request": adapted(process_request),
        "process_response": adapted(process_response),
        "select_subprotocol": select and (lambda made, names: select(blocking(made), names)),
        "start_serving": False,
    }

    async def start() -> asynchronous.Server:
        return await asynchronous.serve(run_handler, **kwargs)

    server = call(start)
    return Server(server, server.logger)


def unix_serve(
    handler: Callable[[ServerConnection], None], path: PathLike | None = None, **kwargs: Any
) -> Server:
    """Serve WebSocket connections on a Unix socket; the arguments are those of `serve`."""
    return serve(handler, unix=True, path=path, **kwargs)
