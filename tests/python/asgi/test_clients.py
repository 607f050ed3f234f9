"""Clients of others: curl and Chromium, with Starlette's static files, events and WebSockets."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Mount, Route, WebSocketRoute
from starlette.staticfiles import StaticFiles
from starlette.websockets import WebSocket

from tests.python.conftest import not_sanitized, skip_absent

from .support import serving

Run = Callable[..., Any]

PAGE = """<!doctype html><title>waiting</title><script type="module">
const text = await (await fetch("data.txt")).text();
const socket = new WebSocket(`ws://${location.host}/echo`);
const said = await new Promise((done, fail) => {
  socket.onerror = fail;
  socket.onopen = () => socket.send("over a WebSocket ".repeat(100));
  socket.onmessage = (event) => done(event.data);
});
socket.close();
const events = new EventSource("/events");
const seen = [];
await new Promise((done) => {
  events.onmessage = (event) => { seen.push(event.data); if (seen.length === 3) done(); };
});
events.close();
document.title = JSON.stringify([text, said.length, seen]);
</script>"""


def application(folder: Path) -> Starlette:
    (folder / "index.html").write_text(PAGE)
    (folder / "data.txt").write_text("0123456789" * 20_000)

    async def echo(websocket: WebSocket) -> None:
        await websocket.accept()
        async for text in websocket.iter_text():
            await websocket.send_text(text)

    async def events(request: Request) -> StreamingResponse:
        async def parts() -> AsyncIterator[str]:
            number = 0
            while True:
                yield f"data: {number}\n\n"
                number += 1
                await asyncio.sleep(0)

        return StreamingResponse(parts(), media_type="text/event-stream")

    return Starlette(
        routes=[
            WebSocketRoute("/echo", echo),
            Route("/events", events),
            Mount("/", StaticFiles(directory=folder, html=True)),
        ]
    )


def test_curl_and_static_files_of_starlette(run: Run, tmp_path: Path) -> None:
    if shutil.which("curl") is None:
        skip_absent("curl is missing")

    def curl(*words: str) -> str:
        command = ["curl", "--silent", "--show-error", "--fail", "--noproxy", "*", *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    def ask(url: str) -> None:
        data = (tmp_path / "data.txt").read_text()
        assert curl(f"{url}/data.txt") == data
        assert curl("--range", "199990-", f"{url}/data.txt") == "0123456789"
        assert curl(f"{url}/") == PAGE
        head = curl("--head", f"{url}/data.txt").lower()
        assert f"content-length: {len(data)}" in head
        # Two on one connection, of which the second has not changed.
        etags = os.fspath(tmp_path / "etag")
        curl("--etag-save", etags, "--output", os.devnull, f"{url}/data.txt")
        written = ("--write-out", "%{http_code} %{num_connects}\n")
        again = curl("--etag-compare", etags, *written, f"{url}/data.txt")
        assert again == "304 1\n"

    async def main() -> None:
        async with serving(application(tmp_path)) as server:
            await asyncio.to_thread(ask, f"http://127.0.0.1:{server.port}")

    run(main())


@pytest.mark.slow
@not_sanitized("Chromium would load the sanitizer too")
def test_chromium(run: Run, tmp_path: Path) -> None:
    playwright = pytest.importorskip("playwright.sync_api")
    program = shutil.which("chromium")
    if program is None:
        skip_absent("Chromium is missing; run scripts/setup test")

    def browse(url: str) -> str:
        with playwright.sync_playwright() as driver:
            options = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
            browser = driver.chromium.launch(executable_path=program, args=options)
            try:
                page = browser.new_page()
                page.goto(url, wait_until="commit")
                page.wait_for_function("document.title[0] === '['", timeout=60_000)
                title: str = page.title()
                return title
            finally:
                browser.close()

    async def main() -> None:
        async with serving(application(tmp_path)) as server:
            title = await asyncio.to_thread(browse, f"http://127.0.0.1:{server.port}/")
            data = (tmp_path / "data.txt").read_text()
            assert json.loads(title) == [data, 1700, ["0", "1", "2"]]

    run(main())
