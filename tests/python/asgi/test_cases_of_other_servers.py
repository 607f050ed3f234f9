"""What the tests of granian and hypercorn ask a server over a real port, as tests of this one.

``GRANIAN`` and ``HYPERCORN`` name each case of theirs with the test of this project that has the
same behaviour, or with the reason why there is none. Cases without a test elsewhere are here.
"""

from __future__ import annotations

import ast
import asyncio
import ssl
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import sniffio
import trustme
from websockets.frames import Close, Frame, Opcode

from penstock import asgi, websocket

from .http2_client import speaking_http2
from .support import CLOSE, HOST, body_of, connected, respond, serving

Run = Callable[..., Any]
TESTS = Path(__file__).parents[1]
HERE = "asgi/test_cases_of_other_servers.py"

GRANIAN = {
    "asgi: scope": "asgi/test_requests.py::test_scope_of_a_request",
    "asgi: state of the lifespan": "asgi/test_disconnects.py::test_lifespan",
    "asgi: body": f"{HERE}::test_a_body_over_both_protocols",
    "asgi: large body": "asgi/test_requests.py::test_a_large_body_waits_for_the_application",
    "asgi: error of the application": (
        "asgi/test_responses.py::test_an_application_that_breaks_the_rules_before_its_response"
    ),
    "asgi: unknown message, caught": f"{HERE}::test_an_error_of_send_may_be_caught",
    "asgi: messages behind the end": "asgi/test_responses.py::test_messages_after_the_response",
    "asgi: file by its path": "asgi/test_extensions.py::test_a_file_by_its_path",
    "asgi: time-outs of asyncio, sniffio": f"{HERE}::test_asyncio_in_a_handler",
    "ws: texts and bytes": "asgi/test_websockets.py::test_scope_and_messages",
    "ws: accepted before connect is received": f"{HERE}::test_accept_before_the_first_receive",
    "ws: refused by a return": "other: 500 as in uvicorn, where granian has 403",
    "ws: refused by close, by a response": "asgi/test_websockets.py::test_a_refused_client",
    "ws: disconnect behind the own close": (
        "asgi/test_websockets.py::test_an_application_that_ends"
    ),
    "ws: a client without pongs": f"{HERE}::test_a_client_that_answers_no_ping",
    "ws: pongs while the application is busy": f"{HERE}::test_pongs_count_while_it_is_busy",
    "ws: an application that only sends": f"{HERE}::test_an_endless_sender_ends_with_its_client",
    "ws: options of pings": "asgi/test_limits.py::test_bad_options",
    "https: scheme, also of WebSocket": f"{HERE}::test_schemes_over_tls",
    "https: encrypted key": "other: --ssl-keyfile-password, which the ssl module reads",
    "tls: absent without TLS": f"{HERE}::test_schemes_over_tls",
    "tls: version": f"{HERE}::test_versions_of_tls",
    "tls: client's certificate, chain, keep-alive": f"{HERE}::test_certificates_of_clients",
    "tls: clients that are not trusted": f"{HERE}::test_clients_that_are_not_trusted",
    "tls: no certificate where none is demanded": f"{HERE}::test_certificates_of_clients",
    "tls: HTTP/2, WebSocket": f"{HERE}::test_schemes_over_tls",
    "tls: revoked certificates": "other: of a context that the program makes",
    "tls: connections that differ, at once": f"{HERE}::test_certificates_of_clients",
    "shutdown: SIGTERM while the loop is busy": (
        "cli/test_serve_ending.py::test_a_request_that_swallows_its_cancellation_is_named_and_left"
    ),
    "restart, stop: workers": (
        "cli/test_serve.py::test_a_worker_that_dies_is_replaced_and_all_are_at_sighup"
    ),
    "restart: memory": "cli/test_serve_layers.py::test_a_worker_beyond_its_memory_is_replaced",
    "static: file, type": "asgi/test_static.py::test_files_and_indexes",
    "static: missing, outside": "asgi/test_static.py::test_what_is_never_found",
    "static: the application beside it": (
        "asgi/test_static.py::test_the_root_passes_on_what_is_no_file"
    ),
    "static: ranges": "asgi/test_static.py::test_ranges",
    "static: packed siblings": "asgi/test_static.py::test_compressed_siblings",
    "uds": "asgi/test_limits.py::test_unix_socket",
    "uds and port at once": "other: one place; a program calls serve twice, or passes two sockets",
    "metrics: histogram": "cli/test_serve_layers.py::test_the_page_of_metrics",
    "metrics: over workers, files": "cli/test_serve_layers.py::test_all_layers_with_two_workers",
    "access log: formats of its own": "other: uvicorn's lines, JSON, or a function",
    "wsgi: environ": "asgi/test_wsgi.py::test_a_request_and_its_environ",
    "wsgi: body": "asgi/test_wsgi.py::test_a_body_is_read_in_every_way",
    "wsgi: error of the application": "asgi/test_wsgi.py::test_what_an_application_may_not_do",
    "embed": "asgi/test_documentation.py::test_the_program_prints_the_response",
    "cli": "cli/test_serve.py::test_each_option_of_uvicorn_is_accepted",
    "rsgi, lock, threads of the runtime": "other: granian's own",
}

