"""``penstock serve``: one process, workers, and what it refuses."""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import httpx
import pytest
import trustme

from penstock.asgi._proxy import ProxyHeaders, TrustedHosts
from penstock.cli import main
from penstock.cli._errors import CommandError
from penstock.cli._metrics_endpoint import MetricsEndpoint
from penstock.cli._serve import supervisor
from penstock.cli._serve.application import read_env_file
from penstock.cli._serve.serve_command import ChangedFiles, bound_sockets, socket_file
from tests.python.conftest import CORE_MISSING

pytestmark = pytest.mark.skipif(
    CORE_MISSING, reason="penstock._core is not built (run 'make build')"
)

APP = """
import os

async def app(scope, receive, send):
    if scope["type"] != "http":
        raise TypeError("no lifespan")
    body = f"{os.getpid()} {scope['client'][0]} {os.environ.get('GREETING')}"
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body.encode()})

def make():
    return app

def plain(environ, start_response):
    start_response("200 OK", [])
    return [str(environ["wsgi.multiprocess"]).encode()]
"""
PACKAGE = Path(__file__).resolve().parents[3] / "python"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "served.py").write_text(APP)
    return tmp_path


@contextlib.contextmanager
def serving(folder: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run the command; yield the process and the URL that it prints."""
    process = subprocess.Popen(
        [sys.executable, "-m", "penstock.cli", "serve", *options, "--port", "0"],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(PACKAGE)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        found = wait_for(process.stderr, r"Serving on (https?://\S+)")
        yield process, found[1]
    finally:
        process.kill()
        process.communicate()


def as_file(place: Path, *blobs: trustme.Blob) -> str:
    for blob in blobs:
        blob.write_to_path(str(place), append=True)
    return str(place)


def test_clients_with_and_without_a_certificate(folder: Path) -> None:
    authority, own = trustme.CA(), trustme.CA()
    server = own.issue_cert("127.0.0.1")
    client = authority.issue_cert("someone@example.com")
    options = (
        *("--ssl-certfile", as_file(folder / "cert", *server.cert_chain_pems)),
        *("--ssl-keyfile", as_file(folder / "key", server.private_key_pem)),
        *("--ssl-ca-certs", as_file(folder / "authority", authority.cert_pem)),
        *("--ssl-cert-reqs", str(ssl.CERT_REQUIRED.value), "--http2"),
    )
    trusting = ssl.create_default_context()
    own.configure_trust(trusting)
    with serving(folder, "served:app", *options) as (_, url):
        with (
            httpx.Client(verify=trusting, trust_env=False) as without,
            pytest.raises(httpx.HTTPError),
        ):
            without.get(url)
        client.configure_cert(trusting)
        with httpx.Client(verify=trusting, trust_env=False, http2=True) as known:
            answer = known.get(url)
            assert (answer.status_code, answer.http_version) == (200, "HTTP/2")


def read_until(stream: IO[str], pattern: str) -> list[str]:
    lines = []
    for line in stream:
        lines.append(line)
        if re.search(pattern, line):
            return lines
    raise AssertionError("".join(lines))


def wait_for(stream: IO[str], pattern: str) -> re.Match[str]:
    found = re.search(pattern, read_until(stream, pattern)[-1])
    assert found is not None
    return found


def ask(url: str, headers: dict[str, str] | None = None) -> list[str]:
    return httpx.get(url, headers=headers, trust_env=False).text.split()


def test_one_process(folder: Path) -> None:
    (folder / "variables").write_text("# a comment\nexport GREETING='hello'\n")
    options = ("served:make", "--factory", "--env-file", "variables", "--header", "X-A: b")
    with serving(folder, *options) as (process, url):
        answer = httpx.get(url, headers={"X-Forwarded-For": "203.0.113.9"}, trust_env=False)
        assert answer.text.split() == [str(process.pid), "203.0.113.9", "hello"]
        assert answer.headers["x-a"] == "b"
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=60)
        assert process.returncode == 143
        assert out == 'INFO:     203.0.113.9:0 - "GET / HTTP/1.1" 200 OK\n'


@pytest.mark.parametrize("name", ["none", "penstock:new_event_loop", "served:own_loop"])
def test_loops(folder: Path, name: str) -> None:
    (folder / "served.py").write_text(
        "import asyncio\n"
        "class Own(asyncio.SelectorEventLoop): pass\n"
        "def own_loop(): return Own()\n"
        "async def app(scope, receive, send):\n"
        "    body = type(asyncio.get_running_loop()).__name__.encode()\n"
        "    await send({'type': 'http.response.start', 'status': 200, 'headers': []})\n"
        "    await send({'type': 'http.response.body', 'body': body})\n"
    )
    with serving(folder, "served:app", "--lifespan", "off", "--loop", name) as (_, url):
        expected = {"none": "_UnixSelectorEventLoop", "served:own_loop": "Own"}.get(name, "Loop")
        assert ask(url) == [expected]


def test_a_wsgi_application(folder: Path) -> None:
    with serving(folder, "served:plain", "--wsgi-threads", "2", "--workers", "2") as (_, url):
        assert ask(url) == ["True"]


def test_a_worker_that_dies_is_replaced_and_all_are_at_sighup(folder: Path) -> None:
    with serving(folder, "served:app", "--workers", "2", "--no-access-log") as (process, url):
        assert process.stderr is not None
        for _ in range(2):
            wait_for(process.stderr, "Application startup complete")
        first = int(ask(url)[0])
        assert first != process.pid
        os.kill(first, signal.SIGKILL)
        wait_for(process.stderr, rf"Worker \[{first}\] ended \(-9\)")
        new = int(wait_for(process.stderr, r"Started server process \[(\d+)\]")[1])
        wait_for(process.stderr, "Application startup complete")
        assert int(ask(url)[0]) != first
        process.send_signal(signal.SIGHUP)
        finished = {
            int(wait_for(process.stderr, r"Finished server process \[(\d+)\]")[1]) for _ in range(2)
        }
        assert new in finished
        assert int(ask(url)[0]) not in finished
        process.send_signal(signal.SIGTERM)
        wait_for(process.stderr, "Stopped parent process")
        assert process.wait(60) == 143


def test_sighup_twice_while_an_old_worker_has_a_request(folder: Path) -> None:
    """The old one is replaced once."""
    (folder / "waits.py").write_text("""
async def app(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"begun", "more_body": True})
    while (await receive())["type"] != "http.disconnect":
        pass
