"""uvicorn serving a Starlette application, with real clients."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import uvicorn
import websockets

from .conftest import TEST_TIMEOUT, LoopFactory, Run
from .peers import receive_all, until
from .web_application import LARGE, application


class Serving:
    """uvicorn in the running loop, on a free port."""

    def __init__(self, http: str = "auto") -> None:
        self._server = uvicorn.Server(
            uvicorn.Config(application, log_level="critical", lifespan="off", http=http)
        )
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.address: tuple[str, int] = self._socket.getsockname()
        self.url = f"http://127.0.0.1:{self.address[1]}"

    async def __aenter__(self) -> Serving:
        # serve() would install its own handlers for the process's signals.
        self._task = asyncio.create_task(self._server._serve(sockets=[self._socket]))
        await until(lambda: self._server.started)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.should_exit = True
        await self._task
        self._socket.close()


@pytest.mark.parametrize("http", ["h11", "httptools"])
def test_httpx_sends_get_and_post_requests(run: Run, http: str) -> None:
    pytest.importorskip(http)

    async def main() -> None:
        async with Serving(http) as server, httpx.AsyncClient(base_url=server.url) as client:
            answers = await asyncio.gather(*(client.get("/") for _ in range(30)))
            assert {(answer.status_code, answer.text) for answer in answers} == {(200, "hello")}
            answer = await client.post("/measure", content=LARGE)
            assert answer.json() == {"length": len(LARGE), "same": True}
            assert (await client.get("/download")).content == LARGE
            assert (await client.get("/nowhere")).status_code == 404
            assert (await client.get("/fail")).status_code == 500

    run(main())


@pytest.mark.parametrize("http", ["h11", "httptools"])
def test_a_raw_socket_pipelines_requests(run: Run, http: str) -> None:
    pytest.importorskip(http)

    def talk(address: tuple[str, int]) -> bytes:
        with socket.create_connection(address, timeout=30) as client:
            request = b"GET / HTTP/1.1\r\nHost: test\r\n"
            client.sendall((request + b"\r\n") * 3 + request + b"Connection: close\r\n\r\n")
            return receive_all(client)

    async def main() -> None:
        async with Serving(http) as server:
            answer = await asyncio.to_thread(talk, server.address)
            assert answer.count(b"HTTP/1.1 200 OK") == 4
            assert answer.endswith(b"\r\n\r\nhello")

    run(main())


def test_a_client_that_disconnects_during_a_response_does_not_affect_others(run: Run) -> None:
    async def main() -> None:
        async with Serving() as server:
            for _ in range(5):
                with socket.create_connection(server.address) as client:
                    client.sendall(b"GET /download HTTP/1.1\r\nHost: test\r\n\r\n")
            async with httpx.AsyncClient(base_url=server.url) as client:
                assert (await client.get("/")).text == "hello"

    run(main())


def test_websockets_exchange_messages(run: Run) -> None:
    async def main() -> None:
        async with Serving() as server:
            url = server.url.replace("http:", "ws:") + "/shout"
            async with websockets.connect(url) as client:
                for text in ("one", "two", "x" * 100_000):
                    await client.send(text)
                    assert await client.recv() == text.upper()

    run(main())


@pytest.fixture
def command(loop_name: str, new_loop: LoopFactory) -> list[str]:
    name = "asyncio" if loop_name == "asyncio" else "penstock:new_event_loop"
    return [sys.executable, "-m", "uvicorn", "--loop", name, "--log-level", "info"]


@pytest.fixture
def environment() -> Iterator[dict[str, str]]:
    yield dict(os.environ, PYTHONPATH=os.pathsep.join(p for p in sys.path if p))


def test_the_command_line_accepts_the_loop(
    command: list[str], environment: dict[str, str], loop_name: str
) -> None:
    folder = str(Path(__file__).parent)
    with subprocess.Popen(
        [*command, "--port", "0", "--app-dir", folder, "web_application:application"],
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stderr is not None
            url = ""
            while not url:
                line = process.stderr.readline()
                assert line, "uvicorn ended before it served"
                if "running on" in line:
                    url = next(word for word in line.split() if word.startswith("http"))
            with httpx.Client(base_url=url, timeout=TEST_TIMEOUT) as client:
                assert client.get("/").text == "hello"
                module = client.get("/loop").text
            process.terminate()
            rest = process.stderr.read()
            assert "Finished server process" in rest
        finally:
            process.kill()
    assert module.split(".")[0] == loop_name
