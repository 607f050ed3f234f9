"""Requests of the sinks over HTTP, to a server that answers by a script."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trustme

import penstock
from penstock.record._network import loop_thread
from penstock.record._network.http_post import HttpPost
from penstock.record._network.influx_sink import InfluxAddress, InfluxTransport
from penstock.record._network.loop_thread import LoopThread
from penstock.record._network.protocol import Away, Misconfigured
from penstock.record._network.rows import RefusedRows
from penstock.record._network.server import Secret, Trust

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]


@asynccontextmanager
async def server(talk: Talk, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """A server on a port of its own, which leaves each connection to ``talk``."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await talk(reader, writer)
        except (OSError, EOFError):
            pass
        finally:
            writer.transport.abort()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    async with listening:
        yield listening.sockets[0].getsockname()[1]


async def read_request(reader: asyncio.StreamReader) -> None:
    head = await reader.readuntil(b"\r\n\r\n")
    size = next(line for line in head.split(b"\r\n") if line.startswith(b"Content-Length"))
    await reader.readexactly(int(size.split(b":")[1]))


def answering(*pieces: bytes) -> Talk:
    """Sends each piece once the one before has been read, then closes."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0.01)  # so that it is a segment of its own
        writer.close()
        await writer.wait_closed()

    return talk


def transport(port: int, folder: Path) -> InfluxTransport:
    return InfluxTransport(
        InfluxAddress.parse(f"influx://127.0.0.1:{port}/lab"),
        HttpPost("127.0.0.1", port, None, 30),
        Secret(),
        Secret(),
        Secret(),
        RefusedRows(folder / "refused"),
    )


def test_a_body_without_a_length_is_read_to_its_end() -> None:
    async def main() -> None:
        async with server(answering(b"HTTP/1.0 400 Bad\r\n\r\none,", b" two,", b" three")) as port:
            answer = await HttpPost("127.0.0.1", port, None, 30).post("/", {}, b"x")
        assert (answer.status, answer.body) == (400, b"one, two, three")

    penstock.run(main())


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        pytest.param(
            b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n",
            "speaks TLS: write influxs://",
            id="a server of HTTPS",
        ),
        # A router, a proxy or the wrong port: taken for a success, the rows would leave the spool.
        pytest.param(
            b"HTTP/1.0 200 OK\r\nContent-Length: 20\r\n\r\n<html>Welcome</html>",
            "answered 200: .*address is that of",
            id="a page",
        ),
        pytest.param(
            b'HTTP/1.0 200 OK\r\nContent-Length: 20\r\n\r\n{"error": "timeout"}',
            "answered 200: .*address is that of",
            id="another program's answer",
        ),
        pytest.param(
            b"HTTP/1.0 307 Moved\r\nLocation: https://lab/x\r\nContent-Length: 0\r\n\r\n",
            "307 and refers to https://lab/x:",
            id="a redirect, which is not followed",
        ),
    ],
)
def test_an_answer_that_is_not_influxdbs_is_a_mistake_of_the_address_and_refuses_no_rows(
    tmp_path: Path, said: bytes, reason: str
) -> None:
    async def main() -> None:
        async with server(answering(said)) as port:
            sender = transport(port, tmp_path)
            for attempt in (sender.check, lambda: sender.send(b"")):
                with pytest.raises(Misconfigured, match=reason):
                    await attempt()

    penstock.run(main())
    assert not (tmp_path / "refused").exists()


def test_a_success_without_a_word_is_one(tmp_path: Path) -> None:
    async def main() -> None:
        for said in (b"HTTP/1.0 204 No Content\r\n\r\n", b"HTTP/1.0 200 OK\r\n\r\n"):
            async with server(answering(said)) as port:
                assert await transport(port, tmp_path).send(b"") == 0

    penstock.run(main())


def test_a_certificate_of_nobody_is_a_mistake_and_no_outage() -> None:
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)

    async def main() -> None:
        async with server(answering(b"HTTP/1.1 204 No\r\n\r\n"), context) as port:
            stranger = HttpPost("127.0.0.1", port, Trust(None), 30)
            with pytest.raises(Misconfigured, match=r"not trusted \(.+\): name the .* ca_file"):
                await stranger.post("/", {}, b"x")

    penstock.run(main())


def test_a_certificate_that_is_replaced_during_a_run_is_trusted_with_its_file(
    tmp_path: Path,
) -> None:
    """Else the rows of a night would wait for a restart of the recorder."""
    first, second = trustme.CA(), trustme.CA()
    file = tmp_path / "ca.pem"
    first.cert_pem.write_to_path(str(file))
    trust = Trust(file)
    told = b"HTTP/1.1 204 No\r\nConnection: close\r\n\r\n"

    def context_of(authority: trustme.CA) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("127.0.0.1").configure_cert(context)
        return context

    async def asked(authority: trustme.CA) -> int:
        async with server(answering(told), context_of(authority)) as port:
            return (await HttpPost("127.0.0.1", port, trust, 30).post("/", {}, b"x")).status

    async def main() -> None:
        assert await asked(first) == 204
        with pytest.raises(Misconfigured, match="not trusted"):
            await asked(second)
        file.write_text("")  # as it is, while it is written
        assert await asked(first) == 204
        second.cert_pem.write_to_path(str(file))
        assert await asked(second) == 204
        with pytest.raises(Misconfigured, match="not trusted"):
            await asked(first)

    penstock.run(main())


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 204",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"HTTP/1.1 400 Bad\r\nContent-Length: 90\r\n\r\ncut off",
        b"HTTP/1.1 400 Bad\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 400 Bad\r\nContent-Length: 99999999999\r\n\r\n",
        b"HTTP/1.1 400 Bad\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\n",
        b"HTTP/1.1 400 Bad\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 204 No\r\n" + b"a: b\r\n" * 9 + b"x" * 70_000,
    ],
)
def test_an_answer_that_is_none_is_an_outage(answer: bytes) -> None:
    async def main() -> None:
        async with server(answering(answer)) as port:
            with pytest.raises(Away) as away:
                await HttpPost("127.0.0.1", port, None, 30).post("/", {}, b"x")
        assert not isinstance(away.value, Misconfigured)

    penstock.run(main())


@pytest.mark.parametrize("head", [b"Content-Length: 3000000", b"Transfer-Encoding: chunked"])
def test_a_complaint_about_each_of_many_lines_is_read_in_part(head: bytes) -> None:
    """And is no outage, after which the same lines would be sent, and refused, forever."""
    body = b"x" * 3_000_000
    if b"chunked" in head:
        body = b"%x\r\n" % len(body) + body + b"\r\n0\r\n\r\n"
    said = b"HTTP/1.1 400 Bad\r\n" + head + b"\r\n\r\n" + body

    async def main() -> None:
        async with server(answering(said)) as port:
            http = HttpPost("127.0.0.1", port, None, 30)
            for _ in range(2):
                answer = await http.post("/", {}, b"x")
                assert (answer.status, answer.body) == (400, b"x" * (1 << 20))

    penstock.run(main())


def test_an_answer_before_the_end_of_the_request_counts(tmp_path: Path) -> None:
    """A server that refuses what is too long reads no more of it, and closes."""

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        await writer.drain()

    async def main() -> None:
        async with server(refuse) as port:
            answer = await HttpPost("127.0.0.1", port, None, 30).post("/", {}, bytes(16 << 20))
        assert answer.status == 413

    penstock.run(main())


def test_a_loop_that_cannot_begin_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> asyncio.AbstractEventLoop:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(loop_thread, "new_event_loop", refuse)
    with pytest.raises(OSError, match="Too many open files"):
        LoopThread("test").start()
