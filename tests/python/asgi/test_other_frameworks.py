"""FastAPI, Quart, Litestar and Flask on the server, asked by httpx."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

import penstock
from penstock.websocket import connect

from .support import serving


def ask_application(app: Any, ask: Callable[[httpx.AsyncClient, int], Awaitable[None]]) -> None:
    """Serve an application while `ask` asks it by a client, or at a port."""

    async def main() -> None:
        async with (
            serving(app, lifespan="auto") as server,
            httpx.AsyncClient(
                base_url=f"http://127.0.0.1:{server.port}", trust_env=False
            ) as client,
        ):
            await ask(client, server.port)

    penstock.run(asyncio.wait_for(main(), 60))


def numbers() -> str:
    return "".join(f"{number}\n" for number in range(20))


def test_fastapi() -> None:
    fastapi: Any = pytest.importorskip("fastapi")
    responses: Any = importlib.import_module("fastapi.responses")
    ended = []

    @asynccontextmanager
    async def lifespan(app: Any) -> AsyncIterator[dict[str, Any]]:
        yield {"name": "state"}
        ended.append(True)

    app = fastapi.FastAPI(lifespan=lifespan)

    async def dependency(request: fastapi.Request) -> AsyncIterator[str]:
        yield request.state.name

    def item(number: int, name: str = fastapi.Depends(dependency)) -> dict[str, Any]:
        return {"number": number, "name": name}

    async def stream() -> Any:
        return responses.StreamingResponse(iter(numbers()))

    async def echo(websocket: fastapi.WebSocket) -> None:
        await websocket.accept()
        await websocket.send_text(await websocket.receive_text())
        await websocket.close()

    # Its decorators read annotations, which are texts in this module.
    item.__annotations__ = {"number": int, "name": str}
    dependency.__annotations__ = {"request": fastapi.Request}
    echo.__annotations__ = {"websocket": fastapi.WebSocket}
    app.get("/items/{number}")(item)
    app.get("/stream")(stream)
    app.websocket("/echo")(echo)

    async def ask(client: httpx.AsyncClient, port: int) -> None:
        assert (await client.get("/items/5")).json() == {"number": 5, "name": "state"}
        assert (await client.get("/items/x")).status_code == 422
        assert (await client.get("/stream")).text == numbers()
        async with connect(f"ws://127.0.0.1:{port}/echo") as websocket:
            await websocket.send("hello")
            assert await websocket.recv() == "hello"

    ask_application(app, ask)
    assert ended == [True]


def test_quart() -> None:
    quart: Any = pytest.importorskip("quart")
    app = quart.Quart(__name__)
    ended = []

    @app.after_serving
    async def end() -> None:
        ended.append(True)

    @app.post("/upload")
    async def upload() -> Any:
        return {"bytes": len(await quart.request.get_data()), "query": quart.request.args["q"]}

    @app.get("/stream")
    async def stream() -> Any:
        async def parts() -> AsyncIterator[str]:
            for number in range(20):
                yield f"{number}\n"

        return parts()

    @app.get("/blocking")
    def blocking() -> str:
        return "thread"

    @app.get("/file")
    async def file() -> Any:
        return await quart.send_file(__file__)

    @app.websocket("/echo")
    async def echo() -> None:
        await quart.websocket.send(await quart.websocket.receive())

    async def ask(client: httpx.AsyncClient, port: int) -> None:
        sent = await client.post("/upload?q=a", content=bytes(300_000))
        assert sent.json() == {"bytes": 300_000, "query": "a"}
        assert (await client.get("/stream")).text == numbers()
        assert (await client.get("/blocking")).text == "thread"
        assert (await client.get("/file")).content == Path(__file__).read_bytes()
        assert (await client.get("/missing")).status_code == 404
        async with connect(f"ws://127.0.0.1:{port}/echo") as websocket:
            await websocket.send("hello")
            assert await websocket.recv() == "hello"

    ask_application(app, ask)
    assert ended == [True]


def test_litestar() -> None:
    litestar: Any = pytest.importorskip("litestar")
    responses: Any = importlib.import_module("litestar.response")
    ended = []

    async def item(number: int) -> dict[str, int]:
        return {"number": number}

    async def upload(request: Any) -> dict[str, int]:
        return {"bytes": len(await request.body())}

    def blocking() -> str:
        return "thread"

    async def stream() -> Any:
        return responses.Stream(iter(numbers()))

    async def echo(data: str) -> str:
        return data

    from_path = importlib.import_module("litestar.params").FromPath
    item.__annotations__ = {"number": from_path[int], "return": dict[str, int]}
    upload.__annotations__ = {"request": litestar.Request, "return": dict[str, int]}
    blocking.__annotations__ = {"return": str}
    stream.__annotations__ = {"return": responses.Stream}
    echo.__annotations__ = {"data": str, "return": str}
    handlers: Any = importlib.import_module("litestar.handlers")
    app = litestar.Litestar(
        [
            litestar.get("/items/{number:int}")(item),
            litestar.post("/upload")(upload),
            litestar.get("/blocking", sync_to_thread=True)(blocking),
            litestar.get("/stream")(stream),
            handlers.websocket_listener("/echo")(echo),
        ],
        on_shutdown=[lambda: ended.append(True)],
        openapi_config=None,
    )

    async def ask(client: httpx.AsyncClient, port: int) -> None:
        assert (await client.get("/items/7")).json() == {"number": 7}
        sent = await client.post("/upload", content=bytes(300_000))
        assert sent.json() == {"bytes": 300_000}
        assert (await client.get("/blocking")).text == "thread"
        assert (await client.get("/stream")).text == numbers()
        assert (await client.get("/items/x")).status_code == 404
        async with connect(f"ws://127.0.0.1:{port}/echo") as websocket:
            await websocket.send("hello")
            assert await websocket.recv() == "hello"

    ask_application(app, ask)
    assert ended == [True]


def test_flask(caplog: pytest.LogCaptureFixture) -> None:
    flask: Any = pytest.importorskip("flask")
    app = flask.Flask(__name__)

    @app.post("/upload")
    def upload() -> Any:
        file = flask.request.files["file"]
        return {"bytes": len(file.read()), "name": flask.request.form["name"]}

    @app.post("/raw")
    def raw() -> Any:
        return {"bytes": len(flask.request.stream.read())}

    @app.get("/stream")
    def stream() -> Any:
        def parts() -> Iterator[str]:
            for number in range(20):
                yield f"{number}\n"

        return flask.Response(flask.stream_with_context(parts()))

    @app.get("/file")
    def file() -> Any:
        return flask.send_file(__file__, conditional=True)

    @app.get("/address/<name>")
    def address(name: str) -> Any:
        return f"{name} {flask.request.remote_addr} {flask.url_for('stream', _external=True)}"

    @app.get("/fails")
    def fails() -> Any:
        raise KeyError("meant")

    async def ask(client: httpx.AsyncClient, port: int) -> None:
        sent = await client.post("/upload", data={"name": "é"}, files={"file": bytes(700_000)})
        assert sent.json() == {"bytes": 700_000, "name": "é"}

        async def chunks() -> AsyncIterator[bytes]:
            for _ in range(10):
                yield bytes(10_000)

        # A body without a length ends where its chunks end.
        assert (await client.post("/raw", content=chunks())).json() == {"bytes": 100_000}
        assert (await client.get("/stream")).text == numbers()
        whole = await client.get("/file")
        assert whole.content == Path(__file__).read_bytes()
        part = await client.get("/file", headers={"Range": "bytes=10-19"})
        assert (part.status_code, part.content) == (206, whole.content[10:20])
        expected = f"é/ü 127.0.0.1 http://127.0.0.1:{port}/stream"
        assert (await client.get("/address/é%2Fü")).status_code == 404  # a slash is one
        assert (await client.get("/address/é")).text == expected.replace("/ü", "", 1)
        assert (await client.get("/fails")).status_code == 500
        assert (await client.head("/stream")).text == ""

    ask_application(app, ask)
    assert not [r for r in caplog.records if (r.name, r.levelname) == ("penstock.asgi", "ERROR")]
