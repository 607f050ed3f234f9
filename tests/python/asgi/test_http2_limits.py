"""Attacks on HTTP/2, by frames that no client sends, and what the server does about them."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from .http2_client import (
    CANCEL,
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    ENHANCE_YOUR_CALM,
    GOAWAY,
    HEADERS,
    PING,
    PRIORITY,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    frame,
    request_fields,
    sending_frames,
    speaking_http2,
    until,
)
from .support import body_of, hello, respond, serving

WHOLE = END_HEADERS | END_STREAM


def word(number: int) -> bytes:
    return number.to_bytes(4, "big")


class Counting:
    """An application that counts how often it runs at once, and ends when its client goes."""

    def __init__(self) -> None:
        self.runs = self.most = self.begun = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.begun += 1
        self.runs += 1
        self.most = max(self.most, self.runs)
        try:
            while (await receive())["type"] != "http.disconnect":
                pass
        finally:
            self.runs -= 1


def test_rapid_resets_end_the_connection(run: Any) -> None:
    """CVE-2023-44487."""
    app = Counting()

    async def main() -> None:
        async with serving(app, http2=True) as server, sending_frames(server) as raw:
            for stream in range(1, 2001, 2):
                head = frame(HEADERS, WHOLE, stream, raw.head())
                raw.write(head, frame(RST_STREAM, 0, stream, word(CANCEL)))
            assert await raw.goaway() == ENHANCE_YOUR_CALM
            assert app.begun <= 200
            assert app.most <= 100

    run(main())


def test_applications_of_reset_streams_count(run: Any) -> None:
    """A reset ends a stream at once, and its application only when that looks."""

    async def main() -> None:
        go, begun = asyncio.Event(), []

        async def app(scope: Any, receive: Any, send: Any) -> None:
            begun.append(scope["path"])
            await go.wait()

        async with serving(app, http2=True) as server, sending_frames(server) as raw:
            streams = range(1, 301, 2)
            for stream in streams:
                raw.write(frame(HEADERS, WHOLE, stream, raw.head()))
                raw.write(frame(PING, 0, 0, bytes(8)))
                await raw.next_of(PING)
                raw.write(frame(RST_STREAM, 0, stream, word(CANCEL)))
            raw.write(frame(PING, 0, 0, bytes(8)))
            await raw.next_of(PING)
            assert len(begun) == 100
            go.set()
            await until(lambda: not server.native.tasks)
            raw.write(frame(HEADERS, WHOLE, 1001, raw.head()), frame(PING, 0, 0, bytes(8)))
            await raw.next_of(HEADERS, RST_STREAM, stream=1001)
            assert len(begun) == 101

    run(main())


@pytest.mark.parametrize("provoke", ["window", "data", "length"])
def test_resets_that_the_client_provokes_end_the_connection(run: Any, provoke: str) -> None:
    """CVE-2025-8671: the server resets, and the applications would go on."""
    app = Counting()

    async def main() -> None:
        async with serving(app, http2=True) as server, sending_frames(server) as raw:
            for stream in range(1, 2001, 2):
                if provoke == "window":
                    raw.write(
                        frame(HEADERS, WHOLE, stream, raw.head()),
                        frame(WINDOW_UPDATE, 0, stream, word(0x7FFFFFFF)),
                    )
                elif provoke == "data":
                    raw.write(
                        frame(HEADERS, WHOLE, stream, raw.head()), frame(DATA, 0, stream, b"x")
                    )
                else:
                    head = raw.head((b"content-length", b"1"), method=b"POST")
                    raw.write(
                        frame(HEADERS, END_HEADERS, stream, head),
                        frame(DATA, END_STREAM, stream, b"xx"),
                    )
            assert await raw.goaway() != 0
            assert app.begun <= 300

    run(main())


def test_too_many_streams_at_once_are_refused(run: Any) -> None:
    app = Counting()

    async def main() -> None:
        async with serving(app, http2=True) as server, sending_frames(server) as raw:
            for stream in range(1, 241, 2):
                raw.write(frame(HEADERS, WHOLE, stream, raw.head()))
            refused = 0
            for _ in range(20):
                _, _, _, payload = await raw.next_of(RST_STREAM)
                refused += payload == word(7)
            assert refused == 20
            await until(lambda: app.runs == 100)
            raw.write(frame(PING, 0, 0, bytes(8)))
            await raw.next_of(PING)
            assert app.begun == 100

    run(main())


@pytest.mark.parametrize("size", [0, 1000])
def test_endless_continuations_end_the_connection(run: Any, size: int) -> None:
    """CVE-2024-27316, CVE-2024-28182."""
    app = Counting()

    async def main() -> None:
        async with serving(app, http2=True) as server, sending_frames(server) as raw:
            raw.write(frame(HEADERS, END_STREAM, 1, raw.head()))
            field = bytes(raw.encoder.encode([(b"x-field", b"a" * size)]))
            for _ in range(1000):
                raw.write(frame(CONTINUATION, 0, 1, field if size else b""))
            assert await raw.goaway() != 0
        assert app.begun == 0

    run(main())


@pytest.mark.parametrize(
    "flood",
    [
        frame(PING, 0, 0, bytes(8)),
        frame(PING, 1, 0, bytes(8)),
        frame(SETTINGS, 0, 0),
        frame(SETTINGS, 0, 0, b"\0\3\0\0\0\1"),
        frame(PRIORITY, 0, 3, b"\0\0\0\1\1"),
        frame(WINDOW_UPDATE, 0, 0, word(1)),
        frame(0xAA, 0, 0, b"unknown"),
        frame(DATA, 0, 1),
    ],
    ids=["ping", "ack", "empty-settings", "settings", "priority", "window", "unknown", "data"],
)
@pytest.mark.parametrize("reads", [True, False])
def test_a_flood_of_frames_ends_the_connection(run: Any, flood: bytes, reads: bool) -> None:
    """CVE-2019-9512, CVE-2019-9515, CVE-2019-9518, CVE-2019-9513."""

    async def main() -> None:
        async with serving(Counting(), http2=True) as server, sending_frames(server) as raw:
            raw.write(frame(HEADERS, END_HEADERS, 1, raw.head(method=b"POST")))
            if not reads:
                raw.writer.transport.pause_reading()  # type: ignore[attr-defined]
            raw.write(flood * 3000)
            if reads:
                assert await raw.goaway() == ENHANCE_YOUR_CALM
            else:
                raw.writer.write_eof()
                await until(lambda: not server.open_connections)

    run(main())


def test_ordinary_updates_of_windows_are_no_flood(run: Any) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await respond(send, b"x" * 3_000_000)

    async def main() -> None:
        async with serving(app, http2=True) as server, sending_frames(server) as raw:
            raw.write(frame(HEADERS, WHOLE, 1, raw.head()))
            received = 0
            while received < 3_000_000:
                kind, _, _, payload = await raw.next()
                assert kind != GOAWAY
                if kind == DATA:
                    received += len(payload)
                    for part in (len(payload) // 2, len(payload) - len(payload) // 2):
                        if part:
                            update = word(part)
                            raw.write(frame(WINDOW_UPDATE, 0, 0, update))
                            raw.write(frame(WINDOW_UPDATE, 0, 1, update))

    run(main())


def test_many_settings_in_one_frame_end_the_connection(run: Any) -> None:
    """CVE-2020-11080."""

    async def main() -> None:
        async with serving(hello, http2=True) as server, sending_frames(server) as raw:
            raw.write(frame(SETTINGS, 0, 0, b"\0\3\0\0\0\1" * 2400))
            assert await raw.goaway() != 0

    run(main())


def test_a_bomb_of_indexed_fields_gets_431(run: Any) -> None:
    """CVE-2016-6581: one byte names a field of 4 KiB that was sent once."""
    app = Counting()

    async def main() -> None:
        async with serving(app, http2=True) as server, sending_frames(server) as raw:
            large = bytes(raw.encoder.encode([(b"x-bomb", b"a" * 3900)]))
            again = bytes(raw.encoder.encode([(b"x-bomb", b"a" * 3900)]))
            assert len(again) == 1
            raw.write(frame(HEADERS, WHOLE, 1, raw.head() + large + again * 12_000))
            _, _, _, payload = await raw.next_of(HEADERS)
            assert b"\x08\x03431" in payload or bytes(raw.encoder.encode([(b":status", b"431")]))
            # The tables are still in step.
            raw.write(frame(HEADERS, WHOLE, 3, raw.head(path=b"/after")))
            raw.write(frame(RST_STREAM, 0, 3, word(CANCEL)))
            raw.write(frame(PING, 0, 0, bytes(8)))
            await raw.next_of(PING)
        assert app.begun <= 1

    run(main())


@pytest.mark.parametrize("name", [b"x", b"cookie"])
def test_too_many_fields_get_431(run: Any, name: bytes) -> None:
    """CVE-2026-49975 and CVE-2026-47774: crumbs of a cookie count too."""

    async def main() -> None:
        async with (
            serving(hello, http2=True, limit_head_fields=20) as server,
            speaking_http2(server) as client,
        ):
            few = request_fields(b"/", b"GET", *[(name, b"1")] * 16)
            assert (await client.answer(client.ask(few))).status == 200
            many = request_fields(b"/", b"GET", *[(name, b"1")] * 17)
            assert (await client.answer(client.ask(many))).status == 431
            assert (await client.answer(client.ask(few))).status == 200

    run(main())


def test_large_trailers_reset_the_stream(run: Any) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await respond(send, await body_of(receive))

    async def main() -> None:
        async with (
            serving(app, http2=True, limit_head_fields=20) as server,
            sending_frames(server) as raw,
        ):
            raw.write(frame(HEADERS, END_HEADERS, 1, raw.head(method=b"POST")))
            trailers = bytes(raw.encoder.encode([(b"x-%d" % n, b"1") for n in range(21)]))
            raw.write(frame(HEADERS, WHOLE, 1, trailers))
            await raw.next_of(RST_STREAM, stream=1)

    run(main())


def test_a_head_that_does_not_end_closes_the_connection(run: Any) -> None:
    async def main() -> None:
        async with (
            serving(hello, http2=True, timeout_head=0.1) as server,
            sending_frames(server) as raw,
        ):
            raw.write(frame(HEADERS, END_STREAM, 1, raw.head()))
            await raw.goaway()

    run(main())


def test_an_idle_connection_is_told_and_closed(run: Any) -> None:
    async def main() -> None:
        async with (
            serving(hello, http2=True, timeout_keep_alive=0.1) as server,
            speaking_http2(server) as client,
        ):
            stream = client.ask()
            await client.answer(stream)
            assert await client.until_closed() == (0, stream)

    run(main())


def test_a_window_that_stays_closed_resets_the_stream(run: Any) -> None:
    """CVE-2019-9511, CVE-2026-49975: a response must not wait forever."""

    async def main() -> None:
        ended = asyncio.Event()

        async def app(scope: Any, receive: Any, send: Any) -> None:
            try:
                await respond(send, b"x" * 1000)
                await receive()
                await receive()
            finally:
                ended.set()

        async with (
            serving(app, http2=True, timeout_http2_stall=0.1) as server,
            sending_frames(server) as raw,
        ):
            raw.write(frame(SETTINGS, 0, 0, b"\0\4" + word(0)))
            raw.write(frame(HEADERS, WHOLE, 1, raw.head()))
            _, _, _, payload = await raw.next_of(RST_STREAM, stream=1)
            assert payload == word(CANCEL)
            await ended.wait()

    run(main())


def test_a_body_that_does_not_continue_resets_the_stream(run: Any) -> None:
    async def main() -> None:
        seen: asyncio.Queue[str] = asyncio.Queue()

        async def app(scope: Any, receive: Any, send: Any) -> None:
            for _ in range(2):
                seen.put_nowait((await receive())["type"])

        async with (
            serving(app, http2=True, timeout_body=0.1) as server,
            sending_frames(server) as raw,
        ):
            raw.write(frame(HEADERS, END_HEADERS, 1, raw.head(method=b"POST")))
            raw.write(frame(DATA, 0, 1, b"part"))
            _, _, _, payload = await raw.next_of(RST_STREAM, stream=1)
            assert payload == word(CANCEL)
            assert [await seen.get(), await seen.get()] == ["http.request", "http.disconnect"]

    run(main())


def test_an_attack_leaves_no_memory_behind(run: Any) -> None:
    async def main() -> None:
        async with serving(Counting(), http2=True) as server:
            for _ in range(3):
                async with sending_frames(server) as raw:
                    for stream in range(1, 41, 2):
                        raw.write(frame(HEADERS, WHOLE, stream, raw.head()))
                    raw.write(frame(PING, 0, 0, bytes(8)))
                    await raw.next_of(PING)
            await until(lambda: not server.native.tasks and not server.open_connections)
            gc.collect()
            kinds = [type(each).__name__ for each in gc.get_objects()]
            assert kinds.count("HttpRequest") == 0
            assert kinds.count("Connection") <= 1

    run(main())
