"""The examples, the table of lines and the example server of docs/loop.md work."""

from __future__ import annotations

import importlib.util
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from .test_pytest_plugins import run_tests

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "loop.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE, re.M | re.S)
CONFTESTS = [block for block in BLOCKS if block.startswith("# conftest.py")]
EXAMPLES = [block for block in BLOCKS if block not in CONFTESTS]

pytestmark = pytest.mark.usefixtures("penstock_built")


def test_the_page_has_examples() -> None:
    assert len(EXAMPLES) >= 6
    assert len(CONFTESTS) == 2


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_an_example_runs(child_environment: dict[str, str], number: int) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", EXAMPLES[number]],
        env=child_environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("block", "settings"),
    [
        pytest.param(
            CONFTESTS[0],
            "asyncio_mode = auto",
            marks=pytest.mark.skipif(
                importlib.util.find_spec("pytest_asyncio") is None,
                reason="pytest-asyncio is not installed",
            ),
        ),
        (CONFTESTS[1], "anyio_mode = auto\naddopts = -p no:asyncio"),
    ],
    ids=["pytest-asyncio", "anyio"],
)
def test_each_conftest_makes_tests_use_the_loop(
    tmp_path: Path, child_environment: dict[str, str], block: str, settings: str
) -> None:
    done = run_tests(tmp_path, block, settings, child_environment)
    assert "1 failed, 2 passed" in done.stdout, done.stdout + done.stderr


APPLICATION = """
import asyncio

async def app(scope, receive, send):
    if scope["type"] != "http":
        raise NotImplementedError
    body = type(asyncio.get_running_loop()).__module__.encode()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body})
"""


def test_uvicorns_line_serves_on_the_loop(
    tmp_path: Path, child_environment: dict[str, str]
) -> None:
    (line,) = re.findall(r"`(uvicorn --loop [^`]*)`", PAGE)
    (tmp_path / "app.py").write_text(APPLICATION)
    with subprocess.Popen(
        [sys.executable, "-m", *line.split(), "--port", "0", "--lifespan", "off"],
        cwd=tmp_path,
        env=child_environment,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stderr is not None
            line_of_url = next(line for line in process.stderr if "running on" in line)
            url = next(word for word in line_of_url.split() if word.startswith("http"))
            assert httpx.get(url).text.startswith("penstock.")
            process.send_signal(signal.SIGINT)
            process.wait(20)
        finally:
            process.kill()


def test_every_line_of_the_table_is_exercised() -> None:
    """test_aiohttp.py exercises aiohttp's line, and this page's examples the others."""
    table = PAGE.partition("## Ways to use it")[2].partition("\n\n`penstock.install()`")[0]
    lines = re.findall(r"\| `([^`]+)`", table)
    assert len(lines) >= 6
    here = Path(__file__).parent
    tested = "".join([*EXAMPLES, (here / "test_aiohttp.py").read_text(), "uvicorn --loop"])
    for line in lines:
        call = line.partition("(")[0] if "(" in line else "uvicorn --loop"
        assert call in tested, line


def test_the_example_server_echoes_and_ends_on_ctrl_c(child_environment: dict[str, str]) -> None:
    with subprocess.Popen(
        [sys.executable, str(ROOT / "examples" / "echo_server.py"), "--port", "0"],
        env=child_environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None and process.stderr is not None
            host, port = process.stdout.readline().split()[-2:]
            with socket.create_connection((host, int(port)), timeout=30) as client:
                client.sendall(b"hello")
                assert client.recv(100) == b"hello"
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 0
            assert process.stderr.read() == ""
        finally:
            process.kill()
