"""The grammar of ``penstock serve``: uvicorn's options by uvicorn's names."""

from __future__ import annotations

import argparse
import re
from typing import Any

from penstock.cli._grammar import metrics_address
from penstock.cli._interrupts import Interrupts
from penstock.cli._serve.environment import (
    Repeated,
    given_application,
    options_in_environment,
    truth,
)

_LOOPS = ("auto", "penstock", "none", "asyncio", "uvloop", "zuvloop")


def add_serve_command(commands: Any, epilog: str) -> None:
    """Add ``serve`` to the subparsers ``commands``."""
    serve = commands.add_parser(
        "serve",
        help="serve an ASGI or WSGI application over HTTP",
        description="Serve an ASGI or WSGI application. The options have uvicorn's names. An "
        "option --like-this that is not given is taken from the variable PENSTOCK_LIKE_THIS, or "
        "else UVICORN_LIKE_THIS, if it is set. The exit code is 3 if the application or its "
        "address is not available.",
        epilog=epilog,
    )
    app = given_application()
    serve.add_argument(
        "app",
        metavar="MODULE:ATTRIBUTE",
        help="the application; default: $PENSTOCK_APP",
        **({} if app is None else {"nargs": "?", "default": app}),
    )
    _add_places(serve)
    _add_processes(serve)
    _add_application(serve)
    _add_layers(serve)
    _add_logs(serve)
    _add_http(serve)
    _add_websocket(serve)
    _add_tls(serve)
    serve.set_defaults(run=_serve)
    serve.presets = options_in_environment


def _add_places(serve: Any) -> None:
    group = serve.add_argument_group("where it listens")
    group.add_argument(
        "--host", default="127.0.0.1", metavar="ADDRESS", help="default: %(default)s"
    )
    group.add_argument(
        "--port", type=_port, default=8000, help="0 for a free one; default: %(default)s"
    )
    group.add_argument("--uds", metavar="PATH", help="a Unix socket, instead of host and port")
    group.add_argument(
        "--fd", type=_count, metavar="NUMBER", help="an open socket, such as a service manager's"
    )
    group.add_argument(
        "--backlog",
        type=_positive,
        default=2048,
        metavar="CONNECTIONS",
        help="connections that wait to be accepted; default: %(default)s",
    )


def _add_processes(serve: Any) -> None:
    group = serve.add_argument_group("processes")
    group.add_argument(
        "--workers",
        type=_positive,
        metavar="NUMBER",
        help="processes; default: $WEB_CONCURRENCY or 1. One that crashes or hangs is replaced; "
        "SIGHUP replaces all, SIGTTIN and SIGTTOU add and remove one",
    )
    group.add_argument(
        "--timeout-worker-healthcheck",
        type=_seconds,
        default=5.0,
        metavar="SECONDS",
        help="kill a worker whose loop is unresponsive for this time; default: %(default)g",
    )
    group.add_argument(
        "--timeout-worker-start",
        type=_seconds,
        default=60.0,
        metavar="SECONDS",
        help="kill a new worker of a running server that is not ready after this time; 0: no "
        "limit; "
        "default: %(default)g",
    )
    group.add_argument("--reload", action="store_true", help="restart when a file changes")
    group.add_argument(
        "--reload-dir", action=Repeated, metavar="DIR", help="a folder to watch; default: this one"
    )
    group.add_argument("--reload-include", action=Repeated, metavar="PATTERN", help="default: *.py")
    group.add_argument(
        "--reload-exclude", action=Repeated, metavar="PATTERN", help="default: .*, .py[cod], ~*"
    )
    group.add_argument(
        "--reload-delay",
        type=_seconds,
        default=0.25,
        metavar="SECONDS",
        help="time between checks; default: %(default)g",
    )
    group.add_argument(
        "--limit-max-requests",
        type=_positive,
        metavar="REQUESTS",
        help="requests after which a worker is replaced, and a single process ends",
    )
    group.add_argument(
        "--limit-max-requests-jitter",
        type=_count,
        default=0,
        metavar="REQUESTS",
        help="each process adds a random number of requests, up to this",
    )
    group.add_argument(
        "--limit-max-memory",
        type=_size,
        metavar="BYTES",
        help="memory of a process at which it is replaced or ends, such as 512M or 2G",
    )
    group.add_argument(
        "--limit-max-memory-jitter",
        type=_size,
        default=0,
        metavar="BYTES",
        help="each process adds a random amount, up to this",
    )
    group.add_argument(
        "--timeout-graceful-shutdown",
        type=_seconds,
        default=30.0,
        metavar="SECONDS",
        help="time for running requests at shutdown; default: %(default)g",
    )


