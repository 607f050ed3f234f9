"""What an application gets: the scope, the body, the order of messages."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from .support import CLOSE, HOST, ask, body_of, connected, echo, respond, serving

Run = Callable[..., Any]


def scope_of(run: Run, request: bytes, **options: Any) -> dict[str, Any]:
    seen: dict[str, Any] = {}

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.update(scope)
        await respond(send)

    async def main() -> None:
        await ask(app, request, **options)

    run(main())
    return seen


def test_scope_of_a_request(run: Run) -> None:
    scope = scope_of(
        run, b"GET /a%20b/%C3%A4?x=%201&y HTTP/1.1\r\nX-One: 1\r\nx-one:  2 \r\nHost: test\r\n\r\n"
    )
    assert scope["client"][0] == "127.0.0.1"
    assert type(scope["client"][1]) is int
    assert scope["server"][0] == "127.0.0.1"
    del scope["client"], scope["server"]
    assert scope == {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.5"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": "/a b/ä",
        "raw_path": b"/a%20b/%C3%A4",
        "query_string": b"x=%201&y",
        "root_path": "",
        "headers": [(b"x-one", b"1"), (b"x-one", b"2"), (b"host", b"test")],
        "state": {},
        "extensions": scope["extensions"],
    }


@pytest.mark.parametrize(
    ("target", "path"),
    [
        ("/%C3%28", "/�("),
        ("/%zz", "/%zz"),
        ("/a+b", "/a+b"),
        ("/../x", "/../x"),
        ("/?", "/"),
        ("http://test/x?y", "/x"),
        ("*", "*"),
    ],
)
def test_paths(run: Run, target: str, path: str) -> None:
    method = b"OPTIONS " if target == "*" else b"GET "
    assert scope_of(run, method + target.encode() + b" HTTP/1.1\r\n" + CLOSE)["path"] == path


@pytest.mark.parametrize(
    ("request_bytes", "headers"),
    [
        (
            b"GET http://other:8080/p?q HTTP/1.1\r\nx: 1\r\nHoSt: test\r\n\r\n",
            [(b"x", b"1"), (b"host", b"other:8080")],
        ),
        (b"GET HTTP://other/p?q HTTP/1.1\r\nHost: other\r\n\r\n", [(b"host", b"other")]),
        (b"GET http://other/p?q HTTP/1.0\r\nx: 1\r\n\r\n", [(b"host", b"other"), (b"x", b"1")]),
    ],
    ids=["differs", "same", "missing"],
)
def test_the_host_in_the_target_counts(
    run: Run, request_bytes: bytes, headers: list[tuple[bytes, bytes]]
) -> None:
    """RFC 9112, 3.2.2: Host is ignored then."""
    scope = scope_of(run, request_bytes)
    assert scope["headers"] == headers
    assert (scope["path"], scope["raw_path"], scope["query_string"]) == ("/p", b"/p", b"q")


@pytest.mark.parametrize("method", [b"get", b"Get", b"head", b"pURGE"])
def test_methods_with_small_letters_are_not_known(run: Run, method: bytes) -> None:
    """RFC 9110, 9.1: get is not GET. A scope's method is upper case."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        raise AssertionError(scope["method"])

    async def main() -> None:
        assert (await ask(app, method + b" / HTTP/1.1\r\n" + HOST + b"\r\n"))[0] == 501

    run(main())


def test_root_path_is_in_front_of_the_path(run: Run) -> None:
    scope = scope_of(run, b"GET /x%20y HTTP/1.1\r\n" + CLOSE, root_path="/api")
    assert (scope["root_path"], scope["path"]) == ("/api", "/api/x y")
    assert scope["raw_path"] == b"/api/x%20y"


def test_a_repeated_head_has_a_scope_that_may_be_changed(run: Run) -> None:
    seen = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append({key: scope[key] for key in ("method", "path", "raw_path", "query_string")})
        assert scope["extensions"].pop("more", None) is None
        scope["extensions"]["more"] = scope["asgi"]["more"] = {}
        scope.update(method="POST", path="/else", raw_path=b"", query_string=b"", more=1)
        scope["headers"].clear()
        await respond(send)

    async def main() -> None:
        async with serving(app) as server, connected(server) as client:
            for _ in range(4):
                client.writer.write(b"GET /path?query HTTP/1.1\r\n" + HOST + b"\r\n")
                await client.response()

    run(main())
    line = {"method": "GET", "path": "/path", "raw_path": b"/path", "query_string": b"query"}
    assert seen == [line] * 4


def test_repeated_requests_have_scopes_of_their_own(run: Run) -> None:
    scopes: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        scopes.append(scope)
        scope["headers"].append((b"added", b"1"))
        scope["asgi"]["added"] = scope["extensions"]["added"] = scope["state"]["added"] = 1
        scope["added"] = 1
        await respond(send)

    async def main() -> None:
        async with serving(app) as server, connected(server) as client:
            for _ in range(3):
                client.writer.write(b"GET /x HTTP/1.1\r\n" + HOST + b"\r\n")
                await client.response()

    run(main())
    assert scopes[0] == scopes[1] == scopes[2]
    assert scopes[0]["headers"] == [(b"host", b"test"), (b"added", b"1")]
    assert scopes[0] is not scopes[1]


