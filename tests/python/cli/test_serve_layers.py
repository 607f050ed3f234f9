"""``penstock serve``: metrics, access log, static files, compression, limits, --check."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import resource
import signal
import socket
import struct
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path
from typing import Any

import hpack
import httpx
import pytest

from penstock.asgi import serve
from penstock.cli import main
from penstock.cli._metrics_endpoint import MetricsEndpoint, check_address
from penstock.cli._serve import logs
from penstock.cli._serve.application import Observed
from penstock.cli._serve.logs import AccessBlocks
from penstock.cli._serve.metrics import SharedCounters, metrics_page
from penstock.cli._serve.running import ProcessLimits, resident_memory
from tests.python.asgi.http2_client import (
    END_HEADERS,
    HEADERS,
    PREFACE,
    SETTINGS,
    frame,
    request_fields,
)
from tests.python.conftest import CORE_MISSING

from .test_serve import PACKAGE, ask, folder, serving, wait_for  # noqa: F401

pytestmark = pytest.mark.skipif(
    CORE_MISSING, reason="penstock._core is not built (run 'make build')"
)

TEXT = """
async def text(scope, receive, send):
    if scope["path"] == "/fails":
        raise KeyError("x")
    headers = [(b"content-type", b"text/plain")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"text " * 200})