""")
    options = ("waits:app", "--workers", "2", "--no-access-log", "--lifespan", "off")
    with serving(folder, *options) as (process, url), httpx.Client(trust_env=False) as client:
        assert process.stderr is not None
        for _ in range(2):
            wait_for(process.stderr, "Started server process")
        with client.stream("GET", url) as response:
            parts = response.iter_raw()  # its end would close the connection
            assert next(parts) == b"begun"
            process.send_signal(signal.SIGHUP)
            seen = read_until(process.stderr, r"Finished server process")
            process.send_signal(signal.SIGHUP)
            for _ in range(2):
                seen += read_until(process.stderr, r"Finished server process")
        process.send_signal(signal.SIGTERM)
        seen += process.stderr.readlines()
        assert process.wait(60) == 143
    assert sum("Started server process" in line for line in seen) == 4


def test_a_worker_that_cannot_start_does_not_end_the_others(folder: Path) -> None:
    with serving(folder, "served:app", "--workers", "2", "--no-access-log") as (process, url):
        assert process.stderr is not None
        for _ in range(2):
            wait_for(process.stderr, "Application startup complete")
        (folder / "served.py").write_text("app = None")
        first = int(ask(url)[0])
        os.kill(first, signal.SIGKILL)
        wait_for(process.stderr, "A new worker did not start; the others continue")
        assert int(ask(url)[0]) != first
        (folder / "served.py").write_text(APP)
        wait_for(process.stderr, "Application startup complete")
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 143


def test_a_worker_that_does_not_end_is_killed(caplog: pytest.LogCaptureFixture) -> None:
    options = argparse.Namespace(
        timeout_graceful_shutdown=0.0,
        timeout_worker_healthcheck=60.0,
        timeout_worker_start=0.0,
        reload=False,
        workers=0,
    )
    made = supervisor.Supervisor(options, [], logging.getLogger("test"))
    worker = made._start()
    worker.process.kill()
    worker.process.wait()
    program = (
        "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(); signal.pause()"
    )
    worker.process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    assert worker.process.stdout is not None
    with worker.process:
        assert worker.process.stdout.read(1)
        worker.end(0.0)
        while worker.process.poll() is None:
            assert made._look_after_workers()
    assert worker.process.returncode == -signal.SIGKILL
    assert "does not end; it is killed" in caplog.text
    assert made._look_after_workers()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["served"], "write MODULE:ATTRIBUTE"),
        (["missing:app"], "there is no module 'missing'"),
        (["served:missing"], "has no attribute 'missing'"),
        (["served:os"], "is not an application"),
        (["served:app", "--factory"], "is not a factory"),
        (["served:app", "--host", "256.1.1.1"], "cannot listen on http://256.1.1.1:8000"),
        (["served:app", "--env-file", "none"], "cannot read none"),
        (["served:app", "--log-config", "served.py"], "not a configuration for logging"),
        (["served:app", "--port", "0", "--ssl-certfile", "none"], "may read them: none"),
        (["served:app", "--port", "0", "--lifespan", "on"], "refused to start: no lifespan"),
        (["served:app", "--port", "0", "--root-path", "x"], "root_path must begin with"),
        (
            ["served:app", "--port", "0", "--loop", "served:none"],
            "write MODULE:FUNCTION",
        ),
        (
            ["served:app", "--port", "0", "--loop", "nowhere:make"],
            "cannot be used: No module",
        ),
    ],
)
def test_what_cannot_be_served(
    folder: Path,
    words: list[str],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "served", raising=False)
    assert main(["serve", *words]) == 3
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    "words", [["--port", "x"], ["--port", "70000"], ["--header", "x"], ["--loop", "curio"]]
)
def test_a_wrong_command_line(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "served:app", *words]) == 2


def test_changed_files(folder: Path) -> None:
    class Options:
        reload_dir = (str(folder),)
        reload_include = reload_exclude = None
        reload_delay = 0.0
        app_dir = ""

    changed = ChangedFiles(Options())  # type: ignore[arg-type]
    assert not changed()
    (folder / "notes.txt").write_text("x")
    assert not changed()
    (folder / "other.py").write_text("x")
    assert changed()
    assert not changed()


@pytest.mark.parametrize(
    ("included", "excluded", "name", "watched"),
    [
        ([".env"], [], ".env", True),
        ([".*"], [], ".hidden", True),
        (["templates/*.html"], [], "templates/a.html", True),
        (["templates/*.html"], [], "a.html", False),
        ([], ["tests/*"], "tests/a.py", False),
        ([], ["sub/tests"], "sub/tests/a.py", False),
        ([], ["sub/tests"], "tests/a.py", True),
        ([], ["*.py"], "a.py", False),
        ([], [], ".venv/a.py", False),
    ],
)
def test_patterns_of_changed_files(
    folder: Path, included: list[str], excluded: list[str], name: str, watched: bool
) -> None:
    options = argparse.Namespace(
        reload_dir=[str(folder)],
        reload_include=included,
        reload_exclude=excluded,
        reload_delay=0.0,
        app_dir="",
    )
    changed = ChangedFiles(options)
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text("x")
    assert changed() is watched


def test_env_file(folder: Path) -> None:
    (folder / "env").write_text("A=1\nB = 'x # y' # z\n\nC=a b # c\nD=\"\"\n")
    assert read_env_file(str(folder / "env")) == {"A": "1", "B": "x # y", "C": "a b", "D": ""}


@pytest.mark.parametrize(
    ("trusted", "client", "forwarded", "expected"),
    [
        ("127.0.0.1", ("127.0.0.1", 5), "1.1.1.1, 2.2.2.2", ("2.2.2.2", 0)),
        ("127.0.0.1, 2.0.0.0/8", ("127.0.0.1", 5), "1.1.1.1, 2.2.2.2", ("1.1.1.1", 0)),
        ("*", ("9.9.9.9", 5), "1.1.1.1, 2.2.2.2", ("1.1.1.1", 0)),
        ("127.0.0.1", ("9.9.9.9", 5), "1.1.1.1", ("9.9.9.9", 5)),
        ("127.0.0.1", None, "1.1.1.1", None),
        ("unix", None, "1.1.1.1:80", ("1.1.1.1", 80)),
        ("::1", ("::1", 5), "[2001:db8::1]:80", ("2001:db8::1", 80)),
        ("::1", ("::1", 5), "2001:db8::1", ("2001:db8::1", 0)),
        ("::1", ("::1", 5), "", ("::1", 5)),
        pytest.param("*", None, "1.1.1.1:" + "9" * 5000, ("1.1.1.1", 0), id="digits"),
        ("*", ("9.9.9.9", 5), "1.1.1.1:65536", ("1.1.1.1", 0)),
        ("127.0.0.1, 2001:DB8:0::1", ("2001:db8::1", 5), "1.1.1.1", ("1.1.1.1", 0)),
        ("127.0.0.1, ::1", ("127.0.0.1", 5), "1.1.1.1, [::1", ("[::1", 0)),
        ("127.0.0.1", ("127.0.0.1", 5), "1.1.1.1, 127.0.0.1:x", ("127.0.0.1:x", 0)),
        ("127.0.0.1, ::1", ("127.0.0.1", 5), "1.1.1.1, [::1]x", ("[::1]x", 0)),
    ],
)
def test_proxy_headers(trusted: str, client: object, forwarded: str, expected: object) -> None:
    headers = [
        (b"x-forwarded-for", forwarded.encode()),
        (b"x-forwarded-proto", b"evil"),
        (b"x-forwarded-proto", b"https"),
    ]
    scope = {"type": "http", "client": client, "scheme": "http", "headers": headers}
    corrected = dict(scope)
    ProxyHeaders(TrustedHosts(trusted))(corrected)
    believed = expected != client or not forwarded
    assert corrected == {**scope, "client": expected, "scheme": "https" if believed else "http"}


FAILS = """
def fails():
    return 1 / 0

