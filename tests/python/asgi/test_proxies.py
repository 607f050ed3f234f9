"""The client behind a proxy, in the scopes of all protocols."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from penstock import asgi, websocket

from .http2_client import request_fields, speaking_http2
from .support import HOST, connected, respond, serving

Run = Callable[..., Any]

FIELDS = {"X-Forwarded-For": "203.0.113.9", "X-Forwarded-Proto": "https"}
LINES = "".join(f"{name}: {value}\r\n" for name, value in FIELDS.items()).encode()
CLIENT = ("203.0.113.9", 0)


class Recorder:
    """An application that keeps its scopes."""

    def __init__(self) -> None:
        self.scopes: list[Any] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.scopes.append(scope)
        if scope["type"] == "http":
            await respond(send)
            return
        await receive()
        await send({"type": "websocket.accept"})

    def told(self) -> list[Any]:
        """Return who the clients were, and how they spoke."""
        return [(scope["client"], scope["scheme"]) for scope in self.scopes]


@pytest.mark.parametrize("believes", [True, False])
def test_requests_with_and_without_the_fields_of_a_proxy(run: Run, *, believes: bool) -> None:
    app = Recorder()

    async def main() -> None:
        async with (
            serving(app, proxy_headers=believes) as server,
            connected(server) as client,
        ):
            for lines in (LINES, LINES, b"", LINES):
                client.writer.write(b"GET / HTTP/1.1\r\n" + HOST + lines + b"\r\n")
                await client.response()

    run(main())
    told = app.told()
    own = told[2]
    assert (own[0][0], own[1]) == ("127.0.0.1", "http")
    told_by_proxy = (CLIENT, "https") if believes else own
    assert told == [told_by_proxy, told_by_proxy, own, told_by_proxy]


@pytest.mark.parametrize("scheme", ["https", "wss", "http"])
def test_a_websocket(run: Run, scheme: str) -> None:
    app = Recorder()

    async def main() -> None:
        async with serving(app, proxy_headers=True) as server:
            url = f"ws://127.0.0.1:{server.port}"
            fields = {**FIELDS, "X-Forwarded-Proto": scheme}
            await websocket.connect(url, additional_headers=fields)

    run(main())
    assert app.told() == [(CLIENT, "ws" if scheme == "http" else "wss")]


def test_streams_of_http2(run: Run) -> None:
    app = Recorder()
    fields = [(name.lower().encode(), value.encode()) for name, value in FIELDS.items()]

    async def main() -> None:
        async with (
            serving(app, proxy_headers=True, http2=True) as server,
            speaking_http2(server) as client,
        ):
            for more in (fields, [], fields):
                await client.answer(client.ask(request_fields(b"/", b"GET", *more)))

    run(main())
    told = app.told()
    assert told[0] == told[2] == (CLIENT, "https")
    assert told[1][1] == "http"


def test_the_log_of_a_refusal_names_the_client(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        options: dict[str, Any] = {"limit_concurrency": 1, "access_log": True}
        async with (
            serving(Recorder(), proxy_headers=True, **options) as server,
            connected(server) as client,
        ):
            client.writer.write(b"GET / HTTP/1.1\r\n" + HOST + LINES + b"\r\n")
            assert (await client.response())[0] == 503

    with caplog.at_level(logging.INFO, "penstock.access"):
        run(main())
    lines = [each.getMessage() for each in caplog.records if each.name == "penstock.access"]
    assert lines == ['203.0.113.9:0 - "GET / HTTP/1.1" 503']


def test_the_proxies_are_those_of_the_option(run: Run) -> None:
    app = Recorder()

    async def main() -> None:
        options: dict[str, Any] = {"proxy_headers": True, "forwarded_allow_ips": "10.0.0.0/8"}
        async with serving(app, **options) as server, connected(server) as client:
            client.writer.write(b"GET / HTTP/1.1\r\n" + HOST + LINES + b"\r\n")
            await client.response()

    run(main())
    assert app.told()[0][1] == "http"


def test_an_option_that_names_no_network(run: Run) -> None:
    async def main() -> None:
        with pytest.raises(ValueError, match="is not a network"):
            await asgi.serve(Recorder(), forwarded_allow_ips="10.0.0.0/99")

    run(main())
