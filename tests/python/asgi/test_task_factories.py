"""Task factories, and coroutines of requests that others end: the client is never left waiting."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from .http2_client import speaking_http2
from .support import CLOSE, HOST, ask, connected, echo, respond, serving

Run = Callable[..., Any]
Factory = Callable[..., Any]

GET = b"GET / HTTP/1.1\r\n" + HOST + b"\r\n"


def is_request(coroutine: Any) -> bool:
    return type(coroutine).__name__ == "HttpRequest"


def made_for_requests(make: Callable[[Any], Any]) -> Factory:
    """Return a factory that leaves other tasks alone, and runs what `make` returns for requests."""

    def factory(loop: Any, coroutine: Any, **options: Any) -> Any:
        made = make(coroutine) if is_request(coroutine) else coroutine
        return asyncio.Task(made, loop=loop, **options)

    return factory


async def nothing() -> None:
    """Run in the place of a request."""


def closing(coroutine: Any) -> Any:
    coroutine.close()
    return nothing()


def dropping(coroutine: Any) -> Any:
    return nothing()


async def failing(coroutine: Any) -> None:
    raise RuntimeError("a wrapper that fails")


async def wrapping(coroutine: Any) -> Any:
    return await coroutine


def test_a_task_factory_is_used(run: Run) -> None:
    made = []

    def factory(loop: Any, coroutine: Any, **options: Any) -> Any:
        made.append(coroutine)
        return asyncio.Task(coroutine, loop=loop, **options)

    async def main() -> None:
        asyncio.get_running_loop().set_task_factory(factory)
        status, _, body = await ask(echo, b"GET / HTTP/1.1\r\n" + CLOSE)
        assert (status, body) == (200, b"")
        assert any(is_request(each) for each in made)

    run(main())


def test_a_task_factory_may_wrap_the_coroutine(run: Run) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await asyncio.sleep(0)
        await respond(send, b"wrapped")

    async def main() -> None:
        asyncio.get_running_loop().set_task_factory(made_for_requests(wrapping))
        async with serving(app) as server, connected(server) as client:
            for _ in range(2):
                client.writer.write(GET)
                assert (await client.response())[::2] == (200, b"wrapped")
            assert not server.tasks

    run(main())


@pytest.mark.parametrize("http2", [False, True])
@pytest.mark.parametrize("make", [closing, dropping, failing])
def test_a_request_whose_coroutine_is_not_run_is_answered(
    run: Run, make: Any, caplog: pytest.LogCaptureFixture, *, http2: bool
) -> None:
    called = False

    async def app(scope: Any, receive: Any, send: Any) -> None:
        nonlocal called
        called = True

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda *_: None)  # that of the wrapper that fails
        loop.set_task_factory(made_for_requests(make))
        async with serving(app, http2=http2) as server:
            if http2:
                async with speaking_http2(server) as client2:
                    assert (await client2.answer(client2.ask())).status == 500
            else:
                async with connected(server) as client:
                    client.writer.write(GET)
                    status, fields, _ = await client.response()
                    assert (status, fields["connection"]) == (500, "close")
                    assert await client.reader.read() == b""
            assert not server.tasks

    run(main())
    assert not called
    assert "was closed before its first step" in caplog.text


def test_a_wrapper_that_is_cancelled_before_its_first_step(run: Run) -> None:
    def factory(loop: Any, coroutine: Any, **options: Any) -> Any:
        if not is_request(coroutine):
            return asyncio.Task(coroutine, loop=loop, **options)
        task = asyncio.Task(wrapping(coroutine), loop=loop, **options)
        task.cancel()
        return task

    async def main() -> None:
        asyncio.get_running_loop().set_task_factory(factory)
        assert (await ask(echo, GET))[0] == 500

    run(main())


def head_first(send: Any) -> Any:
    return send({"type": "http.response.start", "status": 200, "headers": []})


@pytest.mark.parametrize("http2", [False, True])
@pytest.mark.parametrize("begun", [False, True])
def test_the_coroutine_of_a_running_request_is_closed(
    run: Run, caplog: pytest.LogCaptureFixture, *, http2: bool, begun: bool
) -> None:
    """As in any coroutine, GeneratorExit is raised where it waits, and nothing waits for it."""
    ended = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if begun:
            await head_first(send)
            await send({"type": "http.response.body", "body": b"part", "more_body": True})
        coroutine: Any = asyncio.current_task().get_coro()  # type: ignore[union-attr]
        with pytest.raises(ValueError, match="already executing"):
            coroutine.close()
        asyncio.get_running_loop().call_soon(coroutine.close)
        try:
            await receive()
            await receive()
        except GeneratorExit:
            ended.append(True)
            raise

    async def main() -> None:
        # The task finds its coroutine closed when it is to step it; nobody does.
        async with serving(app, http2=http2) as server:
            if http2:
                async with speaking_http2(server) as client2:
                    answer = await client2.answer(client2.ask())
                    assert answer.status == (200 if begun else 500)
                    assert (answer.reset is not None) is begun
            else:
                async with connected(server) as client:
                    client.writer.write(GET)
                    assert (await client.head())[0] == (200 if begun else 500)
                    rest = await client.reader.read()
                    assert rest == (b"4\r\npart\r\n" if begun else b"Internal Server Error")
            assert not server.tasks

    run(main())
    assert ended == [True]
    assert "GeneratorExit" in caplog.text