def make():
    raise TypeError("of its own")
"""


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["broken:app"], "in fails"),
        (["broken:app", "--workers", "2"], "in fails"),
        (["made:make", "--factory"], "in make"),
        (["leaves:app", "--workers", "2"], "Stopped parent process"),
    ],
)
def test_an_application_that_fails_before_it_serves(
    folder: Path, words: list[str], told: str
) -> None:
    """Its own traceback is shown, and workers are not started again and again."""
    (folder / "broken.py").write_text(FAILS + "app = fails()\n")
    (folder / "made.py").write_text(FAILS)
    (folder / "leaves.py").write_text("import sys\nsys.exit(5)\n")
    result = subprocess.run(
        [sys.executable, "-m", "penstock.cli", "serve", *words, "--port", "0"],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(PACKAGE)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert result.returncode == 3
    assert told in result.stderr
    assert "defect" not in result.stderr
    assert "importlib" not in result.stderr


def test_a_file_of_variables_has_what_the_environment_may_have(folder: Path) -> None:
    (folder / "variables").write_text("WEB_CONCURRENCY=2\nFORWARDED_ALLOW_IPS=10.0.0.1\n")
    with serving(folder, "served:app", "--env-file", "variables") as (process, url):
        worker, client, _ = ask(url, {"X-Forwarded-For": "203.0.113.9"})
        assert int(worker) != process.pid
        assert client == "127.0.0.1"
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 143


def test_an_address_of_a_name_that_this_machine_does_not_have(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As ::1 of localhost where IPv6 is off."""
    found = [
        (socket.AF_INET, socket.SOCK_STREAM, 0, "", (address, 0))
        for address in ("127.0.0.1", "192.0.2.1")
    ]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: reversed(found))
    options = argparse.Namespace(fd=None, uds=None, host="name", port=0, ssl_certfile=None)
    (only,) = bound_sockets(options)
    with only:
        assert only.getsockname()[0] == "127.0.0.1"
    del found[0]
    with pytest.raises(CommandError, match="cannot listen on http://name:0"):
        bound_sockets(options)


