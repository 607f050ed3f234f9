"""The server's log: errors, and the access log in uvicorn's format."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from penstock.asgi._errors import is_cancelled, is_disconnect
from penstock.asgi._types import Scope


def reporter(
    logger: logging.Logger, on_drained: Callable[[], object]
) -> Callable[[str, Any], None]:
    """Return the function with which the native half writes to the log."""

    def report(kind: str, value: Any) -> None:
        if kind == "drained":
            on_drained()
        elif kind == "warning":
            logger.warning(value)
        elif kind == "error":
            logger.error(value)
        elif kind == "exception after the client has gone" and is_disconnect(value):
            logger.debug("The client left before the response was complete")
        elif kind != "cancelled" or not is_cancelled():
            logger.error("Exception in ASGI application\n", exc_info=value)

    return report


def client_text(scope: Scope) -> str:
    """Return the client's address as "host:port", as in uvicorn's access log; "" if unknown."""
    client = scope.get("client")
    return f"{client[0]}:{client[1]}" if client else ""


def quoted_path(scope: Scope) -> str:
    """Return the path with its query. Control characters are quoted: a request is one log line."""
    path = quote(scope["path"])
    query = scope["query_string"]
    return f"{path}?{query.decode('ascii', 'backslashreplace')}" if query else path


def access_line(logger: logging.Logger) -> Callable[[Scope, int], None]:
    """Return the function that logs the start of a response.

    The record's arguments are those of uvicorn's, for its formatters.
    """

    def log_start(scope: Scope, status: int) -> None:
        logger.info(
            '%s - "%s %s HTTP/%s" %d',
            client_text(scope),
            scope["method"],
            quoted_path(scope),
            scope["http_version"],
            status,
        )

    return log_start
