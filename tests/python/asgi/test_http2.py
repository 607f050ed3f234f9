"""Requests and responses over HTTP/2: with h2 and httpx as clients, and with curl."""

from __future__ import annotations

import asyncio
import os
import shutil
import ssl
from typing import Any

import h2.settings
import httpx
import pytest
import trustme

from penstock import asgi

from .http2_client import (
    CANCEL,
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADERS,
    PREFACE,
    RST_STREAM,
    SETTINGS,
    RawClient,
    frame,
    request_fields,
    sending_frames,
    speaking_http2,
)
from .support import body_of, connected, echo, hello, respond, serving

CERTIFICATES = trustme.CA()


def server_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    CERTIFICATES.issue_cert("localhost").configure_cert(context)
    return context


def client_context(*names: str) -> ssl.SSLContext:
    context = ssl.create_default_context()
    CERTIFICATES.configure_trust(context)
    if names:
        context.set_alpn_protocols(list(names))
    return context


async def ask(app: Any, *fields: Any, **options: Any) -> Any:
    """Serve an application for one request."""
    async with serving(app, http2=True, **options) as server, speaking_http2(server) as client:
        return await client.answer(client.ask(fields or request_fields()))


def test_the_scope_of_a_request(run: Any) -> None:
    scopes = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        scopes.append(scope)
        await respond(send, b"hello", headers=[(b"X-Case", b" spaced ")])

    async def main() -> None:
        fields = request_fields(
            b"/a%20%C3%A9?q=1",
            b"GET",
            (b"x-one", b"1"),
            (b"cookie", b"a=1"),
            (b"x-one", b"2"),
            (b"cookie", b"b=2"),
            (b"te", b"trailers"),
        )
        answer = await ask(app, *fields, root_path="/base")
        assert (answer.status, answer.body, answer.reset) == (200, b"hello", None)
        assert answer.fields[b"x-case"] == b"spaced"
        assert answer.fields[b"content-length"] == b"5"
        assert answer.fields[b"server"] == b"penstock"
        assert b"date" in answer.fields
        assert b"connection" not in answer.fields

    run(main())
    (scope,) = scopes
    assert scope["type"] == "http"
    assert (scope["http_version"], scope["scheme"], scope["method"]) == ("2", "http", "GET")
    assert (scope["path"], scope["raw_path"]) == ("/base/a é", b"/base/a%20%C3%A9")
    assert scope["query_string"] == b"q=1"
    assert scope["headers"] == [
        (b"host", b"test"),
        (b"x-one", b"1"),
        (b"x-one", b"2"),
        (b"te", b"trailers"),
        (b"cookie", b"a=1; b=2"),
    ]
    assert "tls" not in scope["extensions"]


def test_a_repeated_request_has_a_scope_of_its_own(run: Any) -> None:
    scopes = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        scopes.append(scope)
        scope["headers"].append((b"x-added", b"1"))
        await respond(send, scope["path"].encode())

    async def main() -> None:
        async with serving(app, http2=True) as server, speaking_http2(server) as client:
            for path in (b"/a", b"/a", b"/b", b"/a"):
                answer = await client.answer(client.ask(request_fields(path)))
                assert answer.body == path
            assert server.total_requests == 4

    run(main())
    assert [len(scope["headers"]) for scope in scopes] == [2, 2, 2, 2]
    assert len({id(scope) for scope in scopes}) == 4


def test_streams_are_answered_as_their_applications_end(run: Any) -> None:
    async def main() -> None:
        waiting: dict[str, asyncio.Event] = {f"/{n}": asyncio.Event() for n in range(20)}
        tasks = set()

        async def app(scope: Any, receive: Any, send: Any) -> None:
            tasks.add(asyncio.current_task())
            await waiting[scope["path"]].wait()
            await respond(send, scope["path"].encode())

        async with serving(app, http2=True) as server, speaking_http2(server) as client:
            streams = [client.ask(request_fields(b"/%d" % n)) for n in range(20)]
            for number, stream in reversed(list(enumerate(streams))):
                waiting[f"/{number}"].set()
                answer = await client.answer(stream)
                assert answer.body == b"/%d" % number
                assert not any(client.answers[each].ended for each in streams[:number])
        assert len(tasks) == 20

    run(main())


