"""Tests that run on the loop through pytest's asynchronous plugins."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

needs_pytest_asyncio = pytest.mark.skipif(
    importlib.util.find_spec("pytest_asyncio") is None, reason="pytest-asyncio is not installed"
)

TESTS = """
import asyncio

import penstock
import pytest


@pytest.fixture
async def address():
    async def echo(reader, writer):
        writer.write(await reader.readline())
        writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    yield server.sockets[0].getsockname()
    server.close()
    await server.wait_closed()


async def test_the_loop_is_penstocks():
    assert isinstance(asyncio.get_running_loop(), penstock.Loop)


async def test_a_fixture_shares_the_loop(address):
    reader, writer = await asyncio.open_connection(*address)
    writer.write(b"hello\\n")
    assert await reader.read() == b"hello\\n"
    writer.close()
    await writer.wait_closed()


async def test_a_failure_is_reported():
    await asyncio.sleep(0)
    assert isinstance(asyncio.get_running_loop(), asyncio.SelectorEventLoop)
    raise LookupError("meant")
"""

BY_HOOK = """
import penstock


def pytest_asyncio_loop_factories(config, item):
    return {"penstock": penstock.new_event_loop}
"""

BY_POLICY = """
import penstock
import pytest


@pytest.fixture(scope="session")
def event_loop_policy():
    return penstock.EventLoopPolicy()
"""

BY_ANYIO = """
import penstock
import pytest


@pytest.fixture
def anyio_backend():
    return "asyncio", {"loop_factory": penstock.new_event_loop}
"""


def run_tests(
    folder: Path, conftest: str, settings: str, environment: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    (folder / "conftest.py").write_text(conftest)
    (folder / "test_inner.py").write_text(TESTS)
    (folder / "pytest.ini").write_text(f"[pytest]\n{settings}\n")
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--rootdir", str(folder)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=50,
    )


@pytest.mark.usefixtures("penstock_built")
@needs_pytest_asyncio
@pytest.mark.parametrize("conftest", [BY_HOOK, BY_POLICY], ids=["hook", "policy"])
def test_pytest_asyncio_uses_the_loop(
    tmp_path: Path, child_environment: dict[str, str], conftest: str
) -> None:
    if conftest == BY_POLICY and sys.version_info >= (3, 14):
        pytest.skip("policies are deprecated since Python 3.14")
    done = run_tests(tmp_path, conftest, "asyncio_mode = auto", child_environment)
    assert "1 failed, 2 passed" in done.stdout, done.stdout + done.stderr
    assert "LookupError: meant" in done.stdout


@pytest.mark.usefixtures("penstock_built")
def test_anyios_plugin_uses_the_loop(tmp_path: Path, child_environment: dict[str, str]) -> None:
    done = run_tests(
        tmp_path, BY_ANYIO, "anyio_mode = auto\naddopts = -p no:asyncio", child_environment
    )
    assert "1 failed, 2 passed" in done.stdout, done.stdout + done.stderr
    assert "LookupError: meant" in done.stdout