def chunked(*parts: bytes) -> bytes:
    return b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (*parts, b""))


@pytest.mark.parametrize("reads", [True, False])
def test_a_repeated_head_has_its_own_body(run: Run, reads: bool) -> None:
    """Also behind a body that the application has not read, and in one piece with others."""
    heads = (
        b"POST /length HTTP/1.1\r\nContent-Length: 5\r\n" + HOST + b"\r\n",
        b"POST /chunks HTTP/1.1\r\nTransfer-Encoding: chunked\r\n" + HOST + b"\r\n",
        b"GET /none HTTP/1.1\r\n" + HOST + b"\r\n",
    )

    async def app(scope: Any, receive: Any, send: Any) -> None:
        body = await body_of(receive) if reads else b""
        await respond(send, scope["path"].encode() + b" " + body)

    async def main() -> None:
        async with serving(app) as server, connected(server) as client:
            for number, head in enumerate(head for head in heads for _ in range(3)):
                body = b"%05d" % number
                framed = {"l": body, "c": b"5\r\n" + body + b"\r\n0\r\nx: y\r\n\r\n"}
                whole = head + framed.get(chr(head[6]), b"")
                path = head.split()[1]
                expected = path + b" " + (body if reads and path != b"/none" else b"")
                client.writer.write(whole * 2 + whole[: len(head) + 2])
                for times in range(3):
                    assert (await client.response())[::2] == (200, expected)
                    if times == 1:
                        client.writer.write(whole[len(head) + 2 :])

    run(main())


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"POST / HTTP/1.1\r\nContent-Length: 10\r\n" + CLOSE + b"0123456789",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n"
        + CLOSE
        + chunked(b"0123", b"45", b"6789"),
    ],
    ids=["length", "chunked"],
)
def test_a_body_split_at_every_byte(run: Run, request_bytes: bytes) -> None:
    async def main() -> None:
        async with serving(echo) as server:
            for at in range(1, len(request_bytes), 3):
                async with connected(server) as client:
                    client.writer.write(request_bytes[:at])
                    await asyncio.sleep(0)
                    client.writer.write(request_bytes[at:])
                    assert (await client.response())[2] == b"0123456789"

    run(main())


def test_pipelined_requests_are_answered_in_their_order(run: Run) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        body = await body_of(receive)
        if scope["path"] == "/1":
            await asyncio.sleep(0)
        await respond(send, scope["path"].encode() + body)

    async def main() -> None:
        async with serving(app) as server, connected(server) as client:
            for number in range(50):
                client.writer.write(
                    b"POST /%d HTTP/1.1\r\nContent-Length: 2\r\n%b\r\nab" % (number, HOST)
                )
            bodies = [(await client.response())[2] for _ in range(50)]
            assert bodies == [b"/%dab" % number for number in range(50)]

    run(main())


def test_nothing_is_served_behind_a_close(run: Run) -> None:
    async def main() -> None:
        async with serving(echo) as server, connected(server) as client:
            client.writer.write(b"GET / HTTP/1.1\r\n" + CLOSE + b"GET / HTTP/1.1\r\n" + CLOSE)
            assert (await client.reader.read()).count(b"HTTP/1.1 ") == 1
            assert server.total_requests == 1

    run(main())


def test_100_is_sent_when_the_application_receives(run: Run) -> None:
    async def main() -> None:
        request = (
            b"POST / HTTP/1.1\r\nContent-Length: 5\r\nExpect: 100-continue\r\n" + HOST + b"\r\n"
        )
        async with serving(echo) as server, connected(server) as client:
            client.writer.write(request)
            assert await client.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
            client.writer.write(b"hello")
            assert (await client.response())[2] == b"hello"

    run(main())


def test_100_is_not_sent_for_a_body_that_nobody_wants(run: Run) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await respond(send, status=413)

    async def main() -> None:
        request = (
            b"POST / HTTP/1.1\r\nContent-Length: 5\r\nExpect: 100-continue\r\n" + HOST + b"\r\n"
        )
        status, fields, _ = await ask(app, request)
        assert (status, fields["connection"]) == (413, "close")

    run(main())


def test_the_rest_of_an_unread_body_is_no_request(run: Run) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await respond(send, scope["path"].encode())

    async def main() -> None:
        inner = b"GET /inner HTTP/1.1\r\n" + HOST + b"\r\n"
        async with serving(app) as server, connected(server) as client:
            client.writer.write(
                b"POST /a HTTP/1.1\r\nContent-Length: %d\r\n%b\r\n" % (len(inner), HOST)
            )
            assert (await client.response())[2] == b"/a"
            client.writer.write(inner + b"GET /b HTTP/1.1\r\n" + HOST + b"\r\n")
            assert (await client.response())[2] == b"/b"

    run(main())