"""


def read_metrics(path: Path) -> dict[str, float]:
    transport = httpx.HTTPTransport(uds=os.fspath(path))
    with httpx.Client(transport=transport, trust_env=False) as client:
        assert client.get("http://metrics/else").status_code == 404
        answer = client.get("http://metrics/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    pairs = (line.rsplit(" ", 1) for line in answer.text.splitlines() if line[0] != "#")
    return {name: float(value) for name, value in pairs}


def test_all_layers_with_two_workers(folder: Path) -> None:  # noqa: F811
    (folder / "texts.py").write_text(TEXT)
    (folder / "public").mkdir()
    (folder / "public/a.txt").write_text("static")
    options = ("texts:text", "--workers", "2", "--lifespan", "off", "--metrics", "unix:metrics")
    options += ("--access-log-format", "json", "--static", "/s=public", "--compress")
    with serving(folder, *options) as (process, url):
        assert process.stderr is not None
        answer = httpx.get(url, headers={"Accept-Encoding": "gzip"}, trust_env=False)
        assert (answer.text, answer.headers["content-encoding"]) == ("text " * 200, "gzip")
        assert httpx.get(url + "/s/a.txt", trust_env=False).text == "static"
        assert httpx.get(url + "/s/b.txt", trust_env=False).status_code == 404
        assert httpx.get(url + "/fails", trust_env=False).status_code == 500
        # The counts stay when their processes have ended.
        process.send_signal(signal.SIGHUP)
        for _ in range(2):
            wait_for(process.stderr, "Finished server process")
        found = read_metrics(folder / "metrics")
        assert {
            name: value for name, value in found.items() if name.startswith("penstock_requests_t")
        } == {f'penstock_requests_total{{status="{status}"}}': 1 for status in (404, 500)} | {
            'penstock_requests_total{status="200"}': 2
        }
        assert found["penstock_request_duration_seconds_count"] == 4
        assert found['penstock_request_duration_seconds_bucket{le="+Inf"}'] == 4
        assert found["penstock_workers"] >= 2  # an old one may not be gone
        assert sum(name.startswith("penstock_resident_memory_bytes") for name in found) >= 2
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=60)
    assert not (folder / "metrics").exists()
    lines = [json.loads(line) for line in out.splitlines()]
    assert sorted((line["path"], line["status"]) for line in lines) == [
        ("/", 200),
        ("/fails", 500),
        ("/s/a.txt", 200),
        ("/s/b.txt", 404),
    ]
    assert all(line["seconds"] >= 0 and line["client"].startswith("127.0.0.1:") for line in lines)


def test_workers_are_added_and_removed(folder: Path) -> None:  # noqa: F811
    options = ("--workers", "1", "--reload", "--metrics", "unix:m")
    with serving(folder, "served:app", *options) as (process, url):
        assert process.stderr is not None
        first = wait_for(process.stderr, r"Started server process \[(\d+)\]")[1]
        wait_for(process.stderr, "Application startup complete")
        process.send_signal(signal.SIGTTIN)
        second = wait_for(process.stderr, r"Started server process \[(\d+)\]")[1]
        wait_for(process.stderr, "Application startup complete")
        assert read_metrics(folder / "m")["penstock_workers"] == 2
        process.send_signal(signal.SIGTTOU)
        assert wait_for(process.stderr, r"Finished server process \[(\d+)\]")[1] == second
        process.send_signal(signal.SIGTTOU)  # one is always left
        assert ask(url)[0] == first


def test_a_worker_beyond_its_memory_is_replaced(folder: Path) -> None:  # noqa: F811
    options = ("--reload", "--limit-max-memory", "1M", "--limit-max-memory-jitter", "1K")
    with serving(folder, "served:app", *options) as (process, _):
        assert process.stderr is not None
        assert wait_for(process.stderr, r"Memory limit of 1 MiB exceeded \((\d+) MiB\)")
        wait_for(process.stderr, r"Worker \[\d+\] ended \(0\)")
        wait_for(process.stderr, "Started server process")


def test_limits_have_a_jitter() -> None:
    class Options:
        limit_max_requests = 100
        limit_max_requests_jitter = 50
        limit_max_memory = None
        limit_max_memory_jitter = 0

    found = {
        next(n for n in range(200) if limits.exceeded(n) is not None)
        for limits in (ProcessLimits(Options()) for _ in range(100))  # type: ignore[arg-type]
    }
    assert len(found) > 1 and min(found) >= 100 and max(found) <= 150
    assert resident_memory() > 1 << 20


def test_check(
    folder: Path,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.delitem(sys.modules, "served", raising=False)
    assert main(["serve", "served:app", "--check"]) == 0
    assert capsys.readouterr().out == "served:app can be served\n"
    assert main(["serve", "served:app", "--check", "--static", "/s=none"]) == 3
    err = capsys.readouterr().err
    assert "--static /s=none cannot be served: No such file or directory; name a folder" in err
    assert main(["serve", "served:app", "--check", "--root-path", "x"]) == 3
    assert main(["serve", "served:app", "--check", "--ssl-certfile", "none"]) == 3


@pytest.mark.parametrize(
    "words",
    [
        ["--static", "x=."],
        ["--static", "/x"],
        ["--metrics", "host:port"],
        ["--metrics", ":80"],
        ["--limit-max-memory", "1X"],
    ],
)
def test_a_wrong_command_line(words: list[str]) -> None:
    assert main(["serve", "served:app", *words]) == 2


def test_the_metrics_address(capsys: pytest.CaptureFixture[str]) -> None:
    assert check_address("9000") == (socket.AF_INET, ("127.0.0.1", 9000))
    assert check_address("[::1]:0") == (socket.AF_INET6, ("::1", 0))
    endpoint = MetricsEndpoint("127.0.0.1:0", partial(metrics_page, SharedCounters()))
    try:
        port = endpoint.place.rpartition(":")[2].partition("/")[0]
        assert "penstock_workers 0" in httpx.get(endpoint.place, trust_env=False).text
        assert main(["serve", "x:y", "--port", "0", "--metrics", port]) == 3
        assert "cannot serve metrics on" in capsys.readouterr().err
    finally:
        endpoint.close()


def test_the_metrics_replace_a_socket_and_no_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "notes"
    path.write_text("kept")
    assert main(["serve", "x:y", "--port", "0", "--metrics", f"unix:{path}"]) == 3
    assert "cannot serve metrics on" in capsys.readouterr().err
    assert path.read_text() == "kept"


def test_metrics_for_clients_that_stall_or_reset(capfd: pytest.CaptureFixture[str]) -> None:
    endpoint = MetricsEndpoint("127.0.0.1:0", partial(metrics_page, SharedCounters()))
    address = ("127.0.0.1", int(endpoint.place.rpartition(":")[2].partition("/")[0]))
    with contextlib.ExitStack() as stack:
        stack.callback(endpoint.close)
        stalled = [stack.enter_context(socket.create_connection(address)) for _ in range(32)]
        with socket.create_connection(address) as turned_away:
            turned_away.settimeout(30)
            assert turned_away.recv(1) == b""
        for each in stalled:
            each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            each.close()
        while any("process_request_thread" in each.name for each in threading.enumerate()):
            threading.Event().wait(0.001)
        assert httpx.get(endpoint.place, trust_env=False).status_code == 200
    assert capfd.readouterr().err == ""


def test_limits_need_no_descriptor() -> None:
    """Clients may have taken all of them, and the sign of life comes after the look at limits."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert resident_memory() > 0
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, before[1]))
    try:
        assert resident_memory() > 0
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.parametrize("disconnects", [True, False])
def test_the_status_without_a_response(disconnects: bool) -> None:
    seen: list[int] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()

    async def receive() -> Any:
        return {"type": "http.disconnect" if disconnects else "http.request"}

    observed = Observed(app, [lambda scope, status, seconds: seen.append(status)])
    asyncio.run(observed({"type": "http"}, receive, receive))
    assert seen == [499 if disconnects else 500]


def test_the_status_of_a_response_that_is_refused() -> None:
    """What is not a number was counted, which hid the exception of the application."""
    seen: list[int] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": "200"})

    observed = Observed(app, [lambda scope, status, seconds: seen.append(status)])

    async def main() -> None:
        async with serve(observed, port=0, lifespan="off", access_log=False) as server:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(b"GET / HTTP/1.1\r\nHost: test\r\n\r\n")
            assert (await reader.read()).startswith(b"HTTP/1.1 500 ")
            writer.close()

    asyncio.run(main())
    assert seen == [500]


