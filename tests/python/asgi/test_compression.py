"""Compressed responses: which, and what else changes in them."""

from __future__ import annotations

import asyncio
import gzip
import importlib
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.asgi._codings import accepted_codings
from penstock.asgi._compression import Compressed

from .support import CLOSE, HOST, ask, connected, respond, serving

Run = Callable[..., Any]
TEXT = b"compress me " * 100
HTML = (b"content-type", b"text/html; charset=utf-8")


def responder(body: bytes, *headers: tuple[bytes, bytes], status: int = 200) -> Any:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await respond(send, body, status, list(headers))

    return app


def get(run: Run, app: Any, accepted: str = "gzip") -> tuple[int, dict[str, str], bytes]:
    request = f"GET / HTTP/1.1\r\nAccept-Encoding: {accepted}\r\n".encode() + CLOSE
    return run(ask(Compressed(app), request))  # type: ignore[no-any-return]


def test_a_whole_body(run: Run) -> None:
    app = responder(
        TEXT, HTML, (b"ETag", b'"a"'), (b"content-length", b"1200"), (b"vary", b"cookie")
    )
    _, fields, body = get(run, app)
    assert gzip.decompress(body) == TEXT
    assert fields["content-length"] == str(len(body))
    assert fields["etag"] == 'W/"a"'
    assert fields["vary"] == "cookie, accept-encoding"
    _, fields, body = get(run, app, "identity")
    assert (body, fields["etag"], fields.get("content-encoding")) == (TEXT, '"a"', None)
    assert fields["vary"] == "cookie, accept-encoding"


@pytest.mark.parametrize("accepted", ["gzip", "identity"])
def test_headers_that_can_be_read_once(run: Run, accepted: str) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        headers: Any = iter([HTML, (b"x-own", b"1")])
        await respond(send, TEXT, 200, headers)

    _, fields, body = get(run, app, accepted)
    assert (fields["content-type"], fields["x-own"]) == ("text/html; charset=utf-8", "1")
    assert (gzip.decompress(body) if accepted == "gzip" else body) == TEXT


@pytest.mark.parametrize("coding", ["br", "zstd"])
def test_other_codings(run: Run, coding: str) -> None:
    module: Any = pytest.importorskip({"br": "brotli", "zstd": "zstandard"}[coding])

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [HTML]})
        for part in (TEXT, b"", TEXT):
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b"end"})

    _, fields, body = get(run, app, f"gzip;q=0.5, {coding}")
    assert fields["content-encoding"] == coding
    if coding == "br":
        assert module.decompress(body) == TEXT * 2 + b"end"
    else:
        assert module.ZstdDecompressor().decompressobj().decompress(body) == TEXT * 2 + b"end"


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b"short", [HTML], 200),
        (TEXT, [(b"content-type", b"image/png")], 200),
        (TEXT, [], 200),
        (TEXT, [HTML, (b"content-encoding", b"br")], 200),
        (TEXT, [HTML, (b"cache-control", b"public, no-transform")], 200),
        (TEXT, [HTML, *((b"cache-control", b) for b in (b"private", b"No-Transform"))], 200),
        (TEXT, [HTML, (b"content-range", b"bytes 0-1199/5000")], 206),
    ],
)
def test_what_is_left_as_it_is(run: Run, body: bytes, headers: Any, status: int) -> None:
    answer = get(run, responder(body, *headers, status=status))
    assert answer[::2] == (status, body)
    assert answer[1].get("content-encoding") in (None, "br")
    assert "etag" not in answer[1]


def test_each_part_of_a_stream_can_be_read_at_once(run: Run) -> None:
    async def main() -> None:
        go_on = asyncio.Event()

        async def app(scope: Any, receive: Any, send: Any) -> None:
            headers = [(b"content-type", b"text/event-stream")]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await go_on.wait()
            await send({"type": "http.response.body", "body": b"data: 1\n\n", "more_body": True})
            go_on.clear()
            await go_on.wait()
            await send({"type": "http.response.body", "body": b"data: 2\n\n"})

        async with serving(Compressed(app)) as server, connected(server) as client:
            client.writer.write(b"GET / HTTP/1.1\r\nAccept-Encoding: gzip\r\n" + CLOSE)
            assert (await client.head())[1]["content-encoding"] == "gzip"
            go_on.set()
            reading = zlib.decompressobj(31)
            size = int(await client.reader.readuntil(b"\r\n"), 16)
            assert reading.decompress(await client.reader.readexactly(size)) == b"data: 1\n\n"
            go_on.set()
            await client.reader.readuntil(b"\r\n")
            size = int(await client.reader.readuntil(b"\r\n"), 16)
            assert reading.decompress(await client.reader.readexactly(size)) == b"data: 2\n\n"
            assert reading.eof

    run(main())


def test_a_large_body_and_a_head_request(run: Run) -> None:
    large = TEXT * 200
    assert gzip.decompress(get(run, responder(large, HTML))[2]) == large

    async def main() -> None:
        app = Compressed(responder(TEXT, HTML, (b"content-length", b"1200")))
        async with serving(app) as server, connected(server) as client:
            client.writer.write(b"HEAD / HTTP/1.1\r\nAccept-Encoding: gzip\r\n" + HOST + b"\r\n")
            _, fields = await client.head()
            assert fields["content-encoding"] == "gzip"
            assert "content-length" not in fields

    run(main())


@pytest.mark.parametrize("body", [TEXT, TEXT * 3])
def test_a_body_of_another_length_than_announced(
    run: Run, body: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """The client sees that it is not whole."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        headers = [HTML, (b"content-length", b"%d" % (len(TEXT) * 2))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": TEXT, "more_body": True})
        await send({"type": "http.response.body", "body": body[len(TEXT) :]})

    with pytest.raises(asyncio.IncompleteReadError):
        get(run, app)
    assert f"Response content {'shorter' if body == TEXT else 'longer'}" in caplog.text


def test_a_second_start_is_refused(run: Run) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        start = {"type": "http.response.start", "status": 200, "headers": [HTML]}
        await send(start)
        with pytest.raises(RuntimeError, match=r"but got 'http\.response\.start'"):
            await send({**start, "status": 500})
        await send({"type": "http.response.body", "body": b"first"})

    status, _, body = get(run, app)
    assert (status, body) == (200, b"first")


def test_files_of_the_kernel_are_left_as_they_are(run: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(TEXT)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [HTML]})
        await send({"type": "http.response.pathsend", "path": str(tmp_path / "file")})

    _, fields, body = get(run, app)
    assert (body, fields["vary"]) == (TEXT, "accept-encoding")


def test_gzip_needs_no_package(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", refuse)
    assert Compressed(responder(b"")).codings == ("gzip",)


@pytest.mark.parametrize(
    ("accepted", "expected"),
    [
        (None, []),
        ("", []),
        ("gzip", ["gzip"]),
        ("x-gzip", ["gzip"]),
        ("GZIP, br", ["br", "gzip"]),
        ("br;q=0.2, gzip;q=0.8", ["gzip", "br"]),
        ("br; q=0", []),
        ("br;q=x", []),
        ("br;q=2", []),
        ("*", ["br", "gzip"]),
        ("*;q=0.1, gzip", ["gzip", "br"]),
        ("identity", []),
    ],
)
def test_accepted_codings(accepted: str | None, expected: list[str]) -> None:
    headers = [] if accepted is None else [(b"accept-encoding", accepted.encode())]
    assert accepted_codings(headers, ("br", "gzip")) == expected
