"""WSGI applications that act at random, and clients that go at random."""

from __future__ import annotations

import asyncio
import logging
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from penstock import asgi

from .support import CLOSE, HOST, connected, conversation, serving


class Parts:
    """What an application returns, and whether it was closed."""

    def __init__(self, parts: Iterator[bytes], closed: list[int]) -> None:
        self._parts = parts
        self._closed = closed

    def __iter__(self) -> Iterator[bytes]:
        return self._parts

    def close(self) -> None:
        self._closed.append(1)


@pytest.mark.parametrize("seed", range(3))
def test_every_response_is_closed_and_every_thread_ends(run: Callable[..., Any], seed: int) -> None:
    choose = random.Random(seed)
    returned: list[int] = []
    closed: list[int] = []
    threads: set[threading.Thread] = set()

    def parts(environ: Any, start_response: Any) -> Iterator[bytes]:
        threads.add(threading.current_thread())
        write = start_response("200 OK", [])
        for _ in range(choose.randrange(6)):
            match choose.randrange(6):
                case 0:
                    environ["wsgi.input"].read(choose.choice([1, 5000, -1]))
                case 1:
                    write(bytes(choose.choice([0, 10, 100_000])))
                case 2:
                    raise ZeroDivisionError
                case 3:
                    yield bytes(choose.choice([0, 1, 100_000]))
                case 4:
                    threading.Event().wait(0.001)
                case _:
                    yield b"x" * 3
        yield b"end"

    def app(environ: Any, start_response: Any) -> Parts:
        returned.append(1)
        return Parts(parts(environ, start_response), closed)

    async def client(server: asgi.Server) -> None:
        async with connected(server) as one:
            body = bytes(choose.choice([0, 20, 100_000]))
            head = b"POST / HTTP/1.1\r\nContent-Length: %d\r\n" % len(body) + HOST + b"\r\n"
            one.writer.write(head + body[: choose.choice([0, 10, len(body)])])
            with suppress(TimeoutError, ConnectionError):
                await asyncio.wait_for(one.reader.read(), choose.choice([0.001, 0.01, 0.05]))
            if choose.random() < 0.3:
                one.writer.transport.abort()

    async def main() -> None:
        adapter = asgi.wsgi(app, threads=4, waiting=200)
        async with serving(adapter, lifespan="on", timeout_graceful_shutdown=10) as server:
            await asyncio.gather(*[client(server) for _ in range(60)])
            answer = await conversation(server, b"GET / HTTP/1.1\r\n" + CLOSE)
            assert answer.startswith((b"HTTP/1.1 200", b"HTTP/1.1 500"))
        assert not any(thread.is_alive() for thread in threads)
        assert len(threads) <= 4
        assert len(closed) == len(returned) > 0

    logging.disable(logging.CRITICAL)
    try:
        run(main())
    finally:
        logging.disable(logging.NOTSET)