@pytest.mark.parametrize("size", [0, 1, 70_000, 500_000])
def test_a_body_goes_both_ways(run: Any, size: int) -> None:
    body = bytes(range(256)) * (size // 256) + b"x" * (size % 256)

    async def main() -> None:
        async with serving(echo, http2=True) as server, speaking_http2(server) as client:
            stream = client.ask(request_fields(method=b"POST"), ends=False)
            await client.upload(stream, body)
            answer = await client.answer(stream)
            assert (answer.status, bytes(answer.body)) == (200, body)

    run(main())


def test_the_window_of_a_client_holds_from_the_first_response(run: Any) -> None:
    async def main() -> None:
        async def app(scope: Any, receive: Any, send: Any) -> None:
            await respond(send, b"x" * 1000)

        window = {h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 10}
        async with (
            serving(app, http2=True) as server,
            speaking_http2(server, None, window) as client,
        ):
            client.reads = False
            stream = client.ask()
            while not client.answers[stream].body:
                await client.read()
            await client.round_trip()
            assert client.answers[stream].body == b"x" * 10
            client.h2.increment_flow_control_window(990, stream)
            client.flush()
            assert (await client.answer(stream)).body == b"x" * 1000

    run(main())


def test_a_body_that_nobody_receives_waits_at_the_client(run: Any) -> None:
    async def main() -> None:
        begin = asyncio.Event()

        async def app(scope: Any, receive: Any, send: Any) -> None:
            if scope["path"] == "/other":
                await respond(send, b"other")
                return
            await begin.wait()
            await respond(send, b"%d" % len(await body_of(receive)))

        async with serving(app, http2=True) as server, speaking_http2(server) as client:
            stream = client.ask(request_fields(method=b"POST"), ends=False)
            sent = 0
            window = client.settings[4]
            while sent < window:
                sent += client.send(stream, b"x" * (window - sent))
                if sent < window:
                    await client.read()
            assert client.send(stream, b"x") == 0
            other = await client.answer(client.ask(request_fields(b"/other")))
            assert other.body == b"other"  # one that does not read does not stop the others
            assert client.send(stream, b"x") == 0
            begin.set()
            await client.upload(stream, b"x" * 300_000)
            answer = await client.answer(stream)
            assert answer.body == b"%d" % (window + 300_000)

    run(main())


def test_send_waits_while_the_client_takes_nothing(run: Any) -> None:
    async def main() -> None:
        parts = []

        async def app(scope: Any, receive: Any, send: Any) -> None:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            for number in range(100):
                message = {"type": "http.response.body", "body": b"x" * 10_000, "more_body": True}
                await send(message)
                parts.append(number)
            await send({"type": "http.response.body", "body": b""})

        async with serving(app, http2=True) as server, speaking_http2(server) as client:
            client.reads = False
            stream = client.ask()
            answer = client.answers[stream]
            while len(answer.body) < 65_535:
                await client.read()
            await client.round_trip()
            assert len(answer.body) == 65_535
            assert len(parts) < 20
            client.h2.increment_flow_control_window(2_000_000)
            client.h2.increment_flow_control_window(2_000_000, stream)
            client.flush()
            await client.answer(stream)
            assert len(answer.body) == 1_000_000

    run(main())


def test_a_reset_stream_disconnects_its_request_alone(run: Any) -> None:
    async def main() -> None:
        seen: list[Any] = []
        ended = asyncio.Event()

        async def app(scope: Any, receive: Any, send: Any) -> None:
            if scope["path"] == "/other":
                await respond(send, b"other")
                return
            seen.append((await receive())["type"])
            seen.append((await receive())["type"])
            try:
                await respond(send, b"late")
            except asgi.ClientDisconnected as error:
                seen.append(error)
            ended.set()

        async with serving(app, http2=True) as server, speaking_http2(server) as client:
            stream = client.ask()
            await client.answer(client.ask(request_fields(b"/other")))
            client.h2.reset_stream(stream, CANCEL)
            client.flush()
            await ended.wait()
            answer = await client.answer(client.ask(request_fields(b"/other")))
            assert answer.body == b"other"
        assert seen[:2] == ["http.request", "http.disconnect"]
        assert isinstance(seen[2], asgi.ClientDisconnected)

    run(main())


def test_a_lost_connection_disconnects_all_its_requests(run: Any) -> None:
    async def main() -> None:
        begun, gone = asyncio.Semaphore(0), asyncio.Semaphore(0)

        async def app(scope: Any, receive: Any, send: Any) -> None:
            assert (await receive())["type"] == "http.request"
            begun.release()
            assert (await receive())["type"] == "http.disconnect"
            gone.release()

        async with serving(app, http2=True) as server:
            async with speaking_http2(server) as client:
                for _ in range(5):
                    client.ask()
                for _ in range(5):
                    await begun.acquire()
            for _ in range(5):
                await gone.acquire()

    run(main())


def test_an_exception_gives_500_or_resets_the_stream(run: Any) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["path"] == "/late":
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"part", "more_body": True})
        if scope["path"] != "/hello":
            raise ZeroDivisionError
        await hello(scope, receive, send)

    async def main() -> None:
        async with serving(app, http2=True) as server, speaking_http2(server) as client:
            early = await client.answer(client.ask())
            assert (early.status, early.body) == (500, b"Internal Server Error")
            late = await client.answer(client.ask(request_fields(b"/late")))
            assert (late.ended, late.reset) == (False, 2)
            assert (await client.answer(client.ask(request_fields(b"/hello")))).body == b"hello"

    run(main())