@pytest.mark.parametrize("http2", [False, True])
def test_the_status_of_a_body_that_stalls(http2: bool) -> None:
    """It was counted as that of a client that has gone."""
    seen: list[tuple[int, bool]] = []
    told: list[int] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    observed = Observed(app, [lambda scope, status, seconds: seen.append((status, seconds > 0))])

    async def main() -> None:
        async with serve(
            observed,
            port=0,
            lifespan="off",
            http2=http2,
            timeout_body=0.05,
            access_log=lambda scope, status: told.append(status),
            on_refusal=observed.note_refusal,
        ) as server:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            if http2:
                head = hpack.Encoder().encode(request_fields(method=b"POST"))
                writer.write(PREFACE + frame(SETTINGS, 0, 0) + frame(HEADERS, END_HEADERS, 1, head))
            else:
                writer.write(b"POST / HTTP/1.1\r\nHost: test\r\nContent-Length: 5\r\n\r\nb")
                assert (await reader.read()).startswith(b"HTTP/1.1 408 ")
            while not seen:  # noqa: ASYNC110 nothing tells of it
                await asyncio.sleep(0.01)
            assert observed.in_progress == 0
            writer.close()

    asyncio.run(main())
    assert seen == [(408, True)]
    assert told == [408]


def test_the_page_of_metrics() -> None:
    shared = SharedCounters()
    other = SharedCounters(shared.descriptor)  # as in another process
    place = shared.take()
    assert place is not None
    counters = other.place(place)
    counters.begin(7, 1000.5)
    for status, seconds in ((200, 0.0005), (200, 0.3), (404, 60.0)):
        counters.count(status, seconds)
    page = metrics_page(shared).splitlines()
    assert 'penstock_requests_total{status="200"} 2' in page
    buckets = [line for line in page if "_bucket" in line]
    assert buckets[0].endswith('le="0.001"} 1') and buckets[-1].endswith('le="+Inf"} 3')
    assert 'penstock_start_time_seconds{worker="0",pid="7"} 1000.5' in page
    shared.give_back(place)
    page = metrics_page(shared).splitlines()
    assert "penstock_workers 0" in page
    assert "penstock_request_duration_seconds_count 3" in page


SCOPE = {
    "client": ("1.2.3.4", 5),
    "method": "GET",
    "path": "/a\nb",
    "query_string": b"q",
    "http_version": "1.1",
}


async def log_lines(blocks: AccessBlocks, count: int) -> None:
    for number in range(count):
        blocks.log_start(SCOPE, 200 + number)


def test_lines_of_the_access_log_are_written_in_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[int] = []
    write = os.write
    with open(tmp_path / "log", "w+") as file:
        blocks = AccessBlocks(file.fileno(), "INFO:     ", False)
        monkeypatch.setattr(os, "write", lambda *args: (n := write(*args), written.append(n))[0])
        asyncio.run(log_lines(blocks, 600))
        blocks.close()
        monkeypatch.undo()
        lines = (tmp_path / "log").read_text().splitlines()
    assert len(lines) == 600 and len(written) < 5
    assert lines[0] == 'INFO:     1.2.3.4:5 - "GET /a%0Ab?q HTTP/1.1" 200 OK'
    assert lines[-1] == 'INFO:     1.2.3.4:5 - "GET /a%0Ab?q HTTP/1.1" 799'


def test_a_reader_of_the_access_log_that_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two writers into one pipe: lines stay whole, and what is lost is told."""
    monkeypatch.setattr(logs, "_MOST_BYTES", 100_000)
    reader, writer = os.pipe()
    blocks = [AccessBlocks(writer, f"{name} ", False) for name in "ab"]
    for each in blocks:
        asyncio.run(log_lines(each, 20_000))
    with open(reader, "rb") as file:
        ending = threading.Thread(target=lambda: [each.close() for each in (*blocks, file_of)])
        file_of = open(writer, "wb")  # noqa: SIM115
        ending.start()
        lines = file.read().decode().splitlines()
        ending.join()
    for name in "ab":
        missing, found = 0, 0
        for line in lines:
            if line.startswith(f"{name} 1.2.3.4:5 - "):
                assert re.fullmatch(r'. 1.2.3.4:5 - "GET /a%0Ab\?q HTTP/1.1" \d+( \D+)?', line)
                found += 1
            elif line.startswith(name):
                missing += int(line.split()[1])
        assert found + missing == 20_000 and missing > 0


def test_a_full_pipe_does_not_spoil_the_end_of_the_process() -> None:
    program = """
import asyncio
from penstock.cli._serve import logs
logs._END_SECONDS = 0.1

async def log():
    for _ in range(1000):
        blocks.log_json(scope, 200, 0.5)

scope = {"method": "GET", "path": "/" * 100, "query_string": b"", "http_version": "1.1"}
blocks = logs.AccessBlocks(1, "", False, as_json=True)
asyncio.run(log())
blocks.close()
"""
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        env=os.environ | {"PYTHONPATH": os.fspath(PACKAGE)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None and process.stderr is not None
    with process:
        assert process.wait(timeout=60) == 0  # nobody reads
        assert process.stderr.read() == b""
