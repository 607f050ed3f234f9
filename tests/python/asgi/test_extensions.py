"""The extensions of a scope: files by their path, early hints, and what is known of TLS."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock import asgi
from tests.python.loop.certificates import client_context, server_context

from .http2_client import speaking_http2
from .support import CLOSE, HOST, Client, ask, connected, respond, serving

Run = Callable[..., Any]
SIZE = 1_000_003


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "file"
    file.write_bytes(bytes(range(251)) * (SIZE // 251) + b"\0" * (SIZE % 251))
    return file


def sender(path: Path, headers: list[tuple[bytes, bytes]] | None = None) -> Any:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        assert "http.response.pathsend" in scope["extensions"]
        await send({"type": "http.response.start", "status": 200, "headers": headers or []})
        await send({"type": "http.response.pathsend", "path": str(path)})

    return app


def test_a_file_by_its_path(run: Run, path: Path) -> None:
    async def main() -> None:
        async with serving(sender(path)) as server, connected(server) as client:
            for method in (b"GET", b"HEAD", b"GET"):
                client.writer.write(method + b" / HTTP/1.1\r\n" + HOST + b"\r\n")
                if method == b"HEAD":
                    await client.head()
                    continue
                status, fields, body = await client.response()
                assert (status, fields["content-length"]) == (200, str(SIZE))
                assert body == path.read_bytes()

    run(main())


def test_a_file_behind_a_head_that_has_left(run: Run, path: Path) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await asyncio.sleep(0.01)
        await send({"type": "http.response.pathsend", "path": str(path)})

    async def main() -> None:
        async with serving(app) as server, connected(server) as client:
            for _ in range(2):
                client.writer.write(b"GET / HTTP/1.1\r\n" + HOST + b"\r\n")
                _, fields, body = await client.response()
                assert fields["transfer-encoding"] == "chunked"
                assert body == path.read_bytes()

    run(main())


def test_a_file_over_tls(run: Run, path: Path) -> None:
    async def main() -> None:
        async with serving(sender(path), ssl=server_context()) as server:
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", server.port, ssl=client_context(), server_hostname="localhost"
            )
            writer.write(b"GET / HTTP/1.1\r\n" + CLOSE)
            assert (await Client(reader, writer).response())[2] == path.read_bytes()
            writer.close()

    run(main())


def test_a_file_that_is_not_there(run: Run, path: Path) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        with pytest.raises(FileNotFoundError):
            await send({"type": "http.response.pathsend", "path": str(path) + "x"})
        with pytest.raises(KeyError):
            await send({"type": "http.response.pathsend"})
        await send({"type": "http.response.body", "body": b"other"})

    async def main() -> None:
        assert (await ask(app, b"GET / HTTP/1.1\r\n" + CLOSE))[2] == b"other"

    run(main())


def test_a_file_and_a_body_do_not_mix(run: Run, path: Path) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"body", "more_body": True})
        with pytest.raises(RuntimeError, match="only body"):
            await send({"type": "http.response.pathsend", "path": str(path)})
        await send({"type": "http.response.body"})

    async def main() -> None:
        assert (await ask(app, b"GET / HTTP/1.1\r\n" + CLOSE))[2] == b"body"

    run(main())


def test_a_file_of_another_length(run: Run, path: Path) -> None:
    async def main() -> None:
        app = sender(path, [(b"content-length", b"5")])
        async with serving(app) as server, connected(server) as client:
            client.writer.write(b"GET / HTTP/1.1\r\n" + HOST + b"\r\n")
            status, fields, _ = await client.response()
            assert (status, fields["connection"]) == (500, "close")
            assert await client.reader.read() == b""

    run(main())


def absent(path: Path) -> dict[str, Any]:
    return {"type": "http.response.pathsend", "path": f"{path}.absent"}


def of_a_folder(path: Path) -> dict[str, Any]:
    return {"type": "http.response.pathsend", "path": str(path.parent)}


def of_a_pipe(path: Path) -> dict[str, Any]:
    os.mkfifo(pipe := path.parent / "pipe")
    return {"type": "http.response.pathsend", "path": str(pipe)}


def of_no_file(path: Path) -> dict[str, Any]:
    return {"type": "http.response.zerocopysend", "file": None}


@pytest.mark.parametrize("http2", [False, True])
@pytest.mark.parametrize("message", [absent, of_a_folder, of_a_pipe, of_no_file])
def test_a_file_that_cannot_be_opened_is_answered_with_500(
    run: Run, path: Path, message: Any, caplog: pytest.LogCaptureFixture, *, http2: bool
) -> None:
    """The head has promised the file. Nothing of it has left, so it is taken back."""
    sent = message(path)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        headers = [(b"content-length", b"1000"), (b"x-of-the-file", b"1")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send(sent)

    async def main() -> None:
        async with serving(app, http2=http2) as server:
            if http2:
                async with speaking_http2(server) as client2:
                    answer = await client2.answer(client2.ask())
                    assert (answer.status, bytes(answer.body)) == (500, b"Internal Server Error")
                    assert b"x-of-the-file" not in answer.fields
                return
            async with connected(server) as client:
                client.writer.write(b"GET / HTTP/1.1\r\n" + HOST + b"\r\n")
                status, fields, body = await client.response()
                assert (status, body) == (500, b"Internal Server Error")
                assert fields["connection"] == "close"
                assert "x-of-the-file" not in fields
                assert await client.reader.read() == b""

    run(main())
    assert "Exception in ASGI application" in caplog.text


@pytest.mark.parametrize("in_a_task", [False, True])
def test_a_head_whose_file_is_missing_does_not_wait(
    run: Run, path: Path, *, in_a_task: bool
) -> None:
    """It leaves when the application waits, as any head whose body comes later."""

    async def main() -> None:
        seen = asyncio.Event()

        async def app(scope: Any, receive: Any, send: Any) -> None:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            with pytest.raises(FileNotFoundError):
                sending = send(absent(path))
                await (asyncio.create_task(sending) if in_a_task else sending)
            await seen.wait()
            await send({"type": "http.response.body", "body": b"other"})

        async with serving(app) as server, connected(server) as client:
            client.writer.write(b"GET / HTTP/1.1\r\n" + CLOSE)
            assert (await client.head())[0] == 200
            seen.set()
            assert await client.reader.read() == b"5\r\nother\r\n0\r\n\r\n"

    run(main())


@pytest.mark.parametrize("http2", [False, True])
def test_a_file_that_breaks_off_ends_the_response(run: Run, tmp_path: Path, *, http2: bool) -> None:
    """No other part may follow: the client would take it for the rest of the file."""
    path = tmp_path / "shrinking"
    size = 64 << 20
    with path.open("wb") as file:
        file.truncate(size)

    async def main() -> None:
        ended = asyncio.get_running_loop().create_future()

        async def app(scope: Any, receive: Any, send: Any) -> None:
            headers = [(b"content-length", b"%d" % size)]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            with pytest.raises(RuntimeError, match="became shorter"):
                await send({"type": "http.response.pathsend", "path": str(path)})
            with pytest.raises(asgi.ClientDisconnected):
                await send({"type": "http.response.body", "body": b"other"})
            ended.set_result(None)

        async with serving(app, http2=http2) as server:
            if http2:
                async with speaking_http2(server) as client2:
                    stream = client2.ask()
                    while not client2.answers[stream].body:
                        await client2.read()
                    os.truncate(path, 0)
                    answer = await client2.answer(stream)
                    assert answer.reset is not None
                    assert b"other" not in answer.body
            else:
                async with connected(server) as client:
                    client.writer.write(b"GET / HTTP/1.1\r\n" + HOST + b"\r\n")
                    await client.head()
                    os.truncate(path, 0)
                    body = await client.reader.read()
                    assert len(body) < size
                    assert b"other" not in body
            await ended

    run(main())


@pytest.mark.parametrize("version", [b"1.1", b"1.0"])
def test_early_hints(run: Run, version: bytes) -> None:
    hint = {"type": "http.response.early_hint", "links": [b"</a>; rel=preload", b"</b>"]}

    async def app(scope: Any, receive: Any, send: Any) -> None:
        assert "http.response.early_hint" in scope["extensions"]
        await send(hint)
        with pytest.raises(ValueError, match="cannot be sent"):
            await send({**hint, "links": [b"a\r\nb: c"]})
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send(hint)
        await send({"type": "http.response.body", "body": b"one", "more_body": True})
        await send(hint)  # too late: it is left out
        await send({"type": "http.response.body", "body": b"two"})

    async def main() -> None:
        async with serving(app) as server, connected(server) as client:
            client.writer.write(b"GET / HTTP/" + version + b"\r\n" + CLOSE)
            hints = b"HTTP/1.1 103 Early Hints\r\nlink: </a>; rel=preload\r\nlink: </b>\r\n\r\n"
            answer = await client.reader.read()
            assert answer.count(hints) == (2 if version == b"1.1" else 0)
            assert answer.removeprefix(hints * 2).startswith(b"HTTP/1.1 200 OK\r\n")

    run(main())


def test_what_is_known_of_tls(run: Run) -> None:
    seen = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append((scope["scheme"], scope["extensions"]["tls"]))
        await respond(send)

    async def main() -> None:
        async with serving(app, ssl=server_context()) as server:
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", server.port, ssl=client_context(), server_hostname="localhost"
            )
            writer.write(b"GET / HTTP/1.1\r\n" + CLOSE)
            await reader.read()
            writer.close()

    run(main())
    ((scheme, tls),) = seen
    assert scheme == "https"
    assert tls["tls_version"] == 0x0304
    assert tls["cipher_suite"] in (0x1301, 0x1302, 0x1303)
    assert tls["client_cert_chain"] == []
    assert {"server_cert", "client_cert_name", "client_cert_error"} <= tls.keys()


def parts_sender(path: Path, *parts: dict[str, Any], headers: Any = ()) -> Any:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        assert "http.response.zerocopysend" in scope["extensions"]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        with path.open("rb") as file:
            for part in parts:
                if "body" in part:
                    await send({"type": "http.response.body", **part})
                else:
                    await send({"type": "http.response.zerocopysend", "file": file, **part})

    return app


def test_parts_of_a_file_among_parts_of_a_body(run: Run, path: Path) -> None:
    whole = path.read_bytes()
    app = parts_sender(
        path,
        {"offset": 5, "count": 10, "more_body": True},
        {"body": b"between", "more_body": True},
        {"count": 3, "more_body": True},  # at the file's position, which an offset does not move
        {"count": 0, "more_body": True},
        {"more_body": True},  # from where the last one has ended
        {"body": b"end"},
    )
    expected = whole[5:15] + b"between" + whole + b"end"

    async def main() -> None:
        async with serving(app) as server, connected(server) as client:
            for _ in range(2):
                client.writer.write(b"GET / HTTP/1.1\r\n" + HOST + b"\r\n")
                _, fields, body = await client.response()
                assert fields["transfer-encoding"] == "chunked"
                assert body == expected
            client.writer.write(b"HEAD / HTTP/1.1\r\n" + HOST + b"\r\n")
            await client.head()
            client.writer.write(b"GET / HTTP/1.0\r\n" + HOST + b"\r\n")
            assert (await client.response())[2] == expected

    run(main())


def test_a_part_of_a_file_as_the_whole_body(run: Run, path: Path) -> None:
    app = parts_sender(path, {"offset": 7, "count": 20})
    status, fields, body = run(ask(app, b"GET / HTTP/1.1\r\n" + CLOSE))
    assert (status, fields["content-length"], body) == (200, "20", path.read_bytes()[7:27])


def test_parts_of_a_file_within_a_content_length(
    run: Run, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    parts = ({"count": 10, "more_body": True}, {"count": 6})
    fits = parts_sender(path, *parts, headers=[(b"content-length", b"16")])
    assert run(ask(fits, b"GET / HTTP/1.1\r\n" + CLOSE))[2] == path.read_bytes()[:16]
    assert not caplog.records
    exceeds = parts_sender(path, *parts, headers=[(b"content-length", b"15")])

    async def main() -> None:
        async with serving(exceeds) as server, connected(server) as client:
            client.writer.write(b"GET / HTTP/1.1\r\n" + HOST + b"\r\n")
            await client.head()
            assert await client.reader.read() == path.read_bytes()[:10]

    run(main())
    assert "the file has 6 bytes, and Content-Length leaves 5" in caplog.text