def test_a_body_of_another_length_than_announced_resets_the_stream(run: Any) -> None:
    errors = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        try:
            await respond(send, scope["query_string"], headers=[(b"content-length", b"5")])
        except RuntimeError as error:
            errors.append(str(error))
            raise

    async def main() -> None:
        async with serving(app, http2=True) as server, speaking_http2(server) as client:
            whole = await client.answer(client.ask(request_fields(b"/?12345")))
            assert (whole.body, whole.ended) == (b"12345", True)
            for query in (b"1234", b"123456"):
                answer = await client.answer(client.ask(request_fields(b"/?" + query)))
                assert not answer.ended and answer.reset == 2

    run(main())
    assert len(errors) == 2


def test_head_204_and_an_event_stream(run: Any) -> None:
    async def main() -> None:
        more = asyncio.Event()

        async def app(scope: Any, receive: Any, send: Any) -> None:
            if scope["path"] == "/events":
                await send({"type": "http.response.start", "status": 200, "headers": []})
                await more.wait()
                await send({"type": "http.response.body", "body": b"event"})
                return
            status = int(scope["path"][1:])
            await respond(
                send, b"body", status, [(b"connection", b"close"), (b"content-length", b"4")]
            )

        async with serving(app, http2=True) as server, speaking_http2(server) as client:
            answer = await client.answer(client.ask(request_fields(b"/200", b"HEAD")))
            assert (answer.status, answer.body) == (200, b"")
            assert answer.fields[b"content-length"] == b"4"
            assert b"connection" not in answer.fields
            answer = await client.answer(client.ask(request_fields(b"/204")))
            assert (answer.status, answer.body) == (204, b"")
            stream = client.ask(request_fields(b"/events"))
            while not client.answers[stream].status:  # the head leaves before the body is there
                await client.read()
            more.set()
            assert (await client.answer(stream)).body == b"event"

    run(main())


def test_interim_responses(run: Any) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        hint = {"type": "http.response.early_hint", "links": [b"</a>; rel=preload", b"</b>"]}
        await send(hint)
        body = await body_of(receive)
        await respond(send, body)

    async def main() -> None:
        async with serving(app, http2=True) as server, speaking_http2(server) as client:
            fields = request_fields(b"/", b"POST", (b"expect", b"100-continue"))
            stream = client.ask(fields, ends=False)
            answer = client.answers[stream]
            while len(answer.interim) < 2:
                await client.read()
            assert [status for status, _ in answer.interim] == [103, 100]
            await client.upload(stream, b"body")
            assert (await client.answer(stream)).body == b"body"

    run(main())


