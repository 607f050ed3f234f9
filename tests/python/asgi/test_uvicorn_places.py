"""The protocols in uvicorn's places."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import httpx
import pytest
import uvicorn

from penstock import websocket

Run = Callable[..., Any]


async def app(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "http":
        body = scope["path"].encode() + str(scope["state"]).encode()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": body})
    elif scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.accept"})
        while (message := await receive())["type"] == "websocket.receive":
            await send({"type": "websocket.send", "text": scope["path"] + message["text"]})
    else:
        scope["state"]["a"] = 1
        for phase in ("startup", "shutdown"):
            await receive()
            await send({"type": f"lifespan.{phase}.complete"})


HTTP = "penstock.asgi:HttpProtocol"
WS = "penstock.asgi:WebSocketProtocol"


@pytest.mark.parametrize(("http", "ws"), [(HTTP, WS), (HTTP, "websockets-sansio"), ("h11", WS)])
def test_uvicorn(run: Run, http: str, ws: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        config = uvicorn.Config(
            app, port=0, http=http, ws=ws, log_config=None, lifespan="on", root_path="/r"
        )
        server = uvicorn.Server(config)
        # Its signal handlers are for the main thread, and would outlive this test.
        monkeypatch.setattr(threading, "main_thread", object)
        serving = asyncio.create_task(server.serve())
        for _ in iter(lambda: server.started, True):
            await asyncio.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        async with httpx.AsyncClient(trust_env=False) as client:
            for path in ("/x", "/y"):
                response = await client.get(f"http://127.0.0.1:{port}{path}")
                assert response.text == f"/r{path}{{'a': 1}}"
                assert response.headers["server"] == "uvicorn"
            assert server.server_state.total_requests == 2
        async with websocket.connect(f"ws://127.0.0.1:{port}/w") as connection:
            await connection.send("hello")
            assert await connection.recv() == "/r/whello"
            server.should_exit = True
            with pytest.raises(websocket.ConnectionClosed):
                await connection.recv()
            assert connection.close_rcvd is not None
            assert connection.close_rcvd.code == 1012
        await serving

    run(main())
