"""Handlers by the path of the request, with werkzeug's map of rules."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

from penstock import websocket

from .libraries import CLIENTS, address


async def greet(connection: websocket.ServerConnection, name: str) -> None:
    await connection.send(f"hello {name}")


@pytest.mark.parametrize("client", list(CLIENTS))
def test_the_path_selects_the_handler(run: Callable[..., Any], client: str) -> None:
    routing = pytest.importorskip("werkzeug.routing")

    def refuse(connection: websocket.ServerConnection, request: websocket.Request) -> Any:
        return connection.respond(403, "no\n") if request.path == "/hi/nobody" else None

    async def main() -> None:
        rules = routing.Map(
            [
                routing.Rule("/hi/<name>", endpoint=greet),
                routing.Rule("/old/<name>", redirect_to="/hi/<name>"),
            ]
        )
        async with websocket.route(rules, "127.0.0.1", 0, process_request=refuse) as server:
            for path in ("/hi/ann?a=b", "/old/ann"):
                async with CLIENTS[client](address(server, path)) as connection:
                    assert await connection.recv() == "hello ann"
            for path, status in (("/none", 404), ("/hi/nobody", 403)):
                with pytest.raises(websocket.InvalidStatus) as caught:
                    await websocket.connect(address(server, path))
                assert caught.value.response.status_code == status

    run(main())


def test_a_missing_werkzeug_is_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "werkzeug.routing", None)
    with pytest.raises(ImportError, match="needs the package werkzeug"):
        websocket.route(None, "127.0.0.1", 0)
