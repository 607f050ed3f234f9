"""``penstock serve``: one process, or a supervisor with its workers."""

from __future__ import annotations

import argparse
import contextlib
import errno
import os
import signal
import socket
import stat
import time
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path, PurePath
from typing import Any

from penstock.cli._errors import CommandError, ExitCode, one_line
from penstock.cli._interrupts import Interrupts
from penstock.cli._metrics_endpoint import MetricsEndpoint
from penstock.cli._serve.application import built_application, read_env_file
from penstock.cli._serve.logs import Loggers, set_up_logs
from penstock.cli._serve.metrics import SharedCounters, metrics_page
from penstock.cli._serve.running import run_process, server_arguments
from penstock.cli._serve.supervisor import Supervisor
from penstock.cli._socket_file import SocketFile


def run_serve(options: argparse.Namespace, interrupts: Interrupts) -> int:
    """Serve until SIGINT or SIGTERM. Ctrl-C is the usual end: exit code 0."""
    if options.env_file is not None:
        for name, value in read_env_file(options.env_file).items():
            os.environ.setdefault(name, value)
    take_environment(options)
    loggers = set_up_logs(options)
    log = loggers.error
    if options.h11_max_incomplete_event_size is not None:
        log.warning("--h11-max-incomplete-event-size has no effect: a head has at most 64 KiB")
    if options.reload and options.workers > 1:
        log.warning("--workers has no effect with --reload")
    if options.check:
        return check(options, loggers)
    sockets = bound_sockets(options)
    file = socket_file(options)
    shared = endpoint = None
    try:
        if options.metrics is not None:
            shared = SharedCounters()
            endpoint = MetricsEndpoint(options.metrics, partial(metrics_page, shared))
            log.info("Metrics on %s", endpoint.place)
        if options.reload or options.workers > 1:
            for each in sockets:
                each.listen(options.backlog)
                each.set_inheritable(True)
            place = place_of(options, sockets)
            by = " and reloading" if options.reload else f" with {options.workers} workers"
            log.info("Serving on %s%s (Press CTRL+C to quit)", place, by)
            changed = ChangedFiles(options) if options.reload else lambda: False
            ended_by = Supervisor(options, sockets, log, changed, shared).run()
            if ended_by is None:
                return ExitCode.CONFIG
        else:
            counters = None if shared is None else shared.place(shared.take())
            place = place_of(options, sockets)
            ended_by = run_process(options, loggers, sockets, place, counters=counters)
    finally:
        if endpoint is not None:
            endpoint.close()
        if file is not None:
            file.remove()
        for each in sockets:
            each.close()
    return ExitCode.TERMINATED if ended_by == signal.SIGTERM else ExitCode.OK


def take_environment(options: argparse.Namespace) -> None:
    """Set options that were not given from the environment, which includes ``--env-file``."""
    if options.workers is None:
        concurrency = os.environ.get("WEB_CONCURRENCY", "")
        options.workers = max(1, int(concurrency)) if concurrency.isdecimal() else 1
    if options.forwarded_allow_ips is None:
        options.forwarded_allow_ips = os.environ.get("FORWARDED_ALLOW_IPS", "127.0.0.1,::1")


# The listening sockets, made before any worker, so that all of them share each.


def bound_sockets(options: argparse.Namespace) -> list[socket.socket]:
    """Return sockets for the place that the options name, bound and not listening yet.

    Raises:
        CommandError: If they cannot be opened (exit code CONFIG, as for a start-up that fails).
    """
    try:
        if options.fd is not None:
            return [socket.socket(fileno=os.dup(options.fd))]
        if options.uds is not None:
            return [_bound_to_path(options.uds)]
        return _bound_to_port(options.host, options.port)
    except OSError as error:
        raise CommandError(
            f"cannot listen on {place_of(options)}: {error.strerror or one_line(error)}; choose "
            "another place with --host, --port or --uds",
            ExitCode.CONFIG,
        ) from error


def place_of(options: argparse.Namespace, sockets: Sequence[socket.socket] = ()) -> str:
    """Return where the server listens, as a URL where that has one."""
    if options.fd is not None:
        return f"descriptor {options.fd}"
    if options.uds is not None:
        return f"unix:{options.uds}"
    port = sockets[0].getsockname()[1] if sockets else options.port
    host = f"[{options.host}]" if ":" in options.host else options.host
    return f"{'https' if options.ssl_certfile else 'http'}://{host}:{port}"


def socket_file(options: argparse.Namespace) -> SocketFile | None:
    """Return the file of a Unix socket that was bound, which is removed at the end."""
    if options.fd is not None or options.uds is None:
        return None
    with contextlib.suppress(OSError):  # somebody has removed it
        return SocketFile(options.uds)
    return None