def _add_application(serve: Any) -> None:
    group = serve.add_argument_group("the application")
    group.add_argument(
        "--factory", action="store_true", help="call ATTRIBUTE, which returns the application"
    )
    group.add_argument(
        "--app-dir", default="", metavar="DIR", help="the folder in which MODULE is searched"
    )
    group.add_argument(
        "--env-file", metavar="FILE", help="a file of environment variables to set first"
    )
    group.add_argument("--lifespan", choices=("auto", "on", "off"), default="auto")
    group.add_argument(
        "--interface",
        choices=("auto", "asgi3", "asgi2", "wsgi"),
        default="auto",
        help="auto detects it from the application's parameters",
    )
    group.add_argument(
        "--wsgi-threads",
        type=_positive,
        default=16,
        metavar="NUMBER",
        help="threads that run a WSGI application, in each process; default: %(default)s",
    )
    group.add_argument(
        "--root-path", default="", metavar="PATH", help="the path prefix that a proxy has removed"
    )
    group.add_argument(
        "--loop",
        type=_loop,
        default="auto",
        metavar="NAME",
        help=f"the event loop: {', '.join(_LOOPS)}, or MODULE:FUNCTION that makes it; auto is "
        "Penstock's",
    )


def _add_layers(serve: Any) -> None:
    group = serve.add_argument_group("around the application")
    group.add_argument(
        "--static",
        action=Repeated,
        default=[],
        type=_static,
        metavar="PREFIX=DIR",
        help="serve the files of a folder under a path prefix; may be repeated",
    )
    group.add_argument(
        "--compress",
        action="store_true",
        help="compress suitable responses: gzip; br and zstd with the packages brotli and "
        "zstandard",
    )
    group.add_argument(
        "--metrics",
        metavar="ADDRESS",
        type=metrics_address,
        help="serve metrics for Prometheus on HOST:PORT, PORT or unix:PATH",
    )
    group.add_argument(
        "--check", action="store_true", help="check whether the server would start, and exit"
    )


def _add_logs(serve: Any) -> None:
    group = serve.add_argument_group("logs")
    group.add_argument(
        "--log-config", metavar="FILE", help="for logging: .json, .yaml, or its own format"
    )
    group.add_argument(
        "--log-level", choices=("critical", "error", "warning", "info", "debug", "trace")
    )
    group.add_argument("--access-log", action=argparse.BooleanOptionalAction, default=True)
    group.add_argument(
        "--access-log-format",
        choices=("uvicorn", "json"),
        default="uvicorn",
        help="json writes an object with the duration on each line; default: %(default)s",
    )
    group.add_argument("--use-colors", action=argparse.BooleanOptionalAction, default=None)


