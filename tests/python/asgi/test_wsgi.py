"""WSGI applications, by PEP 3333."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import gc
import logging
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from wsgiref.validate import validator

import pytest

from penstock import asgi
from penstock.asgi._interfaces import as_asgi3, interface_of

from .support import CLOSE, HOST, ask, connected, conversation, serving

Run = Callable[..., Any]
Start = Callable[..., Callable[[bytes], None]]
Environ = dict[str, Any]

GET = b"GET /a%20%C3%A9/b?x=%20 HTTP/1.1\r\n"
TEXT = [("Content-Type", "text/plain")]


def validated(app: Any) -> Any:
    # The judge takes *args, from which no interface is found.
    return asgi.wsgi(validator(app))


def test_a_request_and_its_environ(run: Run) -> None:
    seen: list[Environ] = []

    def app(environ: Environ, start_response: Start) -> list[bytes]:
        seen.append({**environ, "thread": threading.current_thread().name})
        body = environ["wsgi.input"].read(20)
        start_response("200 OK", [*TEXT, ("X-Name", "café")])
        return [b"got ", body]

    request = (
        b"POST /base%2Fa/%C3%A9?x=%20 HTTP/1.1\r\nHost: a:1\r\nContent-Length: 4\r\n"
        b"Content-Type: text/x\r\nX-A: 1\r\nX_A: 2\r\nx-a: 3\r\nProxy: evil\r\nCookie: a=1\r\n"
        b"Cookie: b=2\r\nConnection: close\r\n\r\nbody"
    )
    status, fields, body = run(ask(validated(app), request, root_path="/mount"))
    assert (status, body) == (200, b"got body")
    assert fields["x-name"] == "caf\xe9"
    environ = seen[0]
    expected = {
        "REQUEST_METHOD": "POST",
        "SCRIPT_NAME": "/mount",
        "PATH_INFO": "/base/a/\xc3\xa9",
        "QUERY_STRING": "x=%20",
        "REQUEST_URI": "/mount/base%2Fa/%C3%A9?x=%20",
        "SERVER_NAME": "127.0.0.1",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "REMOTE_ADDR": "127.0.0.1",
        "CONTENT_TYPE": "text/x",
        "CONTENT_LENGTH": "4",
        "HTTP_HOST": "a:1",
        "HTTP_X_A": "1,3",
        "HTTP_COOKIE": "a=1; b=2",
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "http",
        "wsgi.multithread": True,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
        "wsgi.input_terminated": True,
    }
    assert {name: environ.get(name) for name in expected} == expected
    assert environ["SERVER_PORT"].isdigit() and environ["REMOTE_PORT"].isdigit()
    assert "HTTP_PROXY" not in environ and "HTTP_CONTENT_LENGTH" not in environ
    assert environ["thread"].startswith("penstock-wsgi-")


def test_a_body_is_read_in_every_way(run: Run) -> None:
    def app(environ: Environ, start_response: Start) -> list[bytes]:
        stream = environ["wsgi.input"]
        got = [stream.readline(), *stream.readlines(), stream.read(5), stream.read(1)]
        start_response("200 OK", TEXT)
        return [repr(got).encode()]

    chunks = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (b"on", b"e\ntwo\n", b"3"))
    request = b"POST /?x HTTP/1.1\r\nTransfer-Encoding: chunked\r\n" + CLOSE + chunks + b"0\r\n\r\n"
    body = run(ask(validated(app), request))[2]
    assert body == repr([b"one\n", b"two\n", b"3", b"", b""]).encode()


def test_a_body_is_not_asked_for_before_it_is_read(run: Run) -> None:
    async def main() -> None:
        reads = threading.Event()

        def app(environ: Environ, start_response: Start) -> list[bytes]:
            reads.wait(30)
            start_response("200 OK", TEXT)
            return [environ["wsgi.input"].read()]

        async with serving(app) as server, connected(server) as client:
            client.writer.write(
                b"POST / HTTP/1.1\r\nContent-Length: 5\r\nExpect: 100-continue\r\n" + CLOSE
            )
            head = asyncio.ensure_future(client.head())
            assert not (await asyncio.wait([head], timeout=0.05))[0]
            reads.set()
            assert (await head)[0] == 100
            client.writer.write(b"hello")
            assert (await client.response())[2] == b"hello"

    run(main())


def test_each_part_is_sent_before_the_next_one_is_made(run: Run) -> None:
    async def main() -> None:
        sent = threading.Semaphore(0)
        closed = threading.Event()

        class Parts:
            def __init__(self) -> None:
                self._number = 0

            def __iter__(self) -> Parts:
                return self

            def __next__(self) -> bytes:
                if self._number:
                    sent.acquire(timeout=30)
                self._number += 1
                if self._number == 4:
                    raise StopIteration
                return b"%d" % self._number if self._number != 2 else b""

            def close(self) -> None:
                closed.set()

        def app(environ: Environ, start_response: Start) -> Any:
            start_response("200 OK", TEXT)
            return Parts()

        async with serving(validated(app)) as server, connected(server) as client:
            client.writer.write(GET + CLOSE)
            assert (await client.head())[1]["transfer-encoding"] == "chunked"
            assert await client.reader.readexactly(6) == b"1\r\n1\r\n"
            sent.release()
            sent.release()
            assert await client.reader.readexactly(6) == b"1\r\n3\r\n"
            sent.release()
            assert await client.reader.read() == b"0\r\n\r\n"
            await asyncio.to_thread(closed.wait, 30)

    run(main())


def test_start_response_in_a_generator_and_write(run: Run) -> None:
    def late(environ: Environ, start_response: Start) -> Iterator[bytes]:
        start_response("201 Created", TEXT)
        yield b"late"

    def writing(environ: Environ, start_response: Start) -> list[bytes]:
        write = start_response("200 OK", TEXT)
        write(b"one ")
        write(b"two ")
        return [b"three"]

    def by_class(environ: Environ, start_response: Start) -> Any:
        class App:
            def __iter__(self) -> Iterator[bytes]:
                start_response("200 OK", [*TEXT, ("Content-Length", "2")])
                yield b"o"
                yield b"k"
                done.append(True)

        return App()

    done: list[bool] = []
    assert run(ask(late, GET + CLOSE))[::2] == (201, b"late")
    assert run(ask(validated(writing), GET + CLOSE))[2] == b"one two three"
    assert run(ask(by_class, GET + CLOSE))[2] == b"ok"
    assert done == [True]


@pytest.mark.parametrize("method", [b"HEAD", b"GET"])
def test_the_length_of_a_single_part_is_known(run: Run, method: bytes) -> None:
    def app(environ: Environ, start_response: Start) -> list[bytes]:
        start_response("200 OK", TEXT)
        return [b"12345"]

    async def main() -> None:
        async with serving(app) as server, connected(server) as client:
            client.writer.write(method + b" / HTTP/1.1\r\n" + CLOSE)
            _, fields = await client.head()
            assert fields["content-length"] == "5"
            assert await client.reader.read() == (b"" if method == b"HEAD" else b"12345")

    run(main())


def test_fields_that_are_repeated_and_fields_that_change(run: Run) -> None:
    """What was sent is kept, but not for ever, and a pair may be a list."""

    def app(environ: Environ, start_response: Start) -> list[bytes]:
        number = environ["PATH_INFO"][1:]
        pair: Any = ["X-List", "listed"]
        body = b"x" * (int(number) % 7)
        length = ("Content-Length", str(len(body)))
        start_response(
            "200 OK", [*TEXT, length, ("X-Number", number), ("Set-Cookie", number), pair]
        )
        return [body]

    async def main() -> None:
        async with serving(app) as server, connected(server) as client:
            for number in (*range(300), *range(300)):
                client.writer.write(b"GET /%d HTTP/1.1\r\n" % number + HOST + b"\r\n")
                _, fields, body = await client.response()
                assert fields["x-number"] == fields["set-cookie"] == str(number)
                assert (fields["content-type"], fields["x-list"]) == ("text/plain", "listed")
                assert body == b"x" * (number % 7)

    run(main())


def test_a_list_of_its_own_class_is_closed(run: Run) -> None:
    closed: list[str] = []

    class Result(list[bytes]):
        def close(self) -> None:
            closed.append("once")

    def app(environ: Environ, start_response: Start) -> Result:
        start_response("200 OK", TEXT)
        return Result([b"part"])

    assert run(ask(app, GET + CLOSE))[2] == b"part"
    assert closed == ["once"]


def test_exc_info_replaces_a_head_that_was_not_sent(run: Run) -> None:
    def app(environ: Environ, start_response: Start) -> list[bytes]:
        start_response("200 OK", TEXT)
        try:
            raise KeyError("x")
        except KeyError as error:
            start_response("500 Oops", TEXT, (KeyError, error, error.__traceback__))
        return [b"failed"]

    assert run(ask(validated(app), GET + CLOSE))[::2] == (500, b"failed")


def test_exc_info_is_raised_after_the_head(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    closed = []

    class Parts:
        def __init__(self, parts: Iterator[bytes]) -> None:
            self._parts = parts

        def __iter__(self) -> Iterator[bytes]:
            return self._parts

        def close(self) -> None:
            closed.append(threading.current_thread().name)

    def app(environ: Environ, start_response: Start) -> Parts:
        def parts() -> Iterator[bytes]:
            start_response("200 OK", TEXT)
            yield b"a"
            error = KeyError("x")
            start_response("500 Oops", TEXT, (KeyError, error, None))

        return Parts(parts())

    async def main() -> None:
        async with serving(app) as server, connected(server) as client:
            client.writer.write(GET + CLOSE)
            await client.head()
            # No end of the last chunk: the client sees that the body is not whole.
            assert await client.reader.read() == b"1\r\na\r\n"

    run(main())
    assert len(closed) == 1
    assert "KeyError" in caplog.text


def no_start(environ: Environ, start_response: Start) -> list[bytes]:
    return [b"x"]


def two_starts(environ: Environ, start_response: Start) -> list[bytes]:
    start_response("200 OK", TEXT)
    start_response("200 OK", TEXT)
    return []


def text_part(environ: Environ, start_response: Start) -> list[str]:
    start_response("200 OK", TEXT)
    return ["text"]


def exits(environ: Environ, start_response: Start) -> list[bytes]:
    raise SystemExit(3)


def _starts(status: Any, headers: Any) -> Any:
    def app(environ: Environ, start_response: Start) -> list[bytes]:
        start_response(status, headers)
        return [b""]

    return app


@pytest.mark.parametrize(
    ("app", "message"),
    [
        (no_start, "did not call start_response"),
        (two_starts, "start_response was called before"),
        (text_part, "a part of a body must be bytes, not str"),
        (exits, "SystemExit"),
        (_starts(200, []), "the status must be a string"),
        (_starts("200", []), "a number, a blank and a reason"),
        (_starts("100 Continue", []), "a number, a blank and a reason"),
        (_starts("200 OK", ()), "the headers must be a list"),
        (_starts("200 OK", [("A", b"b")]), "a pair of strings"),
        (_starts("200 OK", [("A", "b\r\nc")]), "cannot be sent"),
        (_starts("200 OK", [("A", "€")]), "not bytes"),
        (_starts("200 OK", [("Connection", "close")]), "hop-by-hop"),
        (_starts("200 OK", [("Content-Length", "-1")]), "number of bytes"),
    ],
)
def test_what_an_application_may_not_do(
    run: Run, app: Any, message: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert run(ask(app, GET + CLOSE))[0] == 500
    assert message in caplog.text


def test_a_body_ends_at_its_content_length(run: Run) -> None:
    refused = []

    def longer(environ: Environ, start_response: Start) -> Iterator[bytes]:
        write = start_response("200 OK", [*TEXT, ("Content-Length", "3")])
        write(b"12")
        try:
            write(b"345")
        except ValueError as error:
            refused.append(str(error))
        yield b"6"

    assert run(ask(longer, GET + CLOSE))[2] == b"123"
    assert refused == ["the body is longer than its Content-Length"]

    def shorter(environ: Environ, start_response: Start) -> list[bytes]:
        start_response("200 OK", [*TEXT, ("Content-Length", "5")])
        return [b"12", b"3"]

    async def main() -> None:
        async with serving(shorter) as server, connected(server) as client:
            client.writer.write(GET + HOST + b"\r\n")
            await client.head()
            assert await client.reader.read() == b"123"

    run(main())


def test_a_client_that_goes_ends_the_iteration(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        closed = threading.Event()

        class Endless:
            def __iter__(self) -> Endless:
                return self

            def __next__(self) -> bytes:
                return bytes(10_000)

            def close(self) -> None:
                closed.set()

        def app(environ: Environ, start_response: Start) -> Endless:
            start_response("200 OK", TEXT)
            return Endless()

        async with serving(app) as server:
            async with connected(server) as client:
                client.writer.write(GET + CLOSE)
                await client.head()
            assert await asyncio.to_thread(closed.wait, 30)

    with caplog.at_level(logging.INFO):
        run(main())
    assert not [record for record in caplog.records if record.name == "penstock.asgi"]


def test_reading_fails_when_the_client_goes(run: Run) -> None:
    async def main() -> None:
        failed: asyncio.Queue[str] = asyncio.Queue()
        loop = asyncio.get_running_loop()

        def app(environ: Environ, start_response: Start) -> list[bytes]:
            try:
                environ["wsgi.input"].read()
            except OSError as error:
                loop.call_soon_threadsafe(failed.put_nowait, str(error))
                raise
            return []

        async with serving(app) as server:
            async with connected(server) as client:
                client.writer.write(b"POST / HTTP/1.1\r\nContent-Length: 9\r\n" + HOST + b"\r\n123")
                await client.writer.drain()
            assert "before its request was complete" in await failed.get()

    run(main())


@pytest.mark.parametrize("wrapped", [True, False])
def test_a_file(run: Run, wrapped: bool, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(range(256)) * 4096)
    files = []

    def app(environ: Environ, start_response: Start) -> Any:
        file = path.open("rb")
        files.append(file)
        file.seek(1000)
        start_response("200 OK", TEXT)
        wrapper = environ["wsgi.file_wrapper"](file, 4096)
        return wrapper if wrapped else (part for part in wrapper)

    status, _, body = run(ask(app, GET + CLOSE))
    assert (status, body) == (200, path.read_bytes()[1000:])
    assert not wrapped or files[0].closed
    files[0].close()


def test_a_part_of_a_file_is_made_of_its_wrapper(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"0123456789")
    files = []

    class Range:
        # As werkzeug does it: what `iter` returns is sought in, and closed.
        def __init__(self, wrapper: Any) -> None:
            self._iterator = iter(wrapper)
            self._iterator.seek(3)
            self.close = self._iterator.close

        def __iter__(self) -> Any:
            return self._iterator

    def app(environ: Environ, start_response: Start) -> Any:
        file = path.open("rb")
        files.append(file)
        start_response("206 Partial Content", TEXT)
        return Range(environ["wsgi.file_wrapper"](file))

    assert run(ask(app, GET + CLOSE))[2] == b"3456789"
    assert files[0].closed


def test_threads_and_their_queue_are_bounded(run: Run) -> None:
    async def main() -> None:
        running = threading.Semaphore(0)
        go_on = threading.Event()
        threads: set[threading.Thread] = set()

        def app(environ: Environ, start_response: Start) -> list[bytes]:
            threads.add(threading.current_thread())
            running.release()
            go_on.wait(30)
            start_response("200 OK", TEXT)
            return [b"done"]

        async with (
            serving(asgi.wsgi(app, threads=2, waiting=1), lifespan="on") as server,
            contextlib.AsyncExitStack() as stack,
        ):
            answers = []
            for number in range(4):
                client = await stack.enter_async_context(connected(server))
                client.writer.write(GET + HOST + b"\r\n")
                answers.append(asyncio.ensure_future(client.response()))
                if number < 2:
                    await asyncio.to_thread(running.acquire)
            done, waiting = await asyncio.wait(answers, return_when=asyncio.FIRST_COMPLETED)
            assert [answer.result()[0] for answer in done] == [503]
            go_on.set()
            for answer in waiting:
                assert (await answer)[::2] == (200, b"done")
            assert len(threads) == 2
        assert not any(thread.is_alive() for thread in threads)

    run(main())


@pytest.mark.parametrize("threads", [2, 16])
def test_a_request_that_waits_holds_up_no_other(run: Run, threads: int) -> None:
    """All of them arrive at once, so that one wake-up of a thread may be for several."""

    async def main() -> None:
        go_on = threading.Event()

        def app(environ: Environ, start_response: Start) -> list[bytes]:
            start_response("200 OK", TEXT)
            if environ["PATH_INFO"] == "/slow":
                go_on.wait(30)
            return [environ["PATH_INFO"].encode()]

        async with (
            serving(asgi.wsgi(app, threads=threads)) as server,
            contextlib.AsyncExitStack() as stack,
        ):
            clients = [await stack.enter_async_context(connected(server)) for _ in range(20)]
            for _ in range(3):
                for number, client in enumerate(clients):
                    path = b"/slow" if number == 7 else b"/%d" % number
                    client.writer.write(b"GET " + path + b" HTTP/1.1\r\n" + HOST + b"\r\n")
                for number, client in enumerate(clients):
                    if number != 7:
                        assert (await client.response())[2] == b"/%d" % number
                go_on.set()
                assert (await clients[7].response())[2] == b"/slow"
                go_on.clear()

    run(main())


def test_nothing_is_written_behind_the_end(run: Run) -> None:
    writes: list[Callable[[bytes], None]] = []

    def app(environ: Environ, start_response: Start) -> list[bytes]:
        writes.append(start_response("200 OK", TEXT))
        writes[0](b"part")
        raise ZeroDivisionError

    async def main() -> None:
        async with serving(app) as server:
            assert b"part" in await conversation(server, GET + CLOSE)
            with pytest.raises(asgi.ClientDisconnected):
                writes[0](b"more")

    run(main())


def test_threads_end_with_their_pool(run: Run) -> None:
    threads = []

    def app(environ: Environ, start_response: Start) -> list[bytes]:
        threads.append(threading.current_thread())
        start_response("200 OK", TEXT)
        return []

    run(ask(app, GET + CLOSE))
    gc.collect()
    threads[0].join(30)
    assert not threads[0].is_alive()


def test_an_application_may_be_served_again(run: Run) -> None:
    app = asgi.wsgi(_starts("200 OK", TEXT))

    async def main() -> None:
        for _ in range(2):
            assert (await ask(app, GET + CLOSE, lifespan="on"))[0] == 200

    run(main())


def test_each_request_has_a_context_of_its_own(run: Run) -> None:
    variable: contextvars.ContextVar[int] = contextvars.ContextVar("variable", default=0)

    def app(environ: Environ, start_response: Start) -> list[bytes]:
        before = variable.get()
        variable.set(before + 1)
        start_response("200 OK", TEXT)
        return [b"%d" % before]

    async def main() -> None:
        async with serving(app) as server, connected(server) as client:
            for _ in range(3):
                client.writer.write(GET + HOST + b"\r\n")
                assert (await client.response())[2] == b"0"

    run(main())


class _Callable:
    def __call__(self, environ: Environ, start_response: Start) -> list[bytes]:
        return []


class _AsgiCallable:
    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        return None


def _asgi2(scope: Any) -> Any:
    return None


@pytest.mark.parametrize(
    ("app", "interface"),
    [
        (no_start, "wsgi"),
        (_Callable(), "wsgi"),
        (_Callable().__call__, "wsgi"),
        (functools.partial(no_start), "wsgi"),
        (_AsgiCallable(), "asgi3"),
        (lambda scope, receive, send: None, "asgi3"),
        (lambda *arguments: None, "asgi3"),
        (_asgi2, "asgi2"),
    ],
)
def test_the_interface_is_found(app: Any, interface: str) -> None:
    assert interface_of(app) == interface


def test_a_wrong_choice_is_refused() -> None:
    with pytest.raises(ValueError, match="interface must be"):
        as_asgi3(no_start, "rsgi")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="threads must be at least 1"):
        asgi.wsgi(no_start, threads=0)
