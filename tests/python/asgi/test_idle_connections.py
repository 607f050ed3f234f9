"""Connections that wait for a request keep little, and nothing of it shows."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from .support import HOST, Client, connected, hello, respond, serving

GET = b"GET /some/path HTTP/1.1\r\n" + HOST + b"X-Field: value\r\n\r\n"


def test_an_idle_connection_forgets_its_last_request(run: Any) -> None:
    pairs: list[tuple[bytes, bytes]] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        pairs.append(scope["headers"][1])
        await respond(send, scope["path"].encode())

    async def main() -> None:
        async with serving(app) as server, connected(server) as client:
            for _ in range(2):  # the second one is not parsed
                client.writer.write(GET)
                assert (await client.response())[2] == b"/some/path"
            first, second = pairs
            assert first is second
            pairs.clear()
            del second
            mine = (bytes(server.port), b"")  # nothing else refers to it
            async with asyncio.timeout(20):
                while sys.getrefcount(first) > sys.getrefcount(mine):  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
            client.writer.write(GET)
            assert (await client.response())[2] == b"/some/path"
            assert pairs == [(b"x-field", b"value")]

    run(main())


def test_the_transport_still_knows_its_addresses(run: Any) -> None:
    async def main() -> None:
        async with serving(hello) as server, connected(server) as client:
            client.writer.write(GET)
            await client.response()
            transport = server.native.connections()[0].transport
            assert transport is not None
            for name, other in (("peername", "sockname"), ("sockname", "peername")):
                assert transport.get_extra_info(name) == client.writer.get_extra_info(other)

    run(main())


def test_what_an_application_writes_into_a_scope_stays_there(run: Any) -> None:
    seen: list[tuple[dict[str, Any], dict[str, Any]]] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append((dict(scope["asgi"]), dict(scope["extensions"])))
        scope["asgi"]["mine"] = scope["extensions"]["mine"] = {}
        await respond(send)

    async def main() -> None:
        async with serving(app) as server:
            for _ in range(2):
                async with connected(server) as client:
                    await answered(client)
                    await answered(client)

    async def answered(client: Client) -> None:
        client.writer.write(GET)
        await client.response()

    run(main())
    assert seen[0] == seen[1] == seen[2] == seen[3]