def test_a_large_body_waits_for_the_application(run: Run) -> None:
    size = 8 << 20
    begun = asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await begun.wait()
        received = 0
        largest = 0
        while True:
            message = await receive()
            received += len(message["body"])
            largest = max(largest, len(message["body"]))
            if not message["more_body"]:
                break
        await respond(send, b"%d %d" % (received, largest))

    async def main() -> None:
        async with serving(app) as server, connected(server) as client:
            client.writer.write(b"POST / HTTP/1.1\r\nContent-Length: %d\r\n%b\r\n" % (size, HOST))
            client.writer.write(bytes(size))
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(client.writer.drain(), 0.1)
            begun.set()
            received, largest = (await client.response())[2].split()
            assert int(received) == size
            assert int(largest) < 1 << 20

    run(main())


def test_each_request_is_a_task_in_a_context_of_its_own(run: Run) -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")
    tasks = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        task = asyncio.current_task()
        assert isinstance(task, asyncio.Task)
        assert task in asyncio.all_tasks()
        tasks.append(task)
        before = variable.get()
        variable.set(scope["path"])
        async with asyncio.timeout(10):
            await asyncio.sleep(0)
        await respond(send, before.encode())

    async def main() -> None:
        variable.set("server")
        async with serving(app) as server, connected(server) as client:
            for path in (b"/1", b"/2"):
                client.writer.write(b"GET " + path + b" HTTP/1.1\r\n" + HOST + b"\r\n")
                assert (await client.response())[2] == b"server"
        assert len(set(tasks)) == 2
        assert all(task.result() is None for task in tasks)

    run(main())


def test_tasks_that_begin_at_once_have_names_of_their_own(run: Run) -> None:
    """CPython 3.11 has no eager tasks; Penstock's loop runs their first step itself there."""
    names = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        task = asyncio.current_task()
        assert task is not None
        assert task.get_loop() is asyncio.get_running_loop()
        asyncio.get_running_loop().call_soon(names.append, task.get_name())
        await asyncio.sleep(0)
        await respond(send)

    async def main() -> None:
        async with serving(app) as server, connected(server) as client:
            for _ in range(3):
                client.writer.write(b"GET / HTTP/1.1\r\n" + HOST + b"\r\n")
                await client.response()
            await asyncio.sleep(0)
        assert len(set(names)) == 3

    run(main())


def test_a_loop_in_debug_mode_serves_too(run: Run) -> None:
    async def main() -> None:
        asyncio.get_running_loop().set_debug(True)
        assert (await ask(echo, b"GET / HTTP/1.1\r\n" + CLOSE))[0] == 200

    run(main())


def test_a_request_in_its_first_step_can_be_cancelled(run: Run) -> None:
    seen = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel("enough")
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError as error:
            seen.append(error.args)
            task.uncancel()
        await respond(send)

    async def main() -> None:
        assert (await ask(app, b"GET / HTTP/1.1\r\n" + CLOSE))[0] == 200

    run(main())
    assert seen == [("enough",)]


def test_the_variables_of_a_request_are_not_kept(run: Run) -> None:
    class Value:
        pass

    variable: contextvars.ContextVar[Value] = contextvars.ContextVar("variable")
    values = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        value = Value()
        variable.set(value)
        values.append(weakref.ref(value))
        await respond(send)

    async def main() -> None:
        async with serving(app) as server, connected(server) as client:
            client.writer.write(b"GET / HTTP/1.1\r\n" + HOST + b"\r\n")
            await client.response()
            await asyncio.sleep(0)
            gc.collect()
            assert [value() for value in values] == [None]

    run(main())


def test_an_interrupt_in_an_application_leaves_the_loop(run: Run) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        raise KeyboardInterrupt

    async def main() -> None:
        async with serving(app) as server, connected(server) as client:
            client.writer.write(b"GET / HTTP/1.1\r\n" + HOST + b"\r\n")
            await asyncio.Event().wait()

    with pytest.raises(KeyboardInterrupt):
        run(main())


def test_a_cancelled_receive_loses_nothing(run: Run) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(receive(), 0.01)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"go", "more_body": True})
        await send({"type": "http.response.body", "body": await body_of(receive)})

    async def main() -> None:
        async with serving(app) as server, connected(server) as client:
            client.writer.write(b"POST / HTTP/1.1\r\nContent-Length: 4\r\n" + HOST + b"\r\n")
            await client.head()
            assert await client.reader.readuntil(b"go\r\n") == b"2\r\ngo\r\n"
            client.writer.write(b"body")
            rest = await client.reader.readuntil(b"0\r\n\r\n")
            assert rest == b"4\r\nbody\r\n0\r\n\r\n"

    run(main())


def test_several_tasks_may_receive(run: Run) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        assert (await receive())["more_body"] is False
        waiting = [asyncio.ensure_future(receive()) for _ in range(3)]
        await asyncio.sleep(0)
        await respond(send)
        messages = await asyncio.gather(*waiting, receive())
        ended.set_result(messages)

    async def main() -> None:
        global ended
        ended = asyncio.get_running_loop().create_future()
        async with serving(app) as server, connected(server) as client:
            client.writer.write(b"GET / HTTP/1.1\r\n" + HOST + b"\r\n")
            assert (await client.response())[0] == 200
            assert await ended == [{"type": "http.disconnect"}] * 4

    run(main())


ended: asyncio.Future[Any]
