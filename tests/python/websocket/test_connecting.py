"""How a client comes to its server: proxies, redirects, Unix sockets, and again after a loss."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock import websocket
from penstock.websocket.reconnecting import backoff
from tests.python.loop.certificates import client_context, server_context

from .libraries import CLIENTS, SERVERS, address, echo
from .raw_peers import accept, answer, connect_proxy, serving, socks5_proxy

PROXY_VARIABLES = ("http_proxy", "https_proxy", "socks_proxy", "ws_proxy", "wss_proxy", "all_proxy")


async def check(connecting: Any) -> None:
    async with connecting as connection:
        await connection.send("hello")
        assert await connection.recv() == "hello"


@pytest.mark.parametrize("secure", [False, True])
def test_an_http_proxy_opens_a_tunnel(run: Callable[..., Any], secure: bool) -> None:
    requests: list[list[str]] = []

    async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requests.append(await connect_proxy(reader, writer))

    async def main() -> None:
        server_tls = server_context() if secure else None
        tls: Any = {"ssl": client_context()} if secure else {}
        async with (
            websocket.serve(echo, "127.0.0.1", 0, ssl=server_tls) as server,
            serving(proxy) as port,
        ):
            target = server.sockets[0].getsockname()[1]
            uri = f"{'wss' if secure else 'ws'}://localhost:{target}"
            await check(
                websocket.connect(uri, proxy=f"http://us%20er:pass@127.0.0.1:{port}", **tls)
            )
        (lines,) = requests
        assert lines[0] == f"CONNECT localhost:{target} HTTP/1.1"
        assert "Proxy-Authorization: Basic dXMgZXI6cGFzcw==" in lines

    run(main())


def test_a_socks_proxy_opens_a_connection(run: Callable[..., Any]) -> None:
    pytest.importorskip("python_socks")
    hosts: list[str] = []

    async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        hosts.append(await socks5_proxy(reader, writer))

    async def main() -> None:
        async with websocket.serve(echo, "127.0.0.1", 0) as server, serving(proxy) as port:
            uri = address(server).replace("127.0.0.1", "localhost")
            await check(websocket.connect(uri, proxy=f"socks5h://127.0.0.1:{port}"))
            await check(websocket.connect(address(server), proxy=f"socks5://127.0.0.1:{port}"))
        assert hosts == ["localhost", "127.0.0.1"]

    run(main())


def test_a_socks_proxy_without_its_package_is_a_clear_error(
    run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "python_socks", None)

    async def main() -> None:
        with pytest.raises(ImportError, match=r"install penstock\[socks\]"):
            await websocket.connect("ws://127.0.0.1:1", proxy="socks5://127.0.0.1:1")

    run(main())


@pytest.mark.parametrize(
    ("text", "exception"),
    [
        (b"HTTP/1.1 407 Who\r\nContent-Length: 0\r\n\r\n", websocket.InvalidProxyStatus),
        (b"SSH-2.0\r\n", websocket.InvalidProxyMessage),
        (b"", websocket.InvalidProxyMessage),
        (b"HTTP/1.1 200 OK\r\n\r\nearly", websocket.InvalidProxyMessage),
    ],
)
def test_a_proxy_that_refuses_is_reported(
    run: Callable[..., Any], text: bytes, exception: type[Exception]
) -> None:
    async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(text)

    async def main() -> None:
        async with serving(proxy) as port:
            with pytest.raises(exception) as caught:
                await websocket.connect("ws://h.example", proxy=f"http://127.0.0.1:{port}")
            assert isinstance(caught.value, websocket.ProxyError)

    run(main())


def test_the_environment_names_the_proxy(
    run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    used: list[str] = []

    async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        used.append((await connect_proxy(reader, writer))[0])

    async def main() -> None:
        async with websocket.serve(echo, "127.0.0.1", 0) as server, serving(proxy) as port:
            monkeypatch.setenv("ws_proxy", f"http://127.0.0.1:{port}")
            await check(websocket.connect(address(server)))
            assert len(used) == 1
            await check(websocket.connect(address(server), proxy=None))
            monkeypatch.setenv("no_proxy", "127.0.0.1")
            await check(websocket.connect(address(server), proxy=True))
            assert len(used) == 1

    for variable in PROXY_VARIABLES:
        monkeypatch.delenv(variable, raising=False)
        monkeypatch.delenv(variable.upper(), raising=False)
    run(main())


@pytest.mark.parametrize(
    "proxy", ["ftp://a", "http://", "http://a/path", "http://u@a", "http://[a"]
)
def test_an_address_that_is_no_proxys_is_refused(proxy: str) -> None:
    with pytest.raises(websocket.InvalidProxy):
        websocket.connect("ws://127.0.0.1", proxy=proxy)


def test_redirects_are_followed_without_secrets_for_others(run: Callable[..., Any]) -> None:
    heads: list[str] = []

    async def end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await accept(reader, writer))
        await reader.read()

    async def main() -> None:
        async with serving(end) as port:

            async def redirect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                heads.append(head)
                near = head.startswith("GET /first")
                location = "../second?a" if near else f"ws://127.0.0.1:{port}/third"
                await answer(writer, "307 Elsewhere", f"Location: {location}")

            async with serving(redirect) as first:
                fields = {"Authorization": "secret", "Cookie": "secret", "X-Own": "kept"}
                connection = await websocket.connect(
                    f"ws://127.0.0.1:{first}/first/x", additional_headers=fields, close_timeout=0
                )
                connection.transport.abort()  # type: ignore[union-attr]
        assert [head.split()[1] for head in heads] == ["/first/x", "/second?a", "/third"]
        assert [head.count("secret") for head in heads] == [2, 2, 0]
        assert all("X-Own: kept" in head for head in heads)

    run(main())


@pytest.mark.parametrize(
    ("location", "options", "exception"),
    [
        ("/again", {}, websocket.SecurityError),
        ("http://other.example/", {}, OSError),
        ("HTTP://other.example/", {}, OSError),
        ("http://[other/", {}, websocket.InvalidURI),
        ("ftp://other.example/", {}, websocket.InvalidURI),
        ("ws://other.example/", {"host": "127.0.0.1"}, ValueError),
    ],
)
def test_a_redirect_that_cannot_be_followed_is_an_error(
    run: Callable[..., Any], location: str, options: Any, exception: type[Exception]
) -> None:
    async def redirect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        await answer(writer, "302 Found", f"Location: {location}")

    async def main() -> None:
        async with serving(redirect) as port:
            with pytest.raises(exception):
                await websocket.connect(f"ws://127.0.0.1:{port}", proxy=None, **options)

    run(main())


def test_a_redirect_from_tls_to_none_is_refused() -> None:
    connecting = websocket.connect("wss://a.example/")
    response = websocket.Response(301, "Moved", websocket.Headers(Location="ws://a.example/"))
    with pytest.raises(websocket.SecurityError, match="from wss:// to ws://"):
        connecting._redirected(connecting._address, websocket.InvalidStatus(response))


@pytest.mark.parametrize("library", ["penstock", "websockets"])
def test_unix_sockets(run: Callable[..., Any], tmp_path: Path, library: str) -> None:
    import websockets.asyncio.client

    connects: dict[str, Any] = {
        "penstock": websocket.unix_connect,
        "websockets": websockets.asyncio.client.unix_connect,
    }

    async def main() -> None:
        path = str(tmp_path / "socket")
        async with websocket.unix_serve(echo, path):
            await check(connects[library](path))

    run(main())


@pytest.mark.parametrize("removed", [None, False, True])
def test_the_file_of_a_given_socket_is_the_callers(
    run: Callable[..., Any], tmp_path: Path, removed: bool | None
) -> None:
    if removed is not None and sys.version_info < (3, 13):
        pytest.skip("cleanup_socket came with Python 3.13")
    options = {} if removed is None else {"cleanup_socket": removed}

    async def main() -> None:
        path = tmp_path / "socket"
        with socket.socket(socket.AF_UNIX) as sock:
            sock.bind(str(path))
            async with websocket.unix_serve(echo, sock=sock, **options):
                await check(websocket.unix_connect(str(path)))
        assert path.exists() is not removed
        with pytest.raises(ValueError, match="path and sock"):
            await websocket.unix_serve(echo, str(path), sock=sock)

    run(main())


def test_a_connection_that_is_lost_at_once_is_a_failed_attempt(run: Callable[..., Any]) -> None:
    delays: list[float] = []

    def count() -> Iterator[float]:
        for delay in itertools.count():
            delays.append(delay)
            yield 0.0

    async def leave(connection: Any) -> None:
        pass

    async def main() -> None:
        async with websocket.serve(leave, "127.0.0.1", 0) as server:
            with contextlib.suppress(StopAsyncIteration):
                i = 0
                async for connection in websocket.connect(address(server), reconnect_delays=count):
                    await connection.wait_closed()
                    if (i := i + 1) == 4:
                        break
        assert delays == [0, 1, 2]

        delays.clear()
        async with websocket.serve(echo, "127.0.0.1", 0) as server:
            i = 0
            async for connection in websocket.connect(address(server), reconnect_delays=count):
                if (i := i + 1) == 4:
                    break
                if i == 2:
                    await connection.close()
        assert delays == []  # this end has closed them

    run(main())


def test_the_delays_grow_to_a_minute_and_are_spread() -> None:
    first = list(itertools.islice(backoff(), 20))
    second = list(itertools.islice(backoff(), 20))
    assert first != second
    for i, delay in enumerate(first):
        whole = min(0.1 * 2**i, 60.0)
        assert whole / 2 <= delay <= whole


def test_process_exception_decides_whether_to_connect_again(run: Callable[..., Any]) -> None:
    seen: list[int] = []

    def decide(error: Exception) -> Exception | None:
        assert isinstance(error, websocket.InvalidStatus)
        seen.append(error.response.status_code)
        return None if len(seen) < 3 else RuntimeError("enough")

    def refuse(connection: websocket.ServerConnection, _: Any) -> websocket.Response:
        return connection.respond(404, "no\n")

    async def main() -> None:
        async with websocket.serve(echo, "127.0.0.1", 0, process_request=refuse) as server:
            connecting = websocket.connect(
                address(server),
                process_exception=decide,
                reconnect_delays=lambda: itertools.repeat(0.0),
            )
            with pytest.raises(RuntimeError, match="enough"):
                async for _ in connecting:
                    pass
        assert seen == [404, 404, 404]

    run(main())


@pytest.mark.parametrize("client", list(CLIENTS))
def test_a_connect_is_entered_once(run: Callable[..., Any], client: str) -> None:
    async def main() -> None:
        async with websocket.serve(echo, "127.0.0.1", 0) as server:
            connecting = CLIENTS[client](address(server))
            async with connecting:
                with pytest.raises(RuntimeError):
                    await connecting.__aenter__()
            await check(connecting)  # one after the other

    run(main())


def test_own_fields_replace_those_of_the_handshake(run: Callable[..., Any]) -> None:
    got: list[websocket.Headers] = []

    def note(_: Any, request: websocket.Request) -> None:
        got.append(request.headers)

    async def main() -> None:
        async with websocket.serve(echo, "127.0.0.1", 0, process_request=note) as server:
            fields = {"Host": "own.example", "Origin": "http://own", "authorization": "own"}
            uri = address(server).replace("//", "//user:pass@")
            await check(websocket.connect(uri, additional_headers=fields, origin="http://a"))
        (headers,) = got
        assert {name: headers.get_all(name) for name in fields} == {
            name: [value] for name, value in fields.items()
        }

    run(main())
    for name in ("Upgrade", "sec-websocket-key", "Sec-WebSocket-Protocol"):
        with pytest.raises(ValueError, match="which the handshake sets"):
            websocket.connect("ws://127.0.0.1", additional_headers={name: "x"})


@pytest.mark.parametrize("names", [["a b"], [""], ["a,b"], ["ä"], ["a\r\nB: c"]])
def test_a_subprotocol_that_is_no_token_is_refused(run: Callable[..., Any], names: Any) -> None:
    async def main() -> None:
        with pytest.raises(ValueError, match="not the name of a subprotocol"):
            websocket.connect("ws://127.0.0.1", subprotocols=names)
        with pytest.raises(ValueError, match="not the name of a subprotocol"):
            await websocket.serve(echo, "127.0.0.1", 0, subprotocols=names)

    run(main())


@pytest.mark.parametrize("server", list(SERVERS))
def test_the_logger_and_the_factories_are_used(
    run: Callable[..., Any], server: str, caplog: pytest.LogCaptureFixture
) -> None:
    class Own(websocket.ClientConnection):
        pass

    class OwnServer(websocket.ServerConnection):
        pass

    async def crash(connection: Any) -> None:
        raise RuntimeError("crash")

    async def main() -> None:
        own: Any = {"create_connection": OwnServer} if server == "penstock" else {}
        async with SERVERS[server](
            crash, "127.0.0.1", 0, logger=__import__("logging").getLogger("own"), **own
        ) as served:
            connection = await websocket.connect(address(served), create_connection=Own)
            assert type(connection) is Own
            await connection.wait_closed()
            assert connection.protocol.state is websocket.State.CLOSED
        assert caplog.records[-1].name == "own"

    run(main())


SECRET_ADDRESSES = [
    "ws://user:secret@host:bad/",
    "ws://user:sec/secret@host/",
    "ftp://user:secret@host/",
    "ws://user:secret@[host/",
]


@pytest.mark.parametrize("uri", SECRET_ADDRESSES)
def test_an_error_with_an_address_has_no_password(uri: str) -> None:
    with pytest.raises(websocket.InvalidURI) as of_server:
        websocket.connect(uri)
    with pytest.raises(websocket.InvalidProxy) as of_proxy:
        websocket.connect("ws://host", proxy=uri)
    for found in (of_server, of_proxy):
        assert "sec" not in str(found.value)
    assert of_server.value.uri == uri


@pytest.mark.parametrize("options", [{}, {"sock": True}])
def test_an_error_of_a_redirect_has_no_password(run: Callable[..., Any], options: Any) -> None:
    async def redirect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        await answer(writer, "302 Found", "Location: /again")

    async def main() -> None:
        async with serving(redirect) as port:
            given: Any = {}
            if options:
                given["sock"] = socket.create_connection(("127.0.0.1", port))
                given["sock"].setblocking(False)
            with pytest.raises((websocket.SecurityError, ValueError), match="/again") as found:
                await websocket.connect(f"WS://user:secret@127.0.0.1:{port}", proxy=None, **given)
        assert "secret" not in str(found.value)

    run(main())


@pytest.mark.parametrize("scheme", ["http", "socks5h"])
def test_a_proxy_with_another_host_is_refused(run: Callable[..., Any], scheme: str) -> None:
    async def main() -> None:
        with pytest.raises(ValueError, match="host and port name a server"):
            await websocket.connect(
                "ws://server.example", proxy=f"{scheme}://127.0.0.1:9", host="127.0.0.1"
            )

    run(main())


@pytest.mark.parametrize("answered", [b"HTTP/1.1 503 Down\r\nContent-Length: 0\r\n\r\n", b""])
def test_a_proxy_that_does_not_reach_the_server_is_asked_again(
    run: Callable[..., Any], answered: bytes
) -> None:
    asked: list[bytes] = []

    async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if asked:
            await connect_proxy(reader, writer)
        else:
            asked.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(answered)
            await writer.drain()

    async def main() -> None:
        async with (
            websocket.serve(echo, "127.0.0.1", 0) as server,
            serving(proxy) as port,
        ):
            async for connection in websocket.connect(
                address(server),
                proxy=f"http://127.0.0.1:{port}",
                reconnect_delays=lambda: itertools.repeat(0.0),
            ):
                await connection.send("hello")
                assert await connection.recv() == "hello"
                break

    run(main())
    assert asked
