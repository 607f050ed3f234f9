"""The opening handshake: what is refused, selected and passed on."""

from __future__ import annotations

import asyncio
import base64
import dataclasses
import gc
import hashlib
import itertools
import re
from collections.abc import Callable
from typing import Any

import pytest
import websockets.exceptions

from penstock import websocket

from .libraries import CLIENTS, SERVERS, address, echo

ROLES = [(client, server) for client in CLIENTS for server in SERVERS]


async def talk(port: int, request: bytes) -> bytes:
    """The whole answer of a server to a request, which is sent byte by byte in part."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request[:7])
    await asyncio.sleep(0)
    writer.write(request[7:])
    answer = await reader.read()
    writer.close()
    return answer


def request(*lines: str, first: str = "GET / HTTP/1.1") -> bytes:
    fields = {
        "Host": "a",
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    }
    text = [first]
    for line in lines:
        name, _, value = line.partition(": ")
        fields[name] = value
    text += [f"{name}: {value}" for name, value in fields.items() if value]
    return ("\r\n".join(text) + "\r\n\r\n").encode()


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (request("Upgrade: "), 426),
        (request("Sec-WebSocket-Version: 8"), 426),
        (request("Sec-WebSocket-Key: x"), 400),
        (request("Connection: close"), 426),
        (request(first="POST / HTTP/1.1"), 405),
        (request("Host: "), 400),
        (request("Origin: http://evil"), 403),
        (b"GET / HTTP/1.1\nHost: a\n\n", 400),
        (b"\x16\x03\x01\x02\x00\x01", 400),
        (b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\n\r\n", 414),
        (request(*(f"X-{i}: a" for i in range(300))), 431),
        (request("X-Long: " + "a" * 64_000), 431),
        (request(first="GET / HTTP/1.0"), 505),
        (request(first="GET / HTTP/2.0"), 505),
    ],
)
def test_invalid_request_is_refused(run: Callable[..., Any], sent: bytes, status: int) -> None:
    async def main() -> None:
        origins = [None, "http://good", re.compile(r"https://.*\.example")]
        async with websocket.serve(echo, "127.0.0.1", 0, origins=origins) as served:
            answer = await talk(served.sockets[0].getsockname()[1], sent)
            assert answer.startswith(f"HTTP/1.1 {status} ".encode())
            for origin in (None, "http://good", "https://a.example"):
                async with websocket.connect(address(served), origin=origin):
                    pass
            with pytest.raises(websocket.InvalidStatus) as caught:
                await websocket.connect(address(served), origin="http://good.evil")
            assert caught.value.response.status_code == 403

    run(main())


def test_message_that_follows_the_request_at_once_is_received(run: Callable[..., Any]) -> None:
    async def main() -> None:
        async with websocket.serve(echo, "127.0.0.1", 0) as served:
            port = served.sockets[0].getsockname()[1]
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(request() + bytes([0x81, 0x82, 0, 0, 0, 0]) + b"hi")
            head = await reader.readuntil(b"\r\n\r\n")
            assert b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" in head
            assert await reader.readexactly(4) == b"\x81\x02hi"
            writer.write(bytes([0x88, 0x80, 0, 0, 0, 0]))
            assert await reader.read() == b"\x88\x00"
            writer.close()

    run(main())


def test_process_request_may_answer_and_sees_the_request(run: Callable[..., Any]) -> None:
    async def process(
        connection: websocket.ServerConnection, request: websocket.Request
    ) -> websocket.Response | None:
        await asyncio.sleep(0)
        if request.path == "/health":
            return connection.respond(200, "OK\n")
        assert request.headers["x-token"] == "secret"
        return None

    async def main() -> None:
        async with websocket.serve(echo, "127.0.0.1", 0, process_request=process) as served:
            with pytest.raises(websocket.InvalidStatus) as caught:
                await websocket.connect(address(served, "/health"))
            assert caught.value.response.body == b"OK\n"
            headers = {"X-Token": "secret"}
            async with websocket.connect(address(served, "/a?b"), additional_headers=headers) as c:
                await c.send("hi")
                assert await c.recv() == "hi"
            with pytest.raises(ValueError, match="control character"):
                await websocket.connect(address(served), additional_headers={"A": "b\r\nC: d"})

    run(main())


def test_subprotocol_is_negotiated(run: Callable[..., Any]) -> None:
    async def main() -> None:
        async with websocket.serve(echo, "127.0.0.1", 0, subprotocols=["b", "c"]) as served:
            for offered, selected in (
                (["a", "c"], "c"),
                (["c", "b"], "b"),
                (["a"], None),
                ([], None),
            ):
                async with websocket.connect(address(served), subprotocols=offered) as connection:
                    assert connection.subprotocol == selected

    run(main())


@pytest.mark.parametrize(
    ("answer", "exception"),
    [
        (b"HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nwait", websocket.InvalidStatus),
        (
            b"HTTP/1.1 101 S\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
            websocket.InvalidHeader,
        ),
        (b"SSH-2.0-OpenSSH\r\n", websocket.InvalidMessage),
        (b"", websocket.InvalidMessage),
    ],
)
def test_invalid_response_is_refused(
    run: Callable[..., Any], answer: bytes, exception: type[Exception]
) -> None:
    async def main() -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(answer)
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        with pytest.raises(exception) as caught:
            await websocket.connect(address(server))
        if isinstance(caught.value, websocket.InvalidStatus):
            assert caught.value.response.body == b"wait"
        else:
            assert re.search(r"response: |during |missing .*Accept", str(caught.value))
        server.close()
        await server.wait_closed()

    run(main())


@pytest.mark.parametrize(
    ("answer", "body"),
    [
        (b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n1\r\n!\r\n0\r\n\r\n", b"hello!"),
        (b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nmalformed", b"hello"),
        (b"Transfer-Encoding: chunked\r\n\r\n200000\r\n" + b"x" * (1 << 21), b"x" * (1 << 20)),
        (b"Content-Length: 5\r\n\r\nhello", b"hello"),
        (b"Content-Length: 0\r\n\r\n", b""),
    ],
    ids=["chunked", "malformed", "large", "length", "empty"],
)
def test_refusal_is_raised_while_its_connection_stays_open(
    run: Callable[..., Any], answer: bytes, body: bytes
) -> None:
    async def main() -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n" * 3000)
            writer.write(b"HTTP/1.1 403 Forbidden\r\n" + answer)
            await reader.read()
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        with pytest.raises(websocket.InvalidStatus) as caught:
            await websocket.connect(address(server))
        assert caught.value.response.status_code == 403
        assert caught.value.response.body == body
        server.close()
        await server.wait_closed()

    run(main())


def test_name_of_a_host_is_sent_in_ascii() -> None:
    connecting = websocket.connect("ws://bücher.example:81/ä?ö")
    request = connecting._request(connecting._address, websocket.Headers(), "key")
    assert request.headers["Host"] == "xn--bcher-kva.example:81"
    assert request.path == "/%C3%A4?%C3%B6"
    assert connecting._address.host == "xn--bcher-kva.example"


@pytest.mark.parametrize(
    "uri",
    [
        "http://a/",
        "ws:///path",
        "ws://a/#b",
        "ws://a:b/",
        "ws://a:65536/",
        "ws://[::1",
        "ws://ü..example/",
        "ws://a/\udc80",
    ],
)
def test_invalid_address_is_refused(uri: str) -> None:
    with pytest.raises(websocket.InvalidURI, match=re.escape(uri)):
        websocket.connect(uri)


def test_silent_server_ends_with_a_timeout(run: Callable[..., Any]) -> None:
    async def main() -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read()
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        with pytest.raises(TimeoutError, match="not connected within"):
            await websocket.connect(address(server), open_timeout=0.05)
        server.close()
        await server.wait_closed()

    run(main())


ACCEPTED = (
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Accept: "
)


@pytest.mark.parametrize("client", list(CLIENTS))
@pytest.mark.parametrize(
    ("last", "exception"),
    [
        (b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "InvalidStatus"),
        (b"HTTP/1.1 501 Not Implemented\r\nContent-Length: 0\r\n\r\n", "InvalidStatus"),
        (b"SSH-2.0-OpenSSH\r\n", "InvalidMessage"),
        (ACCEPTED + b"%s\r\nSec-WebSocket-Protocol: other\r\n\r\n", "NegotiationError"),
        (ACCEPTED + b"%s\r\nSec-WebSocket-Extensions: other\r\n\r\n", "NegotiationError"),
    ],
    ids=["404", "501", "no HTTP", "subprotocol", "extension"],
)
def test_iteration_connects_again_unless_that_is_in_vain(
    run: Callable[..., Any], client: str, last: bytes, exception: str
) -> None:
    answers = [
        b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n",
        b"",
        ACCEPTED + b"%s\r\n\r\n\x81\x02hi\x88\x02\x03\xe9",
        last,
    ]

    async def main() -> None:
        left = answers.copy()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            head = await reader.readuntil(b"\r\n\r\n")
            found = re.search(rb"(?i)sec-websocket-key: (\S+)", head)
            assert found is not None
            digest = hashlib.sha1(found[1] + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest()
            writer.write(left.pop(0).replace(b"%s", base64.b64encode(digest)))
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        options: dict[str, Any] = {}
        if client == "websockets":
            options = {"reconnect_delays": lambda: itertools.repeat(0.0)}
        received = []
        kinds = getattr(websocket, exception), getattr(websockets.exceptions, exception)
        with pytest.raises(kinds):
            async for connection in CLIENTS[client](address(server), **options):
                received += [message async for message in connection]
        assert received == ["hi"]
        assert not left
        server.close()
        await server.wait_closed()

    run(main())


def test_connect_can_be_cancelled_at_any_time(run: Callable[..., Any]) -> None:
    async def main() -> None:
        reported: list[dict[str, Any]] = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: reported.append(context))

        async def connect(uri: str) -> None:
            async with websocket.connect(uri):
                pass

        async with websocket.serve(echo, "127.0.0.1", 0) as served:
            for turns in range(40):
                connecting = asyncio.create_task(connect(address(served)))
                for _ in range(turns):
                    await asyncio.sleep(0)
                connecting.cancel()
                await asyncio.wait([connecting])
        gc.collect()
        assert not reported

    run(main())


@pytest.mark.parametrize("limit", ["max_size", "max_queue"])
@pytest.mark.parametrize("value", [0, -1, 2.5, (4, 16, 1), "1", (0, None)])
def test_invalid_limit_is_refused(run: Callable[..., Any], limit: str, value: Any) -> None:
    async def main() -> None:
        with pytest.raises(ValueError, match=f"{limit} must be a number of at least 1"):
            websocket.connect("ws://127.0.0.1/", **{limit: value})
        with pytest.raises(ValueError, match=f"{limit} must be a number of at least 1"):
            await websocket.serve(echo, "127.0.0.1", 0, **{limit: value})

    run(main())


@pytest.mark.parametrize(("client", "server"), ROLES)
def test_fields_arrive_as_they_were_sent(run: Callable[..., Any], client: str, server: str) -> None:
    def respond(_: Any, request: Any, response: Any) -> Any:
        assert dict(request.headers)["x-name"] == "Zoë"
        headers = response.headers.copy()
        headers["X-Answer"] = "Ünal"
        return dataclasses.replace(response, headers=headers)

    async def main() -> None:
        options = {"additional_headers": {"X-Name": "Zoë"}}
        async with (
            SERVERS[server](echo, "127.0.0.1", 0, process_response=respond) as served,
            CLIENTS[client](address(served), **options) as connection,
        ):
            assert dict(connection.response.headers)["x-answer"] == "Ünal"

    run(main())


def test_field_outside_of_latin_1_is_refused() -> None:
    with pytest.raises(ValueError, match="quote it"):
        websocket.Headers({"X-Name": "名"}).serialize()
    with pytest.raises(ValueError, match="not a name"):
        websocket.Headers({"X-Näme": "a"}).serialize()


@pytest.mark.parametrize("client", list(CLIENTS))
def test_additional_user_agent_replaces_the_own(run: Callable[..., Any], client: str) -> None:
    seen: list[list[str]] = []

    def note(_: Any, request: Any) -> None:
        seen.append(request.headers.get_all("User-Agent"))

    async def main() -> None:
        options = {"additional_headers": {"User-Agent": "A"}}
        async with (
            websocket.serve(echo, "127.0.0.1", 0, process_request=note) as served,
            CLIENTS[client](address(served), **options),
        ):
            pass
        assert seen == [["A"]]

    run(main())


def test_negotiation_error_refuses_the_client(
    run: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    def select(connection: Any, offered: Any) -> str:
        if "good" in offered:
            return "good"
        raise websocket.NegotiationError("'good' is needed")

    async def main() -> None:
        async with websocket.serve(echo, "127.0.0.1", 0, select_subprotocol=select) as served:
            async with websocket.connect(address(served), subprotocols=["good"]) as connection:
                assert connection.subprotocol == "good"
            with pytest.raises(websocket.InvalidStatus) as caught:
                await websocket.connect(address(served))
        assert caught.value.response.status_code == 400
        assert b"'good' is needed" in caught.value.response.body

    run(main())
    assert not caplog.records


def test_one_text_is_no_list_of_subprotocols(run: Callable[..., Any]) -> None:
    async def main() -> None:
        with pytest.raises(TypeError, match="list of names"):
            websocket.connect("ws://127.0.0.1/", subprotocols="chat")
        with pytest.raises(TypeError, match="list of names"):
            await websocket.serve(echo, "127.0.0.1", 0, subprotocols="chat")

    run(main())