def _bound_to_path(path: str) -> socket.socket:
    mode = 0o666
    with contextlib.suppress(FileNotFoundError):
        existing = os.stat(path)
        if stat.S_ISSOCK(existing.st_mode):
            # A killed server has left it: somebody has set its mode on purpose.
            mode = stat.S_IMODE(existing.st_mode)
            os.unlink(path)
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        made.bind(path)
        os.chmod(path, mode)
    except BaseException:
        made.close()
        raise
    return made


def _bound_to_port(host: str, port: int) -> list[socket.socket]:
    found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    sockets: list[socket.socket] = []
    absent: OSError | None = None
    try:
        for family, kind, protocol, _, address in dict.fromkeys(found):
            try:
                made = _bound_to_address(family, kind, protocol, (address[0], port, *address[2:]))
            except OSError as error:
                # As of "localhost" in a container that has no IPv6. asyncio leaves it out too.
                if error.errno not in _ABSENT:
                    raise
                absent = error
            else:
                sockets.append(made)
                port = made.getsockname()[1]  # port 0: the others get the same one
        if absent is not None and not sockets:
            raise absent
    except BaseException:
        for each in sockets:
            each.close()
        raise
    return sockets


_ABSENT = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT, errno.EPROTONOSUPPORT)
"""What an address of a name gives that this machine does not have."""


def _bound_to_address(
    family: int, kind: int, protocol: int, address: tuple[Any, ...]
) -> socket.socket:
    made = socket.socket(family, kind, protocol)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        made.bind(address)
    except BaseException:
        made.close()
        raise
    return made


# ``penstock serve --check``: whether it would start, without listening.


def check(options: argparse.Namespace, loggers: Loggers) -> int:
    """Import the application and look at the options. The lifespan is not run.

    Raises:
        CommandError: If it would not start (exit code CONFIG).
    """
    from penstock.asgi import ServerOptions

    built_application(options)
    arguments = server_arguments(options, loggers)
    for name in ("ssl", "backlog"):
        del arguments[name]
    try:
        ServerOptions(**arguments)
    except ValueError as error:
        raise CommandError(one_line(error), ExitCode.CONFIG) from error
    print(f"{options.app} can be served")
    return ExitCode.OK


# Files that change: for ``penstock serve --reload``.

_INCLUDED = ("*.py",)
_EXCLUDED = (".*", ".py[cod]", ".sw.*", "~*")


class ChangedFiles:
    """Tells whether files below some folders have changed since the last look.

    It looks at their times, so it works on every file system. As in uvicorn, a pattern with a slash
    is one of the end of a path, a file that an included pattern names itself is watched whatever is
    excluded, and a default pattern that is given for the other side is none.
    """

    def __init__(self, options: argparse.Namespace) -> None:
        self._folders = [Path(name) for name in options.reload_dir or [options.app_dir or "."]]
        included, excluded = options.reload_include or (), options.reload_exclude or ()
        self._included = (*(each for each in _INCLUDED if each not in excluded), *included)
        self._excluded = (*(each for each in _EXCLUDED if each not in included), *excluded)
        self._delay = options.reload_delay
        self._next = 0.0
        self._times = dict(self._look())

    def __call__(self) -> bool:
        """Return whether one has changed, been added or been removed. At most once a delay."""
        now = time.monotonic()
        if now < self._next:
            return False
        self._next = now + self._delay
        times = dict(self._look())
        changed = times != self._times
        self._times = times
        return changed

    def _look(self) -> Iterator[tuple[str, int]]:
        for folder in self._folders:
            for parent, folders, names in os.walk(folder):
                folders[:] = [
                    name
                    for name in folders
                    if not _matches(os.path.join(parent, name), self._excluded)
                ]
                for name in names:
                    path = os.path.join(parent, name)
                    if not self._is_watched(path):
                        continue
                    try:
                        yield path, os.stat(path).st_mtime_ns
                    except OSError:
                        continue  # removed meanwhile

    def _is_watched(self, path: str) -> bool:
        found = _matches(path, self._included)
        return any(path.endswith(pattern) for pattern in found) or (
            bool(found) and not _matches(path, self._excluded)
        )


def _matches(path: str, patterns: Sequence[str]) -> list[str]:
    """Return the patterns that a path matches by its end, if they have a slash, or by its name."""
    name = os.path.basename(path)
    return [
        pattern
        for pattern in patterns
        if (PurePath(path).match(pattern) if "/" in pattern else fnmatchcase(name, pattern))
    ]
