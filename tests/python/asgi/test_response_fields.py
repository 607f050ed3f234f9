"""Fields that are the same objects in each response: what is remembered of them, and what not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from .support import HOST, connected, respond, serving

Run = Callable[..., Any]
TYPE = (b"content-type", b"text/plain")
LENGTH = (b"content-length", b"5")


def conversation(run: Run, answers: list[Any], requests: list[bytes]) -> list[Any]:
    """Serve an application that sends an answer for each request; return the responses."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        headers, status = answers[int(scope["path"][1:])]
        await respond(send, b"hello", status, headers)

    async def main() -> list[Any]:
        seen = []
        async with serving(app, date_header=False) as server:
            for number, method in enumerate(requests):
                async with connected(server) as client:
                    client.writer.write(b"%b /%d HTTP/1.1\r\n%b\r\n" % (method, number, HOST))
                    status, fields = await client.head()
                    client.writer.write_eof()
                    seen.append((status, fields, await client.reader.read()))
        return seen

    result: list[Any] = run(main())
    return result


def test_the_same_list_for_other_responses(run: Run) -> None:
    """A status without a length, one without a body, and HEAD, between two that have both."""
    headers = [TYPE, LENGTH]
    asked = [(b"GET", 200), (b"GET", 204), (b"HEAD", 200), (b"GET", 304), (b"GET", 404)] * 2
    seen = conversation(
        run, [(headers, status) for _, status in asked], [method for method, _ in asked]
    )
    whole = {"content-type": "text/plain", "content-length": "5", "server": "penstock"}
    without = {name: value for name, value in whole.items() if name != "content-length"}
    assert (
        seen
        == [
            (200, whole, b"hello"),
            (204, without, b""),
            (200, whole, b""),
            (304, whole, b""),
            (404, whole, b"hello"),
        ]
        * 2
    )


def test_a_list_that_changes_between_responses(run: Run) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        own = scope["path"]
        await respond(send, own.encode(), headers=table)
        if own == "/1":
            table[0] = (b"content-type", b"text/html")
        elif own == "/2":
            table.append((b"x-last", b"3"))

    table: list[Any] = [TYPE, (b"server", b"mine")]

    async def main() -> None:
        async with serving(app, date_header=False) as server, connected(server) as client:
            heads = []
            for path in (b"/0", b"/1", b"/2", b"/3", b"/4"):
                client.writer.write(b"GET " + path + b" HTTP/1.1\r\n" + HOST + b"\r\n")
                _, fields, body = await client.response()
                assert body == path
                heads.append([fields["content-type"], fields["server"], fields.get("x-last")])
        assert heads == [
            ["text/plain", "mine", None],
            ["text/plain", "mine", None],
            ["text/html", "mine", None],
            ["text/html", "mine", "3"],
            ["text/html", "mine", "3"],
        ]

    run(main())


def test_a_close_and_a_wrong_field_are_the_same_each_time(run: Run) -> None:
    closing = [TYPE, (b"connection", b"close")]

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["path"] == "/wrong":
            with pytest.raises(ValueError, match="cannot be sent"):
                await respond(send, headers=wrong)
            with pytest.raises(ValueError, match="two different"):
                await respond(send, headers=[LENGTH, (b"content-length", b"6")])
        await respond(send, b"hello", headers=closing if scope["path"] == "/close" else [LENGTH])

    wrong = [TYPE, (b"x", b"1\r\n2")]

    async def main() -> None:
        async with serving(app) as server:
            for _ in range(3):
                async with connected(server) as client:
                    for path in (b"/wrong", b"/wrong", b"/close"):
                        client.writer.write(b"GET " + path + b" HTTP/1.1\r\n" + HOST + b"\r\n")
                        _, fields, body = await client.response()
                        assert body == b"hello"
                        assert fields.get("connection") == ("close" if path == b"/close" else None)
                    assert await client.reader.read() == b""

    run(main())


class Pair:
    """A pair that is neither a tuple nor a list, and shortens the list that it is in."""

    def __init__(self, headers: list[Any]) -> None:
        self._headers = headers

    def __iter__(self) -> Iterator[bytes]:
        if len(self._headers) > 2:
            del self._headers[2:]
        return iter((b"x-pair", b"1"))


class Text(bytes):
    """A value of a class of its own."""


def test_pairs_and_values_of_other_classes(run: Run) -> None:
    """Also where looking at the fields changes them."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await respond(send, b"hello", headers=headers)

    headers: list[Any] = []

    async def main() -> None:
        async with serving(app) as server, connected(server) as client:
            for made in ([TYPE, Pair(headers), LENGTH], [TYPE, (b"x-pair", Text(b"1"))]):
                headers[:] = made
                for _ in range(3):
                    client.writer.write(b"GET / HTTP/1.1\r\n" + HOST + b"\r\n")
                    _, fields, body = await client.response()
                    assert (fields["x-pair"], body) == ("1", b"hello")

    run(main())


class Name(bytes):
    """A name that empties the pair that it is in when an error tells it."""

    pair: list[Any]

    def __repr__(self) -> str:
        self.pair.clear()
        return "a name"


def test_a_pair_that_an_error_changes(run: Run) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        name = Name(b"x")
        name.pair = [name, bytes(bytearray(b"1\r\n" + b"2" * 1000))]
        with pytest.raises(ValueError, match=r"a name: b'1\\r\\n2{1000}' cannot be sent"):
            await respond(send, headers=[name.pair])
        await respond(send, b"hello")

    async def main() -> None:
        async with serving(app) as server, connected(server) as client:
            client.writer.write(b"GET / HTTP/1.1\r\n" + HOST + b"\r\n")
            assert (await client.response())[2] == b"hello"

    run(main())


def test_many_different_lists(run: Run) -> None:
    """More than are remembered, and each again."""
    lists = [[(b"x-number", b"%d" % number), TYPE] for number in range(40)]

    async def app(scope: Any, receive: Any, send: Any) -> None:
        number = int(scope["path"][1:])
        made = [(b"x-number", b"%d" % number), TYPE] if number % 3 else lists[number]
        await respond(send, headers=made)

    async def main() -> None:
        async with serving(app) as server, connected(server) as client:
            for number in [*range(40), *range(40), *range(39, -1, -1)]:
                client.writer.write(b"GET /%d HTTP/1.1\r\n%b\r\n" % (number, HOST))
                assert (await client.response())[1]["x-number"] == str(number)

    run(main())
