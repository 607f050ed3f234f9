"""The TLS handshake: callbacks, their order, and the state at both ends afterwards."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import Callable
from typing import Any

import pytest

from .certificates import (
    client_context,
    demand_client_certificate,
    present_client_certificate,
    server_context,
)
from .conftest import Run
from .peers import Recorder, until
from .tls_peers import BlockingServer, connect_tls, tls_client, tls_pair, tls_server


def test_the_transport_is_native_on_penstock(run: Run, loop_name: str) -> None:
    async def main() -> None:
        async with tls_pair(Recorder, Recorder) as pair:
            native = type(pair.transport).__module__ == "penstock._core"
            assert native == (loop_name == "penstock")
            assert isinstance(pair.transport, asyncio.Transport)
            assert "ssl" in type(pair.transport).__name__.lower()

    run(main())


def test_connection_made_is_called_after_the_handshake(run: Run) -> None:
    class Asking(Recorder):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            super().connection_made(transport)
            self.cipher = transport.get_extra_info("cipher")
            self.ssl_object = transport.get_extra_info("ssl_object")
            transport.write(b"hello")  # type: ignore[attr-defined]

    async def main() -> None:
        async with tls_pair(Asking, Asking) as pair:
            assert await pair.client.received(5) == b"hello"
            assert await pair.server.received(5) == b"hello"
            assert pair.client.cipher == pair.server.cipher
            assert len(pair.client.cipher) == 3
            assert pair.client.ssl_object.server_hostname == "localhost"
            assert pair.server.ssl_object.server_side
            assert pair.client.ssl_object.version() == "TLSv1.3"
            assert pair.client.calls == pair.server.calls == ["made", "data"]

    run(main())


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_both_protocol_versions_are_supported(run: Run, version: ssl.TLSVersion) -> None:
    context = server_context()
    context.minimum_version = context.maximum_version = version

    async def main() -> None:
        async with tls_pair(Recorder, Recorder, server=context) as pair:
            reported = pair.transport.get_extra_info("ssl_object").version()
            assert reported == version.name.replace("_", ".")
            payload = bytes(range(256)) * 256
            pair.transport.write(payload)
            assert await pair.server.received(len(payload)) == payload
            pair.server.transport.write(payload)
            assert await pair.client.received(len(payload)) == payload
            pair.transport.close()
            await pair.server.closed.wait()
            assert pair.server.calls[-2:] == ["eof", "lost"]

    run(main())


def test_extra_info_has_the_session_and_the_socket(run: Run) -> None:
    context = client_context()

    async def main() -> None:
        async with tls_pair(Recorder, Recorder, client=context) as pair:
            for transport in (pair.transport, pair.server.transport):
                known = transport.get_extra_info
                assert isinstance(known("ssl_object"), ssl.SSLObject)
                assert known("compression") is None
                assert known("socket").family == socket.AF_INET
                assert known("nothing") is None
                assert known("nothing", 5) == 5
            assert pair.transport.get_extra_info("sslcontext") is context
            peer = pair.server.transport.get_extra_info("peername")
            assert pair.transport.get_extra_info("sockname") == peer
            shown = pair.transport.get_extra_info("peercert")["subjectAltName"]
            assert shown == (("DNS", "localhost"),)
            assert not pair.server.transport.get_extra_info("peercert")

    run(main())


def test_the_server_selects_its_certificate_by_the_requested_name(run: Run) -> None:
    asked: list[str | None] = []
    other = server_context("other.test")

    def choose(ssl_object: Any, name: str | None, context: ssl.SSLContext) -> None:
        asked.append(name)
        if name == "other.test":
            ssl_object.context = other

    context = server_context()
    context.sni_callback = choose

    async def main() -> None:
        async with tls_server(Recorder, context) as port:
            for name in ("localhost", "other.test"):
                transport, protocol = await tls_client(Recorder, port, server_hostname=name)
                shown = transport.get_extra_info("peercert")["subjectAltName"]
                assert shown == (("DNS", name),)
                transport.close()
                await protocol.closed.wait()
        assert asked == ["localhost", "other.test"]

    run(main())


def test_application_protocols_are_negotiated_on_both_ends(run: Run) -> None:
    server, client = server_context(), client_context()
    server.set_alpn_protocols(["h2", "http/1.1"])
    client.set_alpn_protocols(["http/1.1"])

    async def main() -> None:
        async with tls_pair(Recorder, Recorder, client=client, server=server) as pair:
            for transport in (pair.transport, pair.server.transport):
                chosen = transport.get_extra_info("ssl_object").selected_alpn_protocol()
                assert chosen == "http/1.1"

    run(main())


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_client_without_the_required_certificate_is_refused(
    run: Run, version: ssl.TLSVersion
) -> None:
    context = server_context()
    context.maximum_version = version
    demand_client_certificate(context)
    served: list[Recorder] = []

    def factory() -> Recorder:
        served.append(Recorder())
        return served[-1]

    async def main() -> None:
        async with tls_server(factory, context) as port:
            # In TLS 1.3, the client finishes before the server verifies its certificate.
            with contextlib.suppress(ssl.SSLError, ConnectionError):
                _, protocol = await tls_client(Recorder, port)
                await protocol.closed.wait()
                reason = protocol.lost_with[0]
                assert reason is None or isinstance(reason, OSError)
        assert [protocol.calls for protocol in served] == [[]]

    run(main())


def test_a_client_presents_its_certificate(run: Run) -> None:
    server, client = server_context(), client_context()
    demand_client_certificate(server)
    present_client_certificate(client)

    async def main() -> None:
        async with tls_pair(Recorder, Recorder, client=client, server=server) as pair:
            shown = pair.server.transport.get_extra_info("peercert")["subjectAltName"]
            assert shown == (("DNS", "client.test"),)

    run(main())


@pytest.mark.parametrize(
    ("context", "name", "reason"),
    [
        (client_context, "elsewhere.test", "Hostname mismatch"),
        (ssl.create_default_context, "localhost", "self-signed certificate|unable to get"),
    ],
)
def test_a_certificate_that_does_not_verify_ends_the_connection(
    run: Run, context: Callable[[], ssl.SSLContext], name: str, reason: str
) -> None:
    made: list[Recorder] = []

    def factory() -> Recorder:
        made.append(Recorder())
        return made[-1]

    async def main() -> None:
        async with tls_server(Recorder) as port:
            with pytest.raises(ssl.SSLCertVerificationError, match=reason):
                await tls_client(factory, port, context(), server_hostname=name)
        assert made[0].calls == []

    run(main())


def test_the_default_context_verifies(run: Run) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        async with tls_server(Recorder) as port:
            with pytest.raises(ssl.SSLCertVerificationError):
                await loop.create_connection(Recorder, "localhost", port, ssl=True)

    run(main())


def test_a_refused_handshake_sends_the_reason_to_the_peer(
    run: Run, loop_name: str, in_thread: Callable[..., Any]
) -> None:
    if loop_name == "asyncio":
        pytest.skip("asyncio ends the connection without the alert that RFC 8446, 6.2 requires")
    reported: list[str] = []

    def serve(server: BlockingServer) -> None:
        with pytest.raises(ssl.SSLError) as raised:
            server.accept_tls().recv(1)
        reported.append(str(raised.value))

    async def main() -> None:
        with BlockingServer() as server:
            thread = in_thread(serve, server)
            with pytest.raises(ssl.SSLCertVerificationError):
                await tls_client(Recorder, server.port, ssl.create_default_context())
            await asyncio.to_thread(thread.join)
        assert "unknown ca" in reported[0].lower()

    run(main())


def test_a_server_that_closes_during_the_handshake_causes_a_reset(
    run: Run, in_thread: Callable[..., Any]
) -> None:
    def serve(server: BlockingServer) -> None:
        connection = server.accept()
        connection.recv(100_000)
        connection.close()

    async def main() -> None:
        with BlockingServer() as server:
            in_thread(serve, server)
            with pytest.raises(ConnectionResetError):
                await tls_client(Recorder, server.port)

    run(main())


def test_a_silent_server_times_out(run: Run) -> None:
    async def main() -> None:
        with (
            BlockingServer() as server,
            pytest.raises(
                ConnectionAbortedError,
                match=r"^SSL handshake is taking longer than 0\.02 seconds: "
                "aborting the connection$",
            ),
        ):
            await tls_client(Recorder, server.port, ssl_handshake_timeout=0.02)

    run(main())


def test_a_silent_client_times_out(run: Run) -> None:
    made: list[Recorder] = []

    def factory() -> Recorder:
        made.append(Recorder())
        return made[-1]

    async def main() -> None:
        async with tls_server(factory, ssl_handshake_timeout=0.02) as port:
            with socket.create_connection(("127.0.0.1", port), timeout=30) as silent:
                assert await asyncio.to_thread(silent.recv, 1) == b""
        assert made[0].calls == []

    run(main())


def test_a_client_without_tls_is_dropped_without_a_report(
    run: Run, contexts: list[dict[str, Any]]
) -> None:
    async def main() -> None:
        async with tls_server(Recorder) as port:
            with socket.create_connection(("127.0.0.1", port), timeout=30) as plain:
                plain.sendall(b"GET / HTTP/1.0\r\n\r\n")
                with contextlib.suppress(ConnectionResetError):
                    while await asyncio.to_thread(plain.recv, 100):
                        pass
            # The server continues.
            transport, protocol = await tls_client(Recorder, port)
            transport.close()
            await protocol.closed.wait()
        assert contexts == []

    run(main())


def test_a_failed_handshake_is_reported_in_debug_mode(
    loop: asyncio.AbstractEventLoop, run: Run, contexts: list[dict[str, Any]]
) -> None:
    loop.set_debug(True)
    loop.slow_callback_duration = 10

    async def main() -> None:
        async with tls_server(Recorder) as port:
            with socket.create_connection(("127.0.0.1", port), timeout=30) as plain:
                plain.sendall(b"GET / HTTP/1.0\r\n\r\n")
                await until(lambda: bool(contexts))
        (context,) = contexts
        assert context["message"] == "Error on transport creation for incoming connection"
        assert isinstance(context["exception"], ssl.SSLError)
        assert isinstance(context["protocol"], Recorder)
        assert isinstance(context["transport"], asyncio.Transport)

    run(main())


def test_debug_mode_logs_the_handshake(
    loop: asyncio.AbstractEventLoop, run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    loop.set_debug(True)
    caplog.set_level(logging.DEBUG, "asyncio")

    async def main() -> None:
        async with tls_pair(Recorder, Recorder):
            pass

    run(main())
    assert "starts SSL handshake" in caplog.text
    assert "SSL handshake took" in caplog.text


@pytest.mark.parametrize("name", ["ssl_handshake_timeout", "ssl_shutdown_timeout"])
@pytest.mark.parametrize("value", [0, -1.5])
def test_a_timeout_that_is_not_positive_is_refused(run: Run, name: str, value: float) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        ours, peer = socket.socketpair()
        with ours, peer:
            ours.setblocking(False)
            with pytest.raises(
                ValueError, match=f"{name} should be a positive number, got {value}"
            ):
                await loop.create_connection(
                    Recorder,
                    sock=ours,
                    ssl=client_context(),
                    server_hostname="localhost",
                    **{name: value},  # type: ignore[arg-type]
                )

    run(main())


def test_a_blocking_client_is_served(run: Run, in_thread: Callable[..., Any]) -> None:
    def ask(port: int) -> None:
        with connect_tls(port) as connection:
            connection.sendall(b"ping")
            assert connection.recv(10) == b"pong"

    class Answering(Recorder):
        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self.transport.write(b"pong")

    async def main() -> None:
        async with tls_server(Answering) as port:
            thread = in_thread(ask, port)
            await asyncio.to_thread(thread.join)

    run(main())


def test_a_handshake_in_single_bytes_succeeds(run: Run, in_thread: Callable[..., Any]) -> None:
    def dribble(server: BlockingServer) -> None:
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        engine = server_context().wrap_bio(incoming, outgoing, server_side=True)
        connection = server.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

        def exchange(step: Callable[[], Any]) -> Any:
            while True:
                try:
                    result = step()
                except ssl.SSLWantReadError:
                    result = None
                pending = outgoing.read()
                for i in range(len(pending)):
                    connection.sendall(pending[i : i + 1])
                if result is not None:
                    return result
                incoming.write(connection.recv(65536))

        exchange(lambda: engine.do_handshake() or True)
        exchange(lambda: engine.write(b"slow"))
        assert exchange(lambda: engine.read(10)) == b"thanks"
        connection.close()

    async def main() -> None:
        with BlockingServer() as server:
            in_thread(dribble, server)
            transport, protocol = await tls_client(Recorder, server.port)
            assert await protocol.received(4) == b"slow"
            transport.write(b"thanks")
            await protocol.closed.wait()

    run(main())
