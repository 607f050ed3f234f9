"""The rows of the asgi page: what is asked, of which application, and who answers it."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measure.native import BENCHMARKS
from benchmarks.web.commands import SERVERS
from benchmarks.web.content import HELLO, TEN_KIB

__all__ = ["ROWS", "Row", "load_of", "missing_load"]

OTHER_LOADS = ("h2load", "wrk")
"""Loads of others, which compare no bodies."""


APPLICATIONS = "benchmarks.web.applications"
JSON_HELLO = '{"text":"Hello, world!"}'
# Without threads: an application that waits, or computes, stops all requests.
WITHOUT_THREADS = ("fastpysgi-wsgi", "bjoern", "fastwsgi")
OF_ASGI = tuple(name for name in SERVERS if name not in (*WITHOUT_THREADS, "gunicorn", "robyn"))
OF_WSGI = (
    *("penstock", "granian", "granian on two cores", "hypercorn", "peregrine", "weft", "m0serve"),
    *("gunicorn", *WITHOUT_THREADS),
)


@dataclass(frozen=True)
class Row:
    """One row.

    Attributes:
        label: of the row; ``{connections}`` is replaced.
        application: what the servers run.
        load: the program of the load, and its options.
        servers: who takes part.
        connections: open at once; 0 for those of the page.
        floor: whether the raw echo of a request's bytes stands beside it.
    """

    label: str
    application: str
    load: tuple[str, ...]
    servers: tuple[str, ...] = OF_ASGI
    connections: int = 0
    interface: str = "asgi"
    tls: bool = False
    http2: bool = False
    floor: bool = False


def _row(label: str, application: str, *load: str, **others: object) -> Row:
    name = application if ":" in application else f"{APPLICATIONS}:{application}"
    return Row(label, name, load, **others)  # type: ignore[arg-type]


SAYS_HELLO = ("http_client", "--body", HELLO)
SAYS_JSON = ("http_client", "--body", JSON_HELLO)

ROWS: dict[str, Row] = {
    "hello": _row(
        "hello, {connections} connections",
        "hello",
        *SAYS_HELLO,
        servers=(*OF_ASGI, "robyn"),
        floor=True,
    ),
    "one": _row("hello, 1 connection", "hello", *SAYS_HELLO, connections=1),
    "fields": _row(
        "16 request and 16 response fields", "sixteen_fields", *SAYS_HELLO, "--fields", "16"
    ),
    "body": _row("a body of 10 KiB", "ten_kib", "http_client", "--body-size", str(TEN_KIB)),
    "post": _row(
        "10 KiB of JSON posted and echoed",
        "json_echo",
        *("http_client", "--body-size", str(TEN_KIB), "--post", "json"),
    ),
    "stream": _row(
        "1 MiB in 64 KiB parts both ways",
        "stream_echo",
        *("http_client", "--body-size", str(1 << 20), "--post", "parts"),
        connections=4,
    ),
    "fastapi": _row(
        "FastAPI, an answer of pydantic", "benchmarks.web.with_fastapi:app", *SAYS_JSON
    ),
    "starlette": _row("Starlette, JSON", "benchmarks.web.with_starlette:app", *SAYS_JSON),
    "django": _row("Django over ASGI, a plain view", "benchmarks.web.with_django:app", *SAYS_HELLO),
    "ws64": _row("WebSocket echo, 64 B", "websocket_echo", *("websocket_client", "--size", "64")),
    "ws1k": _row(
        "WebSocket echo, 1 KiB", "websocket_echo", *("websocket_client", "--size", "1024")
    ),
    "broadcast": _row(
        "WebSocket broadcast to 1000", "broadcast", "broadcast_client", connections=1000
    ),
    "http2": _row(
        "HTTP/2 hello, 10 streams a connection",
        "hello",
        *("h2load", "--length", str(len(HELLO))),
        http2=True,
    ),
    "tls": _row("TLS hello", "hello", "tls_http_client", "--body", HELLO, tls=True),
    "wsgi": _row("WSGI hello", "wsgi_hello", *SAYS_HELLO, servers=OF_WSGI, interface="wsgi"),
    "wrk": _row("hello by wrk", "hello", "wrk"),
}


def load_of(row: Row, native: Path, connections: int) -> Callable[[str], list[str]]:
    """The command of the row's load, given the port."""
    program, *options = row.load
    if program in OTHER_LOADS:
        command = [sys.executable, str(BENCHMARKS / f"{program}_load.py"), *options]
    else:
        command = [str(native / program), *options]
    count = str(row.connections or connections)
    return lambda port: [*command, "--port", port, "--connections", count]


def missing_load(row: Row) -> str | None:
    """The load of the row, if it is a program that this machine lacks."""
    program = row.load[0]
    return program if program in OTHER_LOADS and shutil.which(program) is None else None