HYPERCORN = {
    "sanity: HTTP/1.1": f"{HERE}::test_a_body_over_both_protocols",
    "sanity: WebSocket": "asgi/test_websockets.py::test_scope_and_messages",
    "sanity: HTTP/2": f"{HERE}::test_a_body_over_both_protocols",
    "sanity: WebSocket over HTTP/2": (
        "asgi/test_http2_websockets.py::test_messages_go_both_ways_beside_requests"
    ),
    "keep-alive: a head that does not end": (
        "asgi/test_disconnects.py::test_idle_connections_are_closed"
    ),
    "keep-alive: during a request, pipelined": f"{HERE}::test_a_request_is_not_idle",
    "keep-alive: most requests of a connection": "other: no such limit",
    "compliance: h2spec, autobahn": "other: tests/conformance runs both",
}


@pytest.mark.parametrize("places", [GRANIAN, HYPERCORN], ids=["granian", "hypercorn"])
def test_each_named_test_is_there(places: dict[str, str]) -> None:
    for case, place in places.items():
        file, separator, name = place.partition("::")
        if separator:
            tree = ast.parse((TESTS / file).read_text(encoding="utf-8"))
            assert name in {getattr(each, "name", "") for each in tree.body}, case
        else:
            assert place.startswith("other: "), case


def test_a_body_over_both_protocols(run: Run) -> None:
    sent = b"Hello Hypercorn".rjust(40_000, b".")

    async def app(scope: Any, receive: Any, send: Any) -> None:
        assert await body_of(receive) == sent
        await respond(send, b"Hello & Goodbye")

    async def main() -> None:
        async with serving(app, http2=True) as server:
            async with connected(server) as client:
                head = b"POST / HTTP/1.1\r\nContent-Length: %d\r\n" % len(sent)
                client.writer.write(head + CLOSE + sent)
                _, fields, body = await client.response()
                assert (body, fields["connection"]) == (b"Hello & Goodbye", "close")
                assert await client.reader.read() == b""
            async with speaking_http2(server) as h2:
                stream = h2.ask(ends=False)
                h2.send(stream, sent, end=True)
                answer = await h2.answer(stream)
                assert (answer.status, answer.body) == (200, b"Hello & Goodbye")
                assert answer.fields[b"content-length"] == b"15"

    run(main())


def test_an_error_of_send_may_be_caught(run: Run) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        with pytest.raises(RuntimeError, match=r"Expected ASGI message 'http\.response\.body'"):
            await send({"type": "wrong"})
        await send({"type": "http.response.body", "body": b"caught"})

    async def main() -> None:
        async with serving(app) as server, connected(server) as client:
            for _ in range(2):
                client.writer.write(b"GET / HTTP/1.1\r\n" + HOST + b"\r\n")
                status, _, body = await client.response()
                assert (status, body) == (200, b"caught")

    run(main())


def test_asyncio_in_a_handler(run: Run) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        async def answer() -> bytes:
            return b"in time"

        never = asyncio.get_running_loop().create_future()
        done = await asyncio.wait_for(answer(), None)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(never, 0.01)
        assert never.cancelled()
        await respond(send, done + b" " + sniffio.current_async_library().encode())

    async def main() -> None:
        async with serving(app) as server, connected(server) as client:
            client.writer.write(b"GET / HTTP/1.1\r\n" + CLOSE)
            assert (await client.response())[2] == b"in time asyncio"

    run(main())


# ---- WebSocket


def url(server: asgi.Server) -> str:
    return f"ws://127.0.0.1:{server.port}/"


def test_accept_before_the_first_receive(run: Run) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "websocket.accept"})
        assert await receive() == {"type": "websocket.connect"}
        while (message := await receive())["type"] == "websocket.receive":
            kind = "text" if message.get("text") is not None else "bytes"
            both = {"text": None, "bytes": None, kind: message[kind]}
            await send({"type": "websocket.send", **both})

    async def main() -> None:
        async with serving(app) as server, websocket.connect(url(server)) as client:
            for message in ("foo", b"foo"):
                await client.send(message)
                assert await client.recv() == message

    run(main())


