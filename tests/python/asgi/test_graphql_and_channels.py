"""Django Channels and subscriptions of strawberry on the server, unchanged."""

from __future__ import annotations

import asyncio
import importlib
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import pytest

from .support import serving

websockets: Any = pytest.importorskip("websockets.asyncio.client")
Run = Callable[..., Any]


def test_channels(run: Run) -> None:
    """A consumer with a group, beside Django's views, asked by a client of another project."""
    pytest.importorskip("channels")
    from . import django_site

    if not django_site.settings.CHANNEL_LAYERS:
        pytest.skip("Django was set up without Channels")
    asgi_site = importlib.import_module("django.core.asgi").get_asgi_application()
    routing: Any = importlib.import_module("channels.routing")
    generic: Any = importlib.import_module("channels.generic.websocket")
    urls: Any = importlib.import_module("django.urls")

    class Chat(generic.AsyncJsonWebsocketConsumer):  # type: ignore[misc]
        async def connect(self) -> None:
            self.room = self.scope["url_route"]["kwargs"]["room"]
            await self.channel_layer.group_add(self.room, self.channel_name)
            await self.accept(subprotocol="chat")

        async def disconnect(self, code: int) -> None:
            await self.channel_layer.group_discard(self.room, self.channel_name)

        async def receive_json(self, content: Any) -> None:
            await self.channel_layer.group_send(self.room, {"type": "said", "text": content})

        async def said(self, event: Any) -> None:
            await self.send_json(event["text"])

    class Refusing(generic.WebsocketConsumer):  # type: ignore[misc]
        def connect(self) -> None:
            self.close()

    app = routing.ProtocolTypeRouter(
        {
            "http": asgi_site,
            "websocket": routing.URLRouter(
                [urls.path("chat/<room>", Chat.as_asgi()), urls.path("no", Refusing.as_asgi())]
            ),
        }
    )

    async def main() -> None:
        async with (
            serving(app) as server,
            httpx.AsyncClient(trust_env=False) as client,
        ):
            place = f"127.0.0.1:{server.port}"
            assert (await client.get(f"http://{place}/plain/x")).text.startswith("GET x")
            with pytest.raises(importlib.import_module("websockets").InvalidStatus):
                await websockets.connect(f"ws://{place}/no", proxy=None)
            url = f"ws://{place}/chat/a"
            async with (
                websockets.connect(url, subprotocols=["chat"], proxy=None) as one,
                websockets.connect(url, subprotocols=["chat"], proxy=None) as two,
            ):
                assert one.subprotocol == "chat"
                await one.send('{"text": "hello"}')
                for each in (one, two):
                    assert json.loads(await each.recv()) == {"text": "hello"}
                await two.send("[1, 2]")
                assert json.loads(await one.recv()) == [1, 2]

    run(main())


def test_strawberry(run: Run) -> None:
    """Queries by HTTP, and subscriptions by both protocols of GraphQL over WebSocket."""
    strawberry: Any = pytest.importorskip("strawberry")
    graphql: Any = importlib.import_module("strawberry.asgi").GraphQL

    async def count(self: Any, to: int) -> Any:
        for number in range(to):
            yield number
            await asyncio.sleep(0)

    count.__annotations__ = {"to": int, "return": AsyncIterator[int]}
    query = strawberry.type(
        type("Query", (), {"hello": strawberry.field(resolver=lambda: "world", graphql_type=str)})
    )
    subscription = strawberry.type(
        type("Subscription", (), {"count": strawberry.subscription(count)})
    )
    app = graphql(strawberry.Schema(query=query, subscription=subscription))

    async def subscribe(url: str, protocol: str, to: int) -> list[int]:
        begin, part = (
            ("subscribe", "next") if protocol == "graphql-transport-ws" else ("start", "data")
        )
        got = []
        async with websockets.connect(url, subprotocols=[protocol], proxy=None) as socket:
            await socket.send(json.dumps({"type": "connection_init"}))
            assert json.loads(await socket.recv())["type"] == "connection_ack"
            payload = {"query": f"subscription {{ count(to: {to}) }}"}
            await socket.send(json.dumps({"id": "1", "type": begin, "payload": payload}))
            async for text in socket:
                message = json.loads(text)
                if message["type"] == "complete" or len(got) == 5:
                    break
                if message["type"] == part:
                    got.append(message["payload"]["data"]["count"])
        return got

    async def main() -> None:
        async with serving(app) as server, httpx.AsyncClient(trust_env=False) as client:
            place = f"127.0.0.1:{server.port}/"
            answer = await client.post(f"http://{place}", json={"query": "{ hello }"})
            assert answer.json()["data"] == {"hello": "world"}
            for protocol in ("graphql-transport-ws", "graphql-ws"):
                assert await subscribe(f"ws://{place}", protocol, 3) == [0, 1, 2]
                # A client that goes ends its subscription, and its task.
                assert await subscribe(f"ws://{place}", protocol, 10**9) == [0, 1, 2, 3, 4]
                while server.tasks:  # noqa: ASYNC110
                    await asyncio.sleep(0)

    run(main())