def test_the_socket_of_a_successor_stays(tmp_path: Path) -> None:
    """It begins on the same path before its predecessor has ended."""
    options = argparse.Namespace(fd=None, uds=str(tmp_path / "socket"))
    sockets, files = [], []
    for _ in range(2):
        sockets += bound_sockets(options)
        files.append(socket_file(options))
    first, second = files
    assert first is not None
    assert second is not None
    first.remove()
    assert os.path.exists(options.uds)
    second.remove()
    assert not os.path.exists(options.uds)
    for each in sockets:
        each.close()


def test_the_socket_of_a_successor_for_metrics_stays(tmp_path: Path) -> None:
    path = tmp_path / "metrics"
    first = MetricsEndpoint(f"unix:{path}", str)
    with pytest.raises(CommandError, match="another process listens there"):
        MetricsEndpoint(f"unix:{path}", str)
    path.unlink()
    second = MetricsEndpoint(f"unix:{path}", str)
    first.close()
    assert path.exists()
    second.close()
    assert not path.exists()


def test_a_client_of_tcp_without_an_address_is_not_one_of_a_unix_socket() -> None:
    """It has reset its connection before it was asked for."""
    scope = {
        "type": "http",
        "client": None,
        "server": ("127.0.0.1", 80),
        "scheme": "http",
        "headers": [(b"x-forwarded-for", b"1.1.1.1"), (b"x-forwarded-proto", b"https")],
    }
    corrected = dict(scope)
    ProxyHeaders(TrustedHosts("unix"))(corrected)
    assert corrected == scope