class RawClient:
    """A WebSocket client that reads frames and answers nothing by itself."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def open(self) -> None:
        self._writer.write(
            b"GET / HTTP/1.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
            + HOST
            + b"\r\n"
        )
        head = await self._reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 101 ")

    async def frame(self) -> tuple[int, bytes]:
        """Read a short frame: its opcode and its payload."""
        first, size = await self._reader.readexactly(2)
        return first & 15, await self._reader.readexactly(size)

    def send(self, opcode: Opcode, payload: bytes) -> None:
        self._writer.write(Frame(opcode, payload).serialize(mask=True))

    async def ended(self) -> bool:
        return await self._reader.read() == b""


def test_a_client_that_answers_no_ping(run: Run) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "websocket.accept"})
        assert (await receive())["type"] == "websocket.connect"
        told.append(await receive())

    told: list[Any] = []

    async def main() -> None:
        async with (
            serving(app, ws_ping_interval=0.02, ws_ping_timeout=0.02) as server,
            connected(server) as client,
        ):
            raw = RawClient(client.reader, client.writer)
            await raw.open()
            seen = [await raw.frame()]
            while seen[-1][0] == Opcode.PING:
                seen.append(await raw.frame())
            assert len(seen) > 1
            opcode, payload = seen[-1]
            assert (opcode, Close.parse(payload).code) == (Opcode.CLOSE, 1011)
            raw.send(Opcode.CLOSE, payload)
            assert await raw.ended()
        assert told[0]["type"] == "websocket.disconnect"

    run(main())


def test_pongs_count_while_it_is_busy(run: Run) -> None:
    """The application does not receive, and the client's pongs are seen."""

    async def main() -> None:
        go = asyncio.Event()

        async def app(scope: Any, receive: Any, send: Any) -> None:
            await send({"type": "websocket.accept"})
            await go.wait()
            await send({"type": "websocket.send", "text": "ready"})

        async with (
            serving(app, ws_ping_interval=0.01, ws_ping_timeout=30) as server,
            connected(server) as client,
        ):
            raw = RawClient(client.reader, client.writer)
            await raw.open()
            # The next ping comes only after the pong of the last one.
            for _ in range(3):
                opcode, payload = await raw.frame()
                assert opcode == Opcode.PING
                raw.send(Opcode.PONG, payload)
            go.set()
            while (received := await raw.frame())[0] == Opcode.PING:
                raw.send(Opcode.PONG, received[1])
            assert received == (Opcode.TEXT, b"ready")

    run(main())


def test_an_endless_sender_ends_with_its_client(run: Run) -> None:
    async def main() -> None:
        ended: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()

        async def app(scope: Any, receive: Any, send: Any) -> None:
            await send({"type": "websocket.accept"})
            try:
                while True:
                    await send({"type": "websocket.send", "text": "ping" * 1000})
            except OSError as error:
                ended.set_result(error)
                raise

        async with serving(app, ws_per_message_deflate=False) as server:
            client = await websocket.connect(url(server))
            await client.recv()
            client.transport.abort()
            assert isinstance(await ended, asgi.ClientDisconnected)

    run(main())


# ---- TLS


@cache
def authority() -> trustme.CA:
    return trustme.CA()


@cache
def stranger() -> trustme.CA:
    return trustme.CA()


@cache
def own_certificate() -> trustme.LeafCert:
    return authority().issue_cert("localhost")


@cache
def certificate(name: str) -> trustme.LeafCert:
    """A certificate for a client: of the authority, of one below it, or of a stranger."""
    issuers = {"plain": authority, "below": authority().create_child_ca, "strange": stranger}
    return issuers[name]().issue_cert(f"{name}@example.com")


def server_context(demanded: ssl.VerifyMode = ssl.CERT_NONE) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    own_certificate().configure_cert(context)
    authority().configure_trust(context)
    context.verify_mode = demanded
    return context


def client_context(name: str | None = None, *protocols: str) -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority().configure_trust(context)
    if name is not None:
        certificate(name).configure_cert(context)
    if protocols:
        context.set_alpn_protocols(list(protocols))
    return context


async def ask_over_tls(server: asgi.Server, context: ssl.SSLContext, times: int = 1) -> None:
    """Ask again and again on one connection."""
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", server.port, ssl=context, server_hostname="localhost"
    )
    try:
        for _ in range(times):
            writer.write(b"GET / HTTP/1.1\r\n" + HOST + b"\r\n")
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200 ")
    finally:
        writer.close()


