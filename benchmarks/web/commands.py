"""The servers of the asgi page, each by its own command line, as its documentation starts it.

One worker each, access logs off, and uvloop where the server can use it.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measured_program import Unavailable

__all__ = ["KEEP_ALIVE_SECONDS", "SERVERS", "TWO_CORES", "Wanted", "command_of"]

ROOT = Path(__file__).resolve().parent.parent.parent
KEEP_ALIVE_SECONDS = 600
"""So that ten thousand connections are still there when they are counted."""


@dataclass(frozen=True)
class Wanted:
    """What a server is asked for."""

    application: str
    port: int
    interface: str = "asgi"
    tls: tuple[str, str] | None = None
    http2: bool = False
    workers: int = 1

    @property
    def place(self) -> list[str]:
        """The options of most servers for the address."""
        return ["--host", "127.0.0.1", "--port", str(self.port)]

    def tls_options(self, certificate: str, key: str) -> list[str]:
        """The options for TLS, by their names."""
        return [] if self.tls is None else [certificate, self.tls[0], key, self.tls[1]]

    def refuse(self, *, http2: bool = False, tls: bool = False, wsgi: bool = False) -> None:
        """Say what a server does not offer.

        Raises:
            Unavailable: if it is wanted.
        """
        for missing, wanted, name in (
            (http2, self.http2, "HTTP/2"),
            (tls, self.tls is not None, "TLS"),
            (wsgi, self.interface == "wsgi", "WSGI"),
        ):
            if missing and wanted:
                raise Unavailable(f"it has no {name}")


def _script(name: str) -> str:
    """The program that a package has installed, beside this interpreter."""
    return os.path.join(os.path.dirname(sys.executable), name)


def _penstock(wanted: Wanted) -> list[str]:
    command = [sys.executable, "-m", "penstock.cli", "serve", wanted.application, *wanted.place]
    command += ["--no-access-log", "--log-level", "warning", "--workers", str(wanted.workers)]
    command += ["--timeout-keep-alive", str(KEEP_ALIVE_SECONDS)]
    command += ["--http2"] if wanted.http2 else []
    return command + wanted.tls_options("--ssl-certfile", "--ssl-keyfile")


def _uvicorn(loop: str, http: str) -> Callable[[Wanted], list[str]]:
    def command(wanted: Wanted) -> list[str]:
        wanted.refuse(http2=http != "zttp", wsgi=True)
        made = [sys.executable, "-m", "uvicorn", wanted.application, *wanted.place]
        made += ["--no-access-log", "--log-level", "warning", "--loop", loop, "--http", http]
        made += ["--timeout-keep-alive", str(KEEP_ALIVE_SECONDS)]
        made += ["--http2"] if wanted.http2 else []
        return made + wanted.tls_options("--ssl-certfile", "--ssl-keyfile")

    return command


def _granian(wanted: Wanted) -> list[str]:
    command = [_script("granian"), "--interface", wanted.interface, *wanted.place]
    command += ["--log-level", "error", "--workers", str(wanted.workers)]
    command += wanted.tls_options("--ssl-certificate", "--ssl-keyfile")
    return [*command, wanted.application]


def _hypercorn(wanted: Wanted) -> list[str]:
    prefix = "wsgi:" if wanted.interface == "wsgi" else ""
    command = [_script("hypercorn"), "--bind", f"127.0.0.1:{wanted.port}", "-k", "uvloop"]
    command += ["--keep-alive", str(KEEP_ALIVE_SECONDS), "--log-level", "error"]
    command += wanted.tls_options("--certfile", "--keyfile")
    return [*command, prefix + wanted.application]


def _peregrine_or_weft(name: str) -> Callable[[Wanted], list[str]]:
    def command(wanted: Wanted) -> list[str]:
        made = [_script(name), wanted.application, *wanted.place, "--log-level", "error"]
        made += ["--protocol", wanted.interface]
        made += ["--max-connections", "20000"]
        made += ["--wsgi-threads", "16"] if wanted.interface == "wsgi" else []
        return made + wanted.tls_options("--tls-cert", "--tls-key")

    return command


def _m0serve(wanted: Wanted) -> list[str]:
    wanted.refuse(http2=True, tls=True)
    return [
        *(_script("m0serve"), *wanted.place, "--workers", "1", "--app-dir", os.getcwd()),
        *("--protocol", wanted.interface, wanted.application),
    ]


def _h2corn(wanted: Wanted) -> list[str]:
    wanted.refuse(wsgi=True)
    command = [_script("h2corn"), *wanted.place, *wanted.tls_options("--certfile", "--keyfile")]
    return [*command, wanted.application]


def _fastpysgi(wanted: Wanted) -> list[str]:
    wanted.refuse(http2=True)
    command = [_script("fastpysgi"), *wanted.place, "--loglevel", "2"]
    return [*command, *wanted.tls_options("--certfile", "--keyfile"), wanted.application]


def _saltare(wanted: Wanted) -> list[str]:
    wanted.refuse(tls=True, wsgi=True)
    command = [_script("saltare"), wanted.application, *wanted.place]
    command += ["--keep-alive-timeout", str(KEEP_ALIVE_SECONDS)]
    command += ["--max-concurrent-connections", "20000", "--max-keepalive-requests", "1000000000"]
    command += ["--max-request-body", str(2 << 20)]
    return command + (["--http2"] if wanted.http2 else [])


def _robyn(wanted: Wanted) -> list[str]:
    wanted.refuse(http2=True, tls=True, wsgi=True)
    if not wanted.application.endswith(":hello"):
        raise Unavailable("it runs its own framework, not ASGI: the first row only")
    python = ROOT / "build" / "robyn" / "bin" / "python"
    if not python.exists():
        raise Unavailable("it is not installed in build/robyn; scripts/setup bench")
    return [str(python), "-m", "benchmarks.web.robyn_hello", str(wanted.port)]


def _gunicorn(wanted: Wanted) -> list[str]:
    if wanted.interface != "wsgi":
        raise Unavailable("shown for WSGI only")
    return [
        *(_script("gunicorn"), "-k", "gthread", "--threads", "16", "--keep-alive", "600"),
        *("--log-level", "error", "--bind", f"127.0.0.1:{wanted.port}", wanted.application),
    ]


def _in_c(module: str, call: str) -> Callable[[Wanted], list[str]]:
    def command(wanted: Wanted) -> list[str]:
        if wanted.interface != "wsgi":
            raise Unavailable("it has WSGI only")
        package, _, name = wanted.application.partition(":")
        code = f"import {module}; from {package} import {name} as app; "
        return [sys.executable, "-c", code + call.format(port=wanted.port)]

    return command


SERVERS: dict[str, tuple[tuple[str, ...], Callable[[Wanted], list[str]]]] = {
    "penstock": (("penstock",), _penstock),
    "uvicorn on penstock": (
        ("uvicorn", "httptools", "penstock"),
        _uvicorn("penstock:new_event_loop", "httptools"),
    ),
    "uvicorn on uvloop": (("uvicorn", "httptools", "uvloop"), _uvicorn("uvloop", "httptools")),
    "uvicorn zttp on uvloop": (("uvicorn", "zttp", "uvloop"), _uvicorn("uvloop", "zttp")),
    "granian": (("granian",), _granian),
    "granian on two cores": (("granian",), _granian),
    "hypercorn": (("hypercorn", "uvloop"), _hypercorn),
    "peregrine": (("peregrine",), _peregrine_or_weft("peregrine")),
    "weft": (("weft",), _peregrine_or_weft("weft")),
    "m0serve": (("m0serve",), _m0serve),
    "h2corn": (("h2corn",), _h2corn),
    "fastpysgi": (("fastpysgi",), _fastpysgi),
    "fastpysgi-wsgi": (("fastpysgi",), _fastpysgi),
    "saltare": (("saltare",), _saltare),
    "robyn": ((), _robyn),
    "gunicorn": (("gunicorn",), _gunicorn),
    "bjoern": (("bjoern",), _in_c("bjoern", "bjoern.run(app, '127.0.0.1', {port})")),
    "fastwsgi": (("fastwsgi",), _in_c("fastwsgi", "fastwsgi.run(app, '127.0.0.1', {port})")),
}
"""By name: the modules that it needs, and its command."""

_WHY_ABSENT = {"fastwsgi": ": no wheel of it exists for this interpreter"}
TWO_CORES = frozenset({"granian on two cores"})
"""Those that may use the load's core too, because they are made for two."""


def command_of(name: str, wanted: Wanted) -> list[str]:
    """The command of a server.

    Raises:
        Unavailable: with the reason, if it is not installed or does not offer what is wanted.
    """
    modules, command = SERVERS[name]
    for module in modules:
        if importlib.util.find_spec(module) is None:
            raise Unavailable(f"the module {module} is not installed{_WHY_ABSENT.get(module, '')}")
    return command(wanted)
