"""``gunicorn -k penstock.gunicorn.Worker``."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import httpx
import pytest

from tests.python.conftest import CORE_MISSING

pytest.importorskip("gunicorn")
pytestmark = pytest.mark.skipif(
    CORE_MISSING, reason="penstock._core is not built (run 'make build')"
)

APP = """
import os

async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        assert (await receive())["type"] == "lifespan.startup"
        if os.environ.get("REFUSE"):
            await send({"type": "lifespan.startup.failed", "message": "not today"})
            return
        await send({"type": "lifespan.startup.complete"})
        await receive()
        print("lifespan ended", flush=True)
        await send({"type": "lifespan.shutdown.complete"})
        return
    body = f"{os.getpid()} {scope['client'][0]}"
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body.encode()})

def plain(environ, start_response):
    start_response("200 OK", [])
    return [str(environ["wsgi.multithread"]).encode()]
"""
PACKAGE = Path(__file__).resolve().parents[3] / "python"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "served.py").write_text(APP)
    return tmp_path


@contextlib.contextmanager
def gunicorn(folder: Path, *options: str, **variables: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "gunicorn", "-k", "penstock.gunicorn.Worker"),
            *("-b", "127.0.0.1:0", "--no-control-socket", *options),
        ],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(PACKAGE), *_path()])} | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def _path() -> list[str]:
    before = os.environ.get("PYTHONPATH")
    return [before] if before else []


def wait_for(stream: IO[str] | None, *patterns: str) -> list[str]:
    """Read lines until each pattern was found, in any order; return their last groups."""
    assert stream is not None
    lines = []
    found: dict[str, str] = {}
    for line in stream:
        lines.append(line)
        for pattern in patterns:
            if match := re.search(pattern, line):
                found[pattern] = match[match.re.groups]
        if len(found) == len(patterns):
            return [found[pattern] for pattern in patterns]
    raise AssertionError("".join(lines))


LISTENING = r"Listening at: (\S+)"
BOOTING = r"Booting worker with pid: (\d+)"


def test_asgi_in_gunicorn(folder: Path) -> None:
    with gunicorn(folder, "served:app", "--access-logfile", "-") as process:
        url, first = wait_for(process.stdout, LISTENING, BOOTING)
        headers = {"X-Forwarded-For": "203.0.113.9"}
        answer = httpx.get(url + "/a", headers=headers, trust_env=False)
        assert answer.text == f"{first} 203.0.113.9"
        wait_for(process.stdout, r'203.0.113.9:0 - "GET /a HTTP/1.1" 200')
        process.send_signal(signal.SIGHUP)
        second, _ = wait_for(process.stdout, BOOTING, "lifespan ended")
        assert httpx.get(url, trust_env=False).text == f"{second} 127.0.0.1"
        process.send_signal(signal.SIGTERM)
        wait_for(process.stdout, "lifespan ended")
        assert process.wait(60) == 0


def test_wsgi_in_gunicorn_and_its_limit_of_requests(folder: Path) -> None:
    with gunicorn(folder, "served:plain", "--max-requests", "1", "--threads", "2") as process:
        (url,) = wait_for(process.stdout, LISTENING)
        assert httpx.get(url, trust_env=False).text == "True"
        wait_for(process.stdout, "Autorestarting worker")
        assert httpx.get(url, trust_env=False).text == "True"


def test_an_application_that_refuses_to_start(folder: Path) -> None:
    with gunicorn(folder, "served:app", REFUSE="1") as process:
        wait_for(process.stdout, "refused to start: not today")
        assert process.wait(60) == 3
