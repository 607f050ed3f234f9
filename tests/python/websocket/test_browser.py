"""Chromium, without a window, as the client of penstock.websocket: its page is browser.html."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock import websocket

from .libraries import address, echo

pytestmark = pytest.mark.slow

PAGE = Path(__file__).parents[2] / "cpp" / "coro" / "ws" / "browser.html"
CHROMIUM = shutil.which("chromium")


@asynccontextmanager
async def chromium(url: str, profile: Path) -> AsyncIterator[None]:
    assert CHROMIUM is not None
    process = await asyncio.create_subprocess_exec(
        CHROMIUM,
        "--headless=new",
        # The sandbox refuses to run as root and inside of containers.
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--no-first-run",
        "--disable-background-networking",
        f"--user-data-dir={profile}",
        url,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
        # A sanitizer's runtime is preloaded for the interpreter; the browser does not run with it.
        env={name: value for name, value in os.environ.items() if name != "LD_PRELOAD"},
    )
    try:
        yield
    finally:
        process.terminate()
        await process.wait()


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is missing; run scripts/setup test")
def test_chromium_and_the_servers_understand_each_other(tmp_path: Path) -> None:
    async def main() -> Any:
        outcomes: asyncio.Future[str | bytes] = asyncio.get_running_loop().create_future()

        async def answer(connection: websocket.ServerConnection) -> None:
            assert connection.request is not None
            if connection.request.path == "/parts":
                await connection.send(["in ", "three ", "parts"])
                await (await connection.ping())
                await connection.close(4001, "asked")
            elif connection.request.path == "/outcomes":
                outcomes.set_result(await connection.recv())
            else:
                await echo(connection)

        async with (
            websocket.serve(answer, "127.0.0.1", 0, subprotocols=["chat"]) as compressing,
            websocket.serve(
                answer, "127.0.0.1", 0, subprotocols=["chat"], compression=None
            ) as plain,
        ):
            servers = ",".join(address(server, "") for server in (compressing, plain))
            async with asyncio.timeout(100), chromium(f"{PAGE.as_uri()}?{servers}", tmp_path):
                return json.loads(await outcomes)

    def outcome(compression: str) -> dict[str, Any]:
        return {
            "wrong": [],
            "subprotocol": "chat",
            "compression": compression,
            "own": [4002, "done", True],
            "without": "",
            "large": 1009,
            "parts": "in three parts",
            "theirs": [4001, "asked", True],
        }

    assert penstock.run(main()) == [outcome("permessage-deflate"), outcome("")]
