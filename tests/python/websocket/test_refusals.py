"""What a server sends when it refuses, who it lets in, and what it does not send."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable
from typing import Any

import pytest

from penstock import websocket

from .libraries import CLIENTS, address, echo
from .test_handshake import request, talk


@pytest.mark.parametrize("refuse", [True, False])
def test_head_is_answered_without_a_body(run: Callable[..., Any], refuse: bool) -> None:
    def process(connection: websocket.ServerConnection, _: Any) -> websocket.Response | None:
        return connection.respond(200, "OK\n") if refuse else None

    async def main() -> None:
        async with websocket.serve(echo, "127.0.0.1", 0, process_request=process) as server:
            port = server.sockets[0].getsockname()[1]
            answer = await talk(port, request(first="HEAD / HTTP/1.1"))
        assert answer.startswith(b"HTTP/1.1 200 " if refuse else b"HTTP/1.1 405 ")
        assert b"\r\nContent-Length: " in answer
        assert answer.endswith(b"\r\n\r\n")

    run(main())


@pytest.mark.parametrize(
    "response",
    [
        websocket.Response(200, "OK\r\nEvil: 1", websocket.Headers()),
        websocket.Response(200, "名", websocket.Headers()),
        websocket.Response(99999, "OK", websocket.Headers()),
        websocket.Response(200, "OK", websocket.Headers({"A": "b\r\nEvil: 1"})),
        websocket.Response(200, "OK", websocket.Headers({"A\r\nEvil": "b"})),
    ],
)
def test_nothing_of_a_response_begins_a_line_of_its_own(
    run: Callable[..., Any], response: websocket.Response, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        options: list[Any] = [
            {"process_request": lambda *_: response},
            {"process_response": lambda *_: response},
        ]
        for each in options:
            async with websocket.serve(echo, "127.0.0.1", 0, **each) as server:
                answer = await talk(server.sockets[0].getsockname()[1], request())
            assert answer.startswith(b"HTTP/1.1 500 ")
            assert b"Evil" not in answer

    with pytest.raises(ValueError):
        response.serialize()
    run(main())
    assert "opening handshake failed" in caplog.text


def test_a_selected_subprotocol_is_a_token(run: Callable[..., Any], caplog: Any) -> None:
    async def main() -> None:
        async with websocket.serve(
            echo, "127.0.0.1", 0, select_subprotocol=lambda *_: "a\r\nEvil: 1"
        ) as server:
            answer = await talk(server.sockets[0].getsockname()[1], request())
        assert answer.startswith(b"HTTP/1.1 500 ")

    run(main())


def basic(text: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(text.encode()).decode()}


@pytest.mark.parametrize("client", list(CLIENTS))
@pytest.mark.parametrize("kind", ["one", "several", "function", "coroutine"])
def test_basic_auth_lets_in_who_has_the_password(
    run: Callable[..., Any], client: str, kind: str
) -> None:
    async def verify(user: str, password: str) -> bool:
        await asyncio.sleep(0)
        return (user, password) == ("user", "pä:ss")

    makers: dict[str, Any] = {
        "one": {"credentials": ("user", "pä:ss")},
        "several": {"credentials": [("other", "x"), ("user", "pä:ss")]},
        "function": {"check_credentials": lambda *pair: pair == ("user", "pä:ss")},
        "coroutine": {"check_credentials": verify},
    }
    users: list[str] = []

    async def note(connection: websocket.ServerConnection) -> None:
        users.append(connection.username)

    async def main() -> None:
        check = websocket.basic_auth("realm", **makers[kind])
        async with websocket.serve(note, "127.0.0.1", 0, process_request=check) as server:
            uri = address(server)
            async with CLIENTS[client](uri, additional_headers=basic("user:pä:ss")):
                pass
            refused: list[tuple[dict[str, str], bytes]] = [
                ({}, b"Missing"),
                (basic("user:wrong"), b"Invalid"),
                (basic("nobody:pä:ss"), b"Invalid"),
                (basic("user"), b"Unsupported"),
                ({"Authorization": "Digest x"}, b"Unsupported"),
                ({"Authorization": "Basic ?"}, b"Unsupported"),
            ]
            for fields, text in refused:
                with pytest.raises(websocket.InvalidStatus) as caught:
                    await websocket.connect(uri, additional_headers=fields)
                response = caught.value.response
                assert response.status_code == 401
                assert response.body == text + b" credentials\n"
                assert response.headers["WWW-Authenticate"].startswith('Basic realm="realm"')
        assert users == ["user"]

    run(main())


@pytest.mark.parametrize(
    ("arguments", "exception"),
    [
        ({}, ValueError),
        ({"credentials": ("a", "b"), "check_credentials": print}, ValueError),
        ({"credentials": "ab"}, TypeError),
        ({"credentials": [("a", "b"), ("c",)]}, TypeError),
        ({"credentials": ("a", "b"), "realm": 'a"b'}, ValueError),
        ({"credentials": ("a", "b"), "realm": "a\r\nb"}, ValueError),
    ],
)
def test_basic_auth_refuses_what_means_nothing(arguments: Any, exception: type[Exception]) -> None:
    with pytest.raises(exception):
        websocket.basic_auth(**arguments)


def test_a_field_that_occurs_twice_has_no_one_value() -> None:
    headers = websocket.Headers([("A", "1"), ("a", "2")], B="3")
    with pytest.raises(websocket.MultipleValuesError, match="get_all"):
        headers["A"]
    assert headers.get_all("A") == ["1", "2"]
    assert headers == websocket.Headers([("a", "1"), ("b", "3"), ("a", "2")])
    assert headers != websocket.Headers([("A", "2"), ("a", "1")], B="3")
    headers.update(headers.copy())
    assert headers.get_all("b") == ["3", "3"]
    del headers["b"]
    with pytest.raises(KeyError):
        del headers["b"]