def test_the_rest_of_a_body_is_refused_after_the_response(run: Any) -> None:
    async def main() -> None:
        async with serving(hello, http2=True) as server, speaking_http2(server) as client:
            stream = client.ask(request_fields(method=b"POST"), ends=False)
            client.send(stream, b"x" * 1000)
            answer = await client.answer(stream)
            assert (answer.status, answer.body) == (200, b"hello")
            while answer.reset is None:
                await client.read()
            assert answer.reset == 0
            assert (await client.answer(client.ask())).body == b"hello"

    run(main())


def test_trailers_end_a_body_and_are_dropped(run: Any) -> None:
    async def main() -> None:
        async with serving(echo, http2=True) as server, speaking_http2(server) as client:
            stream = client.ask(request_fields(method=b"POST"), ends=False)
            client.send(stream, b"body")
            client.h2.send_headers(stream, [(b"x-trailer", b"1")], end_stream=True)
            client.flush()
            assert (await client.answer(stream)).body == b"body"

    run(main())


def test_a_file_is_the_body(run: Any, tmp_path: Any) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"0123456789" * 50_000)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.pathsend", "path": str(path) + scope["path"][1:]})

    async def main() -> None:
        async with serving(app, http2=True) as server, speaking_http2(server) as client:
            answer = await client.answer(client.ask())
            assert answer.body == path.read_bytes()
            assert answer.fields[b"content-length"] == b"500000"
            answer = await client.answer(client.ask(request_fields(b"/", b"HEAD")))
            assert (answer.status, answer.body) == (200, b"")
            answer = await client.answer(client.ask(request_fields(b"/missing")))
            assert answer.status == 500 or answer.reset == 2

    run(main())


def test_the_server_goes_away_after_its_last_stream(run: Any) -> None:
    async def main() -> None:
        begun, go = asyncio.Event(), asyncio.Event()

        async def app(scope: Any, receive: Any, send: Any) -> None:
            begun.set()
            await go.wait()
            await respond(send, b"last")

        async with serving(app, http2=True) as server:
            async with speaking_http2(server) as idle, sending_frames(server) as raw:
                raw.write(frame(HEADERS, END_HEADERS | END_STREAM, 1, raw.head()))
                await begun.wait()
                server.close()
                assert await idle.until_closed() == (0, 0)
                _, _, _, payload = await raw.next_of(GOAWAY)
                assert payload[:8] == b"\0\0\0\1\0\0\0\0"
                go.set()
                _, _, stream, payload = await raw.next_of(DATA)
                assert (stream, payload) == (1, b"last")
                assert await raw.reader.read() == b""
            await server.wait_closed()

    run(main())


async def server_reads() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


def test_the_preface_may_come_in_pieces_and_http_1_1_is_still_spoken(run: Any) -> None:
    async def main() -> None:
        async with serving(hello, http2=True) as server:
            async with connected(server) as client:
                client.writer.write(b"GET / HTTP/1.1\r\nHost: test\r\n\r\n")
                assert (await client.response())[2] == b"hello"
                client.writer.write(b"PUT / HTTP/1.1\r\nHost: test\r\n\r\n")
                assert (await client.response())[2] == b"hello"
            async with connected(server) as client:
                for piece in (b"P", b"R", b"OPFIND / HTTP/1.1\r\nHost: test\r\n\r\n"):
                    client.writer.write(piece)
                    await server_reads()
                assert (await client.response())[2] == b"hello"
            async with connected(server) as client:
                raw = RawClient(client.reader, client.writer, begins=False)
                head = frame(HEADERS, END_HEADERS | END_STREAM, 1, raw.head())
                for byte in PREFACE + frame(SETTINGS, 0, 0) + head:
                    raw.write(bytes([byte]))
                    await server_reads()
                assert (await raw.next_of(HEADERS))[1] & END_STREAM == 0

    run(main())