def test_http2_where_it_is_asked_for(folder: Path) -> None:
    with (
        serving(folder, "served:app", "--http2") as (_, url),
        httpx.Client(http1=False, http2=True, trust_env=False) as client,
    ):
        response = client.get(url)
        assert response.http_version == "HTTP/2"
        assert response.text.split()[1] == "127.0.0.1"


def test_http2_without_its_library(folder: Path) -> None:
    (folder / "libnghttp2.so.14").touch()  # what cannot be loaded is found first
    result = subprocess.run(
        [sys.executable, "-m", "penstock.cli", "serve", "served:app", "--port", "0", "--http2"],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(PACKAGE), "LD_LIBRARY_PATH": str(folder)},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 7
    assert "HTTP/2 needs libnghttp2.so.14" in result.stderr


def test_each_option_of_uvicorn_is_accepted(capsys: pytest.CaptureFixture[str]) -> None:
    theirs = pytest.importorskip("uvicorn.main").main.params
    assert main(["serve", "--help"]) == 0
    ours = set(re.findall(r"--[a-z0-9-]+", capsys.readouterr().out))
    wanted = {
        name
        for option in theirs
        for name in (*option.opts, *option.secondary_opts)
        if name.startswith("--")
    }
    assert wanted - ours == {"--version"}  # penstock --version
