"""The logs of ``penstock serve``: colours, a configuration of uvicorn's, the lines of its start."""

from __future__ import annotations

import argparse
import json
import logging
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from penstock.cli._serve.logs import access_text, set_up_logs

from .test_serve import folder, pytestmark, read_until, serving, wait_for  # noqa: F401

APP = """
import time

async def app(scope, receive, send):
    if scope["type"] != "http":
        raise TypeError("no lifespan")
    if scope["path"] == "/block":
        time.sleep(600)
    await send({"type": "http.response.start", "status": 404, "headers": []})
    await send({"type": "http.response.body", "body": scope["root_path"].encode()})
"""


@pytest.fixture
def own_loggers() -> Iterator[None]:
    """Leave the process's loggers as they were."""
    loggers = [logging.getLogger(name) for name in ("penstock", "penstock.access")]
    before = [(each, each.handlers, each.propagate, each.level) for each in loggers]
    yield
    for logger, handlers, propagate, level in before:
        logger.handlers, logger.propagate = handlers, propagate
        logger.setLevel(level)


@pytest.mark.usefixtures("own_loggers")
@pytest.mark.parametrize("colours", [False, True, None])
def test_colours(colours: bool | None, capsys: pytest.CaptureFixture[str]) -> None:
    """Without the option, only a terminal gets them."""
    loggers = set_up_logs(argparse.Namespace(log_config=None, log_level=None, use_colors=colours))
    loggers.error.warning("a warning")
    seen = capsys.readouterr()
    line = access_text("1.2.3.4:5", "GET", "/", "1.1", 404, loggers.colours)
    if colours:
        assert "\x1b[33mWARNING\x1b[0m:  a warning" in seen.err
        assert "\x1b[31m404 Not Found\x1b[0m" in line
    else:
        assert seen.err == "WARNING:  a warning\n"
        assert line == '1.2.3.4:5 - "GET / HTTP/1.1" 404 Not Found'


def test_a_configuration_with_the_names_of_uvicorn(folder: Path) -> None:  # noqa: F811
    """Records have uvicorn's five arguments, for the formatters of others."""
    (folder / "below").mkdir()
    (folder / "below" / "elsewhere.py").write_text(APP)
    handler = {"class": "logging.FileHandler", "filename": str(folder / "lines"), "formatter": "f"}
    config = {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"f": {"format": "%(levelname)s %(name)s %(message)s %(args)s"}},
        "handlers": {"file": handler, "error": {"class": "logging.StreamHandler"}},
        "loggers": {
            "uvicorn.access": {"handlers": ["file"], "level": "INFO"},
            "uvicorn.error": {"handlers": ["error"], "level": "INFO"},
        },
    }
    (folder / "log.json").write_text(json.dumps(config))
    options = ("elsewhere:app", "--app-dir", "below", "--log-config", "log.json")
    with serving(folder, *options, "--root-path", "/api") as (process, url):
        answer = httpx.get(f"{url}/a b", trust_env=False)
        assert (answer.status_code, answer.text) == (404, "/api")
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)
    line = (folder / "lines").read_text()
    assert line.startswith("INFO uvicorn.access 127.0.0.1:")
    assert """- "GET /api/a%20b HTTP/1.1" 404 (""" in line
    assert line.endswith(""", 'GET', '/api/a%20b', '1.1', 404)\n""")


@pytest.mark.slow
def test_a_worker_whose_loop_is_blocked_is_replaced(folder: Path) -> None:  # noqa: F811
    """The other one answers meanwhile."""
    (folder / "blocking.py").write_text(APP)
    options = ("blocking:app", "--workers", "2", "--timeout-worker-healthcheck", "3")

    def block(url: str) -> None:
        with pytest.raises(httpx.HTTPError):
            httpx.get(f"{url}/block", trust_env=False, timeout=60)

    with serving(folder, *options) as (process, url), ThreadPoolExecutor(1) as threads:
        assert process.stderr is not None
        for _ in range(2):
            read_until(process.stderr, "Started server process")
        blocked = threads.submit(block, url)
        killed = wait_for(process.stderr, r"Worker \[(\d+)\] has been unresponsive for 3 s")
        blocked.result(60)
        wait_for(process.stderr, rf"Worker \[{killed[1]}\] ended")
        wait_for(process.stderr, "Started server process")
        assert httpx.get(url, trust_env=False).status_code == 404