@pytest.mark.parametrize("size", [1, 30, 100])
def test_heads_come_in_pieces(run: Any, size: int) -> None:
    """The end of one may come together with the beginning of the next one."""
    scopes = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        scopes.append((scope["path"], dict(scope["headers"])[b"x-number"]))
        await respond(send)

    async def main() -> None:
        async with serving(app, http2=True) as server, sending_frames(server) as client:
            frames = b"".join(
                frame(
                    HEADERS,
                    END_HEADERS | END_STREAM,
                    stream,
                    client.head((b"x-number", b"%d" % stream * 20), path=b"/%d" % stream),
                )
                for stream in (1, 3, 5)
            )
            for begin in range(0, len(frames), size):
                client.write(frames[begin : begin + size])
                await server_reads()
            for _ in range(3):
                await client.next_of(HEADERS)
        assert scopes == [(f"/{stream}", b"%d" % stream * 20) for stream in (1, 3, 5)]

    run(main())


def test_without_the_option_the_preface_is_no_request(run: Any) -> None:
    async def main() -> None:
        async with serving(hello) as server, connected(server) as client:
            client.writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
            status, _, _ = await client.response()
            assert status in (400, 505)

    run(main())


@pytest.mark.parametrize(
    "fields",
    [
        request_fields(b"/", b"CONNECT")[:1] + request_fields()[2:3],
        request_fields(b"/", b"GET", (b"host", b"other")),
    ],
)
def test_requests_that_are_refused(run: Any, fields: Any) -> None:
    async def main() -> None:
        async with serving(hello, http2=True) as server, sending_frames(server) as raw:
            head = bytes(raw.encoder.encode(fields))
            raw.write(b"\0\0%c\x01\x05\0\0\0\x01" % len(head) + head)
            kind, _, _, payload = await raw.next_of(HEADERS, RST_STREAM)
            assert kind == RST_STREAM or b"400" in payload or payload[0] == 0x8C  # :status 400

    run(main())


def test_tls_by_the_name_that_the_client_chooses(run: Any) -> None:
    versions = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        versions.append((scope["http_version"], scope["scheme"], "tls" in scope["extensions"]))
        await respond(send, b"hello")

    async def main() -> None:
        async with serving(app, http2=True, ssl=server_context()) as server:
            async with speaking_http2(server, client_context("h2")) as client:
                assert (await client.answer(client.ask())).body == b"hello"
            for http2 in (True, False):
                async with httpx.AsyncClient(http2=http2, verify=client_context()) as client:
                    response = await client.get(f"https://localhost:{server.port}/")
                    assert response.http_version == ("HTTP/2" if http2 else "HTTP/1.1")
                    assert response.text == "hello"

    run(main())
    assert versions == [("2", "https", True), ("2", "https", True), ("1.1", "https", True)]


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_curl(run: Any, tmp_path: Any) -> None:
    body = b"0123456789" * 100_000
    (tmp_path / "body").write_bytes(body)

    async def main() -> None:
        async with serving(echo, http2=True) as server:
            process = await asyncio.create_subprocess_exec(
                "curl",
                *("-sS", "--http2-prior-knowledge", "--data-binary", f"@{tmp_path}/body"),
                *("-o", f"{tmp_path}/answer", "-w", "%{http_version} %{http_code}"),
                f"http://127.0.0.1:{server.port}/",
                stdout=asyncio.subprocess.PIPE,
                env={name: value for name, value in os.environ.items() if name != "LD_PRELOAD"},
            )
            output, _ = await process.communicate()
            assert output == b"2 200"
        assert (tmp_path / "answer").read_bytes() == body

    run(main())


def test_a_task_that_receives_is_told_of_a_head_without_its_end(run: Any) -> None:
    """The application fails after the head of a response without a body, which is whole."""
    told = []

    async def wait_for_message(receive: Any) -> None:
        told.append((await receive())["type"])

    async def app(scope: Any, receive: Any, send: Any) -> None:
        waiting = asyncio.ensure_future(wait_for_message(receive))
        tasks.append(waiting)
        await asyncio.sleep(0)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        raise ZeroDivisionError

    tasks: list[asyncio.Task[None]] = []

    async def main() -> None:
        async with serving(app, http2=True) as server, speaking_http2(server) as client:
            stream = client.ask(request_fields(method=b"HEAD"), ends=False)
            while not client.answers[stream].ended:
                await client.read()
            await asyncio.wait(tasks)
        assert told == ["http.disconnect"]

    run(main())
