"""Fixtures: a dashboard on Penstock's loop in a thread, a WebSocket client, a page in Chromium."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import struct
import threading
from array import array
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from websockets.sync.client import ClientConnection, connect

import penstock
from penstock.dash import Board, Controls, Dashboard, listening_socket, serving
from tests.python.conftest import skip_absent
from tests.python.dash.page_state import PATIENCE_MS
from tests.python.dash.tables import FLOW

if TYPE_CHECKING:
    from playwright.sync_api import Browser as Chromium
    from playwright.sync_api import Page


class Served:
    """A dashboard behind a real socket; ``do`` runs a function on its loop."""

    def __init__(self, dashboard: Dashboard, port: int = 0) -> None:
        self.dashboard = dashboard
        self.board = dashboard.board
        self._ready: Future[None] = Future()
        self._listener = listening_socket("127.0.0.1", port)
        self.port: int = self._listener.getsockname()[1]
        self.failures: list[Exception] = []
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        self._ready.result(30)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    def _run(self) -> None:
        async def main() -> None:
            self._loop = asyncio.get_running_loop()
            self._leave = anyio.Event()

            async def failed(error: Exception) -> None:
                self.failures.append(error)

            async with serving(self.dashboard, self._listener, on_failure=failed):
                self._ready.set_result(None)
                await self._leave.wait()

        try:
            penstock.run(main())
        except BaseException as error:
            if self._ready.done():
                raise
            self._ready.set_exception(error)

    def do(self, function: Callable[..., Any], *arguments: Any) -> Any:
        async def call() -> Any:
            return function(*arguments)

        return asyncio.run_coroutine_threadsafe(call(), self._loop).result(30)

    def close(self) -> None:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._leave.set)
            self._thread.join(30)
        assert not self._thread.is_alive()
        assert self.failures == []


@pytest.fixture
def serve() -> Iterator[Callable[..., Served]]:
    with contextlib.ExitStack() as stack:

        def call(
            board: Board, controls: Controls | None = None, *, port: int = 0, **options: Any
        ) -> Served:
            served = Served(Dashboard(board, controls, **options), port)
            stack.callback(served.close)
            return served

        yield call


class Browser:
    """A WebSocket client that reads as the page does."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket

    def send(self, **message: Any) -> None:
        self.socket.send(json.dumps(message))

    def receive(self) -> dict[str, Any]:
        """The next message; points are unpacked: of each curve times, lowest and highest values."""
        data = self.socket.recv(timeout=30)
        if isinstance(data, str):
            message: dict[str, Any] = json.loads(data)
            return message
        (size,) = struct.unpack_from("<I", data)
        head: dict[str, Any] = json.loads(data[4 : 4 + size])
        numbers = array("d", data[4 + size :])
        offset = 0
        times: list[float] = []
        for curve in head["curves"]:
            rows = curve["rows"]
            columns = [times] if curve["same"] else []
            while len(columns) < (2 if curve["flat"] else 3):
                columns.append(numbers[offset : offset + rows].tolist())
                offset += rows
            times = columns[0]
            curve["columns"] = [columns[0], columns[1], columns[-1]]
        assert offset == len(numbers)
        return {"type": "points", **head}

    def view(self, *devices: str, keys: Sequence[str] = (FLOW,), **options: Any) -> None:
        """Ask for the points of these quantities of each device."""
        curves = [[device, key] for device in devices for key in keys]
        self.send(type="view", curves=curves, **options)

    def wait_for(self, kind: str, **wanted: Any) -> dict[str, Any]:
        """Read, and confirm states, until a message of this type has these entries."""
        while True:
            message = self.receive()
            if message["type"] == "state":
                self.send(type="ack", seq=message["seq"])
            if message["type"] == kind and wanted.items() <= message.items():
                return message


@pytest.fixture
def browse() -> Iterator[Callable[..., Browser]]:
    with contextlib.ExitStack() as stack:

        def call(served: Served, *, token: str | None = None, **options: Any) -> Browser:
            options.setdefault("max_size", None)
            options.setdefault("origin", f"http://127.0.0.1:{served.port}")
            socket = connect(
                f"ws://127.0.0.1:{served.port}/live", compression=None, proxy=None, **options
            )
            browser = Browser(stack.enter_context(socket))
            browser.send(type="hello", token=token)
            return browser

        yield call


@pytest.fixture(scope="module")
def chromium() -> Iterator[Chromium]:
    # The tests without a browser run where Playwright is missing, too.
    from playwright.sync_api import sync_playwright

    program = shutil.which("chromium")
    if program is None:
        skip_absent("Chromium is missing; run scripts/setup test")
    with sync_playwright() as playwright:
        # The sandbox refuses to run as root and inside of containers.
        options = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        browser = playwright.chromium.launch(executable_path=program, args=options)
        yield browser
        browser.close()


@pytest.fixture
def page(chromium: Chromium) -> Iterator[Page]:
    from playwright.sync_api import expect

    context = chromium.new_context(viewport={"width": 1200, "height": 900}, accept_downloads=True)
    context.set_default_timeout(PATIENCE_MS)
    expect.set_options(timeout=PATIENCE_MS)
    page = context.new_page()
    page.errors = []  # type: ignore[attr-defined]
    page.on("pageerror", lambda error: page.errors.append(str(error)))  # type: ignore[attr-defined]
    yield page
    context.close()
    assert page.errors == []  # type: ignore[attr-defined]
