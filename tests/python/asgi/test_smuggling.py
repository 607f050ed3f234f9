"""Where a request ends, and whether it is one: the server beside llhttp (strict) and nginx."""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

import penstock
from tests.python.conftest import skip_absent
from tests.python.documentation.page_steps import free_port

from .smuggling_cases import CASES, SECOND
from .support import body_of, respond, serving

Seen = list[tuple[str, str, bytes]]

# What the server takes and llhttp refuses. Both end where it says that they end.
UNLIKE_LLHTTP = {
    "HTTP/1.2": "a minor version is compatible (RFC 9110, section 2.5)",
}
CODING = "501 for a coding that it does not know; here 400, since none ends the body"
LENIENT = "takes it"
UNLIKE_NGINX = {
    "an unknown coding": CODING,
    "identity": CODING,
    "gzip": CODING,
    "chunks and gzip": CODING,
    "chunks twice": CODING,
    "a coding with a vertical tab": CODING,
    "a coding with quotes": CODING,
    "a chunk with a blank": LENIENT,
    "a chunk that ends with a line feed": LENIENT,
    "a chunk size that ends with a line feed": LENIENT,
    "a folded trailer": LENIENT,
    "a trailer without a colon": LENIENT,
    "line feeds alone": LENIENT,
    "a line feed in the request line": LENIENT,
    "a line feed behind a field": LENIENT,
    "a field without a colon": LENIENT,
    "two blanks in the request line": LENIENT,
    "a target above ASCII": LENIENT,
    "an extension of 70,000 bytes": LENIENT,
    "trailers of 70,000 bytes": LENIENT,
    "HTTP/0.9": "answers without a head",
    "a method in lower case": "400; here 501, as for any method that is not known",
}


async def exchange(port: int, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(request)
        return await asyncio.wait_for(reader.read(), 30)
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


def statuses(answer: bytes) -> list[int]:
    return [int(each) for each in re.findall(rb"HTTP/1\.[01] (\d{3}) ", answer)]


def of_the_server() -> dict[str, tuple[Seen, list[int]]]:
    """What an application sees of each case, and the statuses of the responses."""

    async def main() -> dict[str, tuple[Seen, list[int]]]:
        seen: Seen = []

        async def app(scope: Any, receive: Any, send: Any) -> None:
            method, path = scope["method"], scope["raw_path"].decode()
            try:
                body = await body_of(receive)
            except OSError:
                return  # it was refused within its body
            seen.append((method, path, body))
            await respond(send, b"ok")

        found = {}
        async with serving(app) as server:
            for name, request in CASES.items():
                seen.clear()
                answer = await exchange(server.port, request + SECOND)
                found[name] = ([*seen], statuses(answer))
        return found

    return penstock.run(asyncio.wait_for(main(), 100))


def of_llhttp(request: bytes) -> Seen:
    """The messages that llhttp finds, until its first error."""
    httptools = pytest.importorskip("httptools")
    seen: Seen = []

    class Reader:
        def on_message_begin(self) -> None:
            self.url = self.body = b""

        def on_url(self, part: bytes) -> None:
            self.url += part

        def on_body(self, part: bytes) -> None:
            self.body += part

        def on_message_complete(self) -> None:
            path = httptools.parse_url(self.url).path or self.url
            seen.append((parser.get_method().decode(), path.decode("latin-1"), self.body))

    parser = httptools.HttpRequestParser(Reader())
    with suppress(httptools.HttpParserError):
        parser.feed_data(request)
    return seen


@contextmanager
def nginx(folder: Path) -> Iterator[int]:
    program = shutil.which("nginx", path="/usr/sbin:/usr/bin:/bin")
    if program is None:
        skip_absent("nginx is not installed")
    port = free_port()
    (folder / "nginx.conf").write_text(
        f"""
        daemon off; pid nginx.pid; error_log error.log; events {{}}
        http {{
            access_log off;
            server {{ listen 127.0.0.1:{port}; location / {{ return 200 ok; }} }}
        }}
        """
    )
    process = subprocess.Popen(
        [program, "-e", "error.log", "-p", str(folder), "-c", "nginx.conf"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield port
    finally:
        process.terminate()
        process.wait()


def of_nginx(folder: Path) -> dict[str, list[int]]:
    async def main(port: int) -> dict[str, list[int]]:
        while True:
            try:
                await exchange(port, SECOND)
                break
            except ConnectionRefusedError:
                await asyncio.sleep(0.01)
        return {
            name: statuses(await exchange(port, request + SECOND))
            for name, request in CASES.items()
        }

    with nginx(folder) as port:
        return penstock.run(asyncio.wait_for(main(port), 100))


@pytest.fixture(scope="module")
def seen_by_the_server() -> dict[str, tuple[Seen, list[int]]]:
    return of_the_server()


def test_the_server_sees_nothing_that_llhttp_does_not(
    seen_by_the_server: dict[str, tuple[Seen, list[int]]],
) -> None:
    unlike = set()
    for name, (seen, answers) in seen_by_the_server.items():
        judged = of_llhttp(CASES[name] + SECOND)
        if seen != judged[: len(seen)]:
            unlike.add(name)
            assert judged == [], name
        # What is taken is taken whole, and what is refused ends the connection.
        assert answers == [200, 200] or (len(answers) == 1 and answers[0] >= 400), name
        assert len(seen) == answers.count(200), name
    assert unlike == UNLIKE_LLHTTP.keys()


def test_the_server_answers_as_nginx_does(
    seen_by_the_server: dict[str, tuple[Seen, list[int]]], tmp_path: Path
) -> None:
    judged = of_nginx(tmp_path)
    unlike = set()
    for name, (_, answers) in seen_by_the_server.items():
        if [status // 100 for status in answers] != [status // 100 for status in judged[name]]:
            unlike.add(name)
            if UNLIKE_NGINX.get(name) == LENIENT:
                assert judged[name] == [200, 200] and answers[0] == 400, name
    assert unlike == UNLIKE_NGINX.keys()