def _add_http(serve: Any) -> None:
    group = serve.add_argument_group("HTTP")
    group.add_argument("--proxy-headers", action=argparse.BooleanOptionalAction, default=True)
    group.add_argument(
        "--forwarded-allow-ips",
        metavar="HOSTS",
        help="trusted proxies: addresses, networks, unix, *; default: $FORWARDED_ALLOW_IPS or "
        "127.0.0.1,::1",
    )
    group.add_argument("--server-header", action=argparse.BooleanOptionalAction, default=True)
    group.add_argument("--date-header", action=argparse.BooleanOptionalAction, default=True)
    group.add_argument(
        "--header",
        action=Repeated,
        default=[],
        type=_header,
        metavar="NAME:VALUE",
        help="a header of every response; may be repeated",
    )
    group.add_argument(
        "--limit-concurrency",
        type=_positive,
        metavar="NUMBER",
        help="the number of connections or requests at which the answer is 503",
    )
    group.add_argument(
        "--timeout-keep-alive",
        type=_seconds,
        default=5.0,
        metavar="SECONDS",
        help="close an idle connection after this time; default: %(default)g",
    )
    group.add_argument(
        "--timeout-head",
        type=_seconds,
        default=30.0,
        metavar="SECONDS",
        help="time limit for a request's head; 0: no limit; default: %(default)g",
    )
    group.add_argument(
        "--timeout-body",
        type=_seconds,
        default=60.0,
        metavar="SECONDS",
        help="time limit without a byte of an awaited body; 0: no limit; default: %(default)g",
    )
    group.add_argument(
        "--timeout-send",
        type=_seconds,
        default=60.0,
        metavar="SECONDS",
        help="time limit in which a client accepts no data; 0: no limit; default: %(default)g",
    )
    group.add_argument(
        "--http2",
        action=argparse.BooleanOptionalAction,
        default=False,
        help="also offer HTTP/2; needs libnghttp2; default: off",
    )
    # A command line for uvicorn may have these; the parser has its own limits.
    group.add_argument("--http", default="auto", help="no effect: there is one parser")
    group.add_argument(
        "--h11-max-incomplete-event-size", type=_positive, metavar="BYTES", help="no effect"
    )
    group.add_argument(
        "--reset-contextvars",
        action="store_true",
        help="no effect: each request has its own context",
    )


def _add_websocket(serve: Any) -> None:
    group = serve.add_argument_group("WebSocket")
    group.add_argument("--ws", default="auto", help="none refuses WebSocket connections")
    group.add_argument("--ws-max-size", type=_positive, default=16 << 20, metavar="BYTES")
    group.add_argument("--ws-max-queue", type=_positive, default=32, metavar="MESSAGES")
    group.add_argument("--ws-ping-interval", type=_seconds, default=20.0, metavar="SECONDS")
    group.add_argument("--ws-ping-timeout", type=_seconds, default=20.0, metavar="SECONDS")
    group.add_argument("--ws-per-message-deflate", type=truth, default=True, metavar="BOOLEAN")


def _add_tls(serve: Any) -> None:
    group = serve.add_argument_group("TLS")
    group.add_argument("--ssl-certfile", metavar="FILE")
    group.add_argument("--ssl-keyfile", metavar="FILE")
    group.add_argument("--ssl-keyfile-password", metavar="TEXT")
    group.add_argument("--ssl-version", type=_count, metavar="NUMBER", help="of the ssl module")
    group.add_argument("--ssl-cert-reqs", type=_count, default=0, metavar="NUMBER")
    group.add_argument("--ssl-ca-certs", metavar="FILE")
    group.add_argument("--ssl-ciphers", metavar="LIST")


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return value


def _count(text: str) -> int:
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"{text} is negative")
    return value


def _size(text: str) -> int:
    units = {"K": 10, "M": 20, "G": 30}
    number, unit = (text[:-1], text[-1].upper()) if text[-1:].isalpha() else (text, "")
    if not number.isdecimal() or (unit and unit not in units):
        raise argparse.ArgumentTypeError(f"{text} is not a size; write one such as 512M")
    return int(number) << units.get(unit, 0)


def _static(text: str) -> tuple[str, str]:
    prefix, equals, folder = text.partition("=")
    if not equals or not folder or not prefix.startswith("/"):
        raise argparse.ArgumentTypeError(f"{text} is not PREFIX=DIR, with a prefix such as /static")
    return prefix, folder


def _loop(text: str) -> str:
    if text not in _LOOPS and not re.fullmatch(r"[\w.]+:\w+", text):
        raise argparse.ArgumentTypeError(
            f"{text} is not a loop; write one of {', '.join(_LOOPS)}, or MODULE:FUNCTION"
        )
    return text


def _port(text: str) -> int:
    value = int(text)
    if not 0 <= value < 65536:
        raise argparse.ArgumentTypeError(f"{text} is not a port; write a number from 0 to 65535")
    return value


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not a number of seconds")
    return value


def _header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon or not name.strip():
        raise argparse.ArgumentTypeError(f"{text} has no colon between its name and its value")
    return name.strip(), value.strip()


def _serve(options: argparse.Namespace, interrupts: Interrupts) -> int:
    from penstock.cli._serve.serve_command import run_serve

    return run_serve(options, interrupts)