class Seen:
    """An application that keeps the scopes of its requests."""

    def __init__(self) -> None:
        self.scopes: list[Any] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.scopes.append(scope)
        if scope["type"] == "websocket":
            await send({"type": "websocket.accept"})
            await send({"type": "websocket.close"})
        else:
            await respond(send)

    def tls(self) -> list[Any]:
        return [scope["extensions"]["tls"] for scope in self.scopes]


def test_schemes_over_tls(run: Run) -> None:
    app = Seen()

    async def main() -> None:
        async with serving(app, ssl=server_context(), http2=True) as server:
            await ask_over_tls(server, client_context())
            async with speaking_http2(server, client_context(None, "h2")) as client:
                await client.answer(client.ask())
            address = f"wss://localhost:{server.port}/"
            async with websocket.connect(address, ssl=client_context()) as connection:
                await connection.wait_closed()
        async with serving(app) as server, connected(server) as plain:
            plain.writer.write(b"GET / HTTP/1.1\r\n" + CLOSE)
            await plain.response()

    run(main())
    assert [(scope["http_version"], scope["scheme"]) for scope in app.scopes] == [
        ("1.1", "https"),
        ("2", "https"),
        ("1.1", "wss"),
        ("1.1", "http"),
    ]
    plain = app.scopes.pop()
    assert "tls" not in plain["extensions"]
    assert [each["tls_version"] for each in app.tls()] == [0x0304] * 3
    assert [each["client_cert_chain"] for each in app.tls()] == [[]] * 3


@pytest.mark.parametrize(
    ("version", "number"), [(ssl.TLSVersion.TLSv1_2, 0x0303), (ssl.TLSVersion.TLSv1_3, 0x0304)]
)
def test_versions_of_tls(run: Run, version: ssl.TLSVersion, number: int) -> None:
    app = Seen()

    async def main() -> None:
        context = client_context()
        context.maximum_version = version
        async with serving(app, ssl=server_context()) as server:
            await ask_over_tls(server, context)

    run(main())
    assert [each["tls_version"] for each in app.tls()] == [number]


def test_certificates_of_clients(run: Run) -> None:
    """Two clients at once, and one without a certificate."""
    app = Seen()

    async def main() -> None:
        async with serving(app, ssl=server_context(ssl.CERT_OPTIONAL)) as server:
            contexts = [client_context(name) for name in ("plain", "below", None)]
            await asyncio.gather(*(ask_over_tls(server, each, 2) for each in contexts))

    run(main())
    assert len(app.tls()) == 6
    assert len({each["client_cert_name"] for each in app.tls()}) == 3
    chains = {tuple(map(ssl.PEM_cert_to_DER_cert, each["client_cert_chain"])) for each in app.tls()}
    assert len(chains) == 3
    assert () in chains
    for sent in (sent_by("plain"), sent_by("below")):
        # The client's OpenSSL may send the authority's behind them.
        assert [chain for chain in chains if chain and chain[: len(sent)] == sent]


def sent_by(name: str) -> tuple[bytes, ...]:
    """What the scope tells of a client: before CPython 3.13, its own certificate alone."""
    chain = [each.bytes().decode() for each in certificate(name).cert_chain_pems]
    told = chain if sys.version_info >= (3, 13) else chain[:1]
    return tuple(map(ssl.PEM_cert_to_DER_cert, told))


@pytest.mark.parametrize(
    ("demanded", "name"),
    [(ssl.CERT_REQUIRED, None), (ssl.CERT_REQUIRED, "strange"), (ssl.CERT_OPTIONAL, "strange")],
)
def test_clients_that_are_not_trusted(run: Run, demanded: ssl.VerifyMode, name: str | None) -> None:
    app = Seen()

    async def main() -> None:
        async with serving(app, ssl=server_context(demanded)) as server:
            # With TLS 1.3 the client hears of it at its first read.
            with pytest.raises((OSError, asyncio.IncompleteReadError)):
                await ask_over_tls(server, client_context(name))

    run(main())
    assert app.scopes == []


# ---- keep-alive


def test_a_request_is_not_idle(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request that lasts longer than the idle time, and another one behind it."""
    monkeypatch.setattr("penstock.asgi._server._SWEEP_INTERVAL", 0.02)
    request = b"GET / HTTP/1.1\r\n" + HOST + b"\r\n"

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await asyncio.sleep(0.15)
        await respond(send, b"slow")

    async def main() -> None:
        options = {"timeout_keep_alive": 0.02, "timeout_head": 0.02}
        async with serving(app, **options) as server, connected(server) as client:
            client.writer.write(request * 2)
            for _ in range(2):
                assert (await client.response())[2] == b"slow"
            assert await client.reader.read() == b""

    run(main())
