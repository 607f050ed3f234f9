"""A pytest plugin for websockets' own tests of its asyncio half: one end is Penstock's.

In the tests of the server, the server is ``penstock.websocket``'s and the client websockets'; in
those of the client it is the reverse. A connection is tested on a socket pair, against websockets'.
The loop is Penstock's. ``PENSTOCK_CONFORMANCE_REPORT`` names the report's file, of JSON lines.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
import logging
import os
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock import websocket
from penstock.websocket import client, reconnecting

MS = float(os.environ["WEBSOCKETS_TESTS_TIMEOUT_FACTOR"]) / 1000


class _Policy(asyncio.DefaultEventLoopPolicy):
    def new_event_loop(self) -> asyncio.AbstractEventLoop:
        return penstock.new_event_loop()


class _Connection(websocket.Connection):
    """A connection without a handshake, made as websockets' is made."""

    def __init__(self, protocol: Any, **options: Any) -> None:
        super().__init__(asyncio.get_running_loop(), **options)
        self.side = websocket.Side(protocol.side.value)

    def connection_made(self, transport: Any) -> None:
        self._open(transport, None)


@contextlib.asynccontextmanager
async def _few_redirects() -> Any:
    most, client._MOST_REDIRECTS = client._MOST_REDIRECTS, 2
    try:
        yield
    finally:
        client._MOST_REDIRECTS = most


def _short_backoff() -> Iterator[float]:
    return reconnecting.backoff(MS, 2.0, 10 * MS)


def _uri(server: Any, secure: bool | None = None) -> str:
    """The address of either library's server, on one port of 127.0.0.1 or ::1."""
    if secure is None:
        inner = getattr(server, "server", None) or server._server
        secure = inner._ssl_context is not None
    host, port = server.sockets[0].getsockname()[:2]
    return f"{'wss' if secure else 'ws'}://{f'[{host}]' if ':' in host else host}:{port}"


def _replace(module: Any, *names: str, **others: Any) -> None:
    for name in names:
        if hasattr(module, name):
            setattr(module, name, getattr(websocket, name))
    for name, value in others.items():
        setattr(module, name, value)


def _add_compatibility() -> None:
    """The names that these tests take from a module that websockets has no more."""
    module = types.ModuleType("websockets.asyncio.compatibility")
    module.__dict__.update(
        TimeoutError=TimeoutError, aiter=aiter, anext=anext, asyncio_timeout=asyncio.timeout
    )
    sys.modules[module.__name__] = module


def pytest_configure() -> None:
    asyncio.set_event_loop_policy(_Policy())
    _add_compatibility()
    # They look for records of the logger "websockets" and of those below it.
    logging.getLogger("penstock.websocket").parent = logging.getLogger("websockets")
    tests = {name: importlib.import_module(f"tests.asyncio.test_{name}") for name in FILES}
    exceptions = websocket.exceptions.__all__
    own_uri = {"get_uri": _uri}
    _replace(tests["client"], "connect", "unix_connect", "ClientConnection", *exceptions, **own_uri)
    _replace(tests["client"], few_redirects=_few_redirects, short_backoff=_short_backoff)
    _replace(tests["server"], "serve", "unix_serve", "basic_auth", "ServerConnection", **own_uri)
    _replace(tests["server"], "Request", "Response", "NegotiationError", "Server")
    _replace(tests["connection"], "ConcurrencyError", "ConnectionClosedError", "broadcast")
    _replace(tests["connection"], "ConnectionClosedOK", "State", Connection=_Connection)


FILES = ("client", "connection", "server")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "call" or report.outcome != "passed":
        with Path(os.environ["PENSTOCK_CONFORMANCE_REPORT"]).open("a", encoding="utf-8") as file:
            file.write(json.dumps([report.nodeid, report.outcome, report.longreprtext]) + "\n")
