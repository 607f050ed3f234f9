"""Requests that are refused, and the options' bounds."""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock import asgi

from .support import (
    CLOSE,
    HOST,
    Client,
    ask,
    connected,
    conversation,
    echo,
    hello,
    respond,
    serving,
)

Run = Callable[..., Any]
POST = b"POST / HTTP/1.1\r\nHost: x\r\n"


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\nHost: x\n\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", 400),
        (b"GET / HTTP/2.0\r\nHost: x\r\n\r\n", 505),
        (b"GET /\xff HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"CONNECT x:80 HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (POST + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        (POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n", 501),
        (POST + b"Transfer-Encoding: chunked\r\n\r\nxyz\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"y" * 2000 + b"\r\n\r\n", 431),
        (b"GET / HTTP/1.1\r\nHost: x\r\n" + b"X: y\r\n" * 20 + b"\r\n", 431),
        (b"GET /" + b"y" * 2000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 414),
    ],
)
def test_bad_requests(
    run: Run, request_bytes: bytes, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with serving(echo, limit_head_size=1024, limit_head_fields=10) as server:
            answer = await conversation(server, request_bytes + b"GET / HTTP/1.1\r\n" + CLOSE)
        assert answer.startswith(b"HTTP/1.1 %d " % status)
        assert answer.count(b"HTTP/1.1 ") == 1

    run(main())
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


def test_limit_concurrency(run: Run) -> None:
    async def main() -> None:
        async with serving(hello, limit_concurrency=2) as server, connected(server) as one:
            one.writer.write(b"GET / HTTP/1.1\r\n" + HOST + b"\r\n")
            assert (await one.response())[0] == 200
            async with connected(server) as two:
                two.writer.write(b"GET / HTTP/1.1\r\n" + HOST + b"\r\n")
                status, fields, body = await two.response()
                assert (status, body) == (503, b"Service Unavailable")
                assert fields["connection"] == "close"

    run(main())


@pytest.mark.parametrize(
    "option",
    [
        {"root_path": "api"},
        {"lifespan": "perhaps"},
        {"limit_concurrency": 0},
        {"limit_head_size": 1},
        {"limit_head_fields": 0},
        {"timeout_keep_alive": -1},
        {"headers": [("a b", "c")]},
        {"uds": "x", "sock": object()},
    ],
)
def test_bad_options(run: Run, option: dict[str, Any]) -> None:
    async def main() -> None:
        with pytest.raises(ValueError):
            await asgi.serve(hello, **option)

    run(main())


@pytest.mark.parametrize("begins", [False, True])
def test_a_body_that_stalls(run: Run, begins: bool, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        received: asyncio.Queue[str] = asyncio.Queue()

        async def app(scope: Any, receive: Any, send: Any) -> None:
            await asyncio.sleep(0.02)  # time that is not the client's
            if begins:
                await send({"type": "http.response.start", "status": 200, "headers": []})
            while True:
                message = await receive()
                received.put_nowait(message["type"])
                if message["type"] == "http.disconnect":
                    return

        async with serving(app, timeout_body=0) as server, connected(server) as client:
            client.writer.write(POST + b"Content-Length: 9\r\n\r\nabc")
            server.native.sweep()
            assert await received.get() == "http.request"
            answer = asyncio.ensure_future(client.reader.read())
            while not (await asyncio.wait([answer], timeout=0.01))[0]:
                server.native.sweep()
            assert answer.result().startswith(b"HTTP/1.1 200" if begins else b"HTTP/1.1 408")
            assert await received.get() == "http.disconnect"

    run(main())
    assert caplog.records[0].getMessage() == "The request's body has stalled."


def test_a_client_that_takes_nothing_gives_its_thread_back(run: Run) -> None:
    """The kernel ends its connection, also of a process whose only thread waits for it."""

    def app(environ: Any, start_response: Any) -> Any:
        start_response("200 OK", [])
        return itertools.repeat(bytes(65536)) if environ["PATH_INFO"] == "/endless" else [b"hello"]

    async def main() -> None:
        async with (
            serving(app, wsgi_threads=1, timeout_send=0.2) as server,
            connected(server) as stalled,
            connected(server) as client,
        ):
            stalled.writer.transport.pause_reading()  # type: ignore[attr-defined]
            stalled.writer.write(b"GET /endless HTTP/1.1\r\n" + CLOSE)
            await stalled.writer.drain()
            client.writer.write(b"GET / HTTP/1.1\r\n" + CLOSE)
            assert (await client.response())[2] == b"hello"

    run(main())


def test_unix_socket(run: Run, tmp_path: Path) -> None:
    scopes = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        scopes.append(scope)
        await hello(scope, receive, send)

    async def main() -> None:
        path = os.fspath(tmp_path / "socket")
        async with asgi.serve(app, uds=path, lifespan="off", access_log=False):
            reader, writer = await asyncio.open_unix_connection(path)
            writer.write(b"GET / HTTP/1.1\r\n" + CLOSE)
            assert (await Client(reader, writer).response())[2] == b"hello"
            writer.close()
        assert (scopes[0]["client"], scopes[0]["server"]) == (None, (path, None))

    run(main())


def test_the_file_of_a_given_socket_stays(run: Run, tmp_path: Path) -> None:
    """Other processes listen on it too. CPython 3.13 and later remove it by default."""

    async def main() -> None:
        path = os.fspath(tmp_path / "socket")
        with socket.socket(socket.AF_UNIX) as given:
            given.bind(path)
            async with asgi.serve(hello, sock=given, lifespan="off", access_log=False):
                pass
        assert os.path.exists(path)

    run(main())


def test_the_servers_own_answers_are_logged_and_told(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    told = []

    async def waits(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await respond(send, b"later")

    async def main() -> None:
        options: dict[str, Any] = {
            "access_log": True,
            "on_refusal": lambda scope, status: told.append((scope["path"], status)),
        }
        assert (await ask(hello, b"GET /a b HTTP/1.1\r\n" + CLOSE, **options))[0] == 400
        assert (await ask(hello, b"get / HTTP/1.1\r\n" + CLOSE, **options))[0] == 501
        async with (
            serving(waits, limit_concurrency=2, **options) as server,
            connected(server),
            connected(server) as second,
        ):
            # The first one would be answered by the application, once this one is closed.
            second.writer.write(b"GET /full HTTP/1.1\r\n" + HOST + b"\r\n")
            assert (await second.response())[0] == 503

    with caplog.at_level(logging.INFO, "penstock.access"):
        run(main())
    assert told == [("-", 400), ("-", 501), ("/full", 503)]
    lines = [each.getMessage() for each in caplog.records if each.name == "penstock.access"]
    assert [line.partition(" - ")[2] for line in lines] == [
        '"- - HTTP/1.1" 400',
        '"- - HTTP/1.1" 501',
        '"GET /full HTTP/1.1" 503',
    ]


def test_a_stalled_body_is_logged(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with (
            serving(echo, access_log=True, timeout_body=0.05) as server,
            connected(server) as client,
        ):
            client.writer.write(b"POST / HTTP/1.1\r\nContent-Length: 5\r\n" + HOST + b"\r\nb")
            assert (await client.response())[0] == 408

    with caplog.at_level(logging.INFO, "penstock.access"):
        run(main())
    lines = [each.getMessage() for each in caplog.records if each.name == "penstock.access"]
    assert [line.partition(" - ")[2] for line in lines] == ['"POST / HTTP/1.1" 408']


def test_access_log(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        await ask(hello, b"GET /a%0Ab?c HTTP/1.1\r\n" + CLOSE, access_log=True)

    with caplog.at_level(logging.INFO, "penstock.access"):
        run(main())
    (record,) = [each for each in caplog.records if each.name == "penstock.access"]
    assert isinstance(record.args, tuple)
    assert str(record.args[0]).startswith("127.0.0.1:")
    assert record.args[1:] == ("GET", "/a%0Ab?c", "1.1", 200)


def test_applications_of_asgi_2(run: Run) -> None:
    def app(scope: Any) -> Any:
        async def instance(receive: Any, send: Any) -> None:
            await hello(scope, receive, send)

        return instance

    async def main() -> None:
        assert (await ask(app, b"GET / HTTP/1.1\r\n" + CLOSE))[2] == b"hello"

    run(main())
