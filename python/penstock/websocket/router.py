"""Serving several handlers by the path of the request, with the package werkzeug."""

from __future__ import annotations

import importlib
import inspect
import ssl as ssl_module
import urllib.parse
from collections.abc import Callable
from typing import Any, Literal

from penstock.websocket.http11 import Request, Response
from penstock.websocket.server import ServerConnection, serve
from penstock.websocket.typing import PathLike

__all__ = ["Router", "route", "unix_route"]


def _werkzeug(module: str) -> Any:
    try:
        return importlib.import_module(f"werkzeug.{module}")
    except ImportError as error:
        raise ImportError("route() needs the package werkzeug; install it") from error


class Router:
    """Finds the handler of a request.

    Args:
        url_map: A `werkzeug.routing.Map` whose endpoints are handlers.
        server_name: The name of the server in redirects; that of the Host field if None.
        url_scheme: "ws" or "wss", in redirects.
    """

    def __init__(
        self, url_map: Any, server_name: str | None = None, url_scheme: str = "ws"
    ) -> None:
        self.url_map = url_map
        self.server_name = server_name
        self.url_scheme = url_scheme
        for rule in url_map.iter_rules():
            rule.websocket = True

    def get_server_name(self, connection: ServerConnection, request: Request) -> str:
        """Return the name of the server, for redirects."""
        return request.headers["Host"] if self.server_name is None else self.server_name

    def redirect(self, connection: ServerConnection, url: str) -> Response:
        """Return the answer to a request for a path that has moved."""
        response = connection.respond(302, f"Found at {url}")
        response.headers["Location"] = url
        return response

    def not_found(self, connection: ServerConnection) -> Response:
        """Return the answer to a request for an unknown path."""
        return connection.respond(404, "Not Found")

    def route_request(self, connection: ServerConnection, request: Request) -> Response | None:
        """Set the connection's handler and return None, or return a refusal."""
        errors, routing = _werkzeug("exceptions"), _werkzeug("routing")
        adapter = self.url_map.bind(
            server_name=self.get_server_name(connection, request), url_scheme=self.url_scheme
        )
        parts = urllib.parse.urlsplit(request.path)
        try:
            handler, arguments = adapter.match(path_info=parts.path, query_args=parts.query)
        except routing.RequestRedirect as redirect:
            return self.redirect(connection, redirect.new_url)
        except errors.NotFound:
            return self.not_found(connection)
        connection.handler, connection.handler_kwargs = handler, arguments
        return None

    async def handler(self, connection: ServerConnection) -> None:
        """Call the handler that was found."""
        await connection.handler(connection, **connection.handler_kwargs)


def route(
    url_map: Any,
    *args: Any,
    server_name: str | None = None,
    ssl: ssl_module.SSLContext | Literal[True] | None = None,
    create_router: Callable[..., Router] | None = None,
    **kwargs: Any,
) -> serve:
    """Serve WebSocket connections whose handlers depend on the path.

    Args:
        url_map: A `werkzeug.routing.Map` whose endpoints are handlers. A handler is called with the
            connection, and with the variable parts of the path as named arguments.
        *args: As for `serve`, without the handler.
        server_name: The name of the server in redirects; that of the Host field if None.
        ssl: The TLS context; True if a proxy in front of the server terminates TLS.
        create_router: Called instead of `Router` with the same arguments.
        **kwargs: As for `serve`.

    Raises:
        ImportError: If the package werkzeug is missing.
    """
    _werkzeug("routing")
    make = create_router or Router
    router = make(url_map, server_name, "ws" if ssl is None else "wss")
    if ssl is not True and ssl is not None:
        kwargs["ssl"] = ssl
    given = kwargs.pop("process_request", None)

    async def process_request(connection: ServerConnection, request: Request) -> Response | None:
        response: Response | None = None
        if given is not None:
            answer = given(connection, request)
            response = await answer if inspect.isawaitable(answer) else answer
        return router.route_request(connection, request) if response is None else response

    return serve(router.handler, *args, process_request=process_request, **kwargs)


def unix_route(url_map: Any, path: PathLike | None = None, **kwargs: Any) -> serve:
    """Serve as `route` does, on a Unix socket."""
    return route(url_map, unix=True, path=path, **kwargs)
