"""The listening sockets, made before any worker, so that all of them share each."""

from __future__ import annotations

import argparse
import contextlib
import os
import socket
import stat
from collections.abc import Sequence

from penstock.cli._errors import CommandError, ExitCode, one_line

__all__ = ["bound_sockets", "place_of", "remove_socket_file"]


def bound_sockets(options: argparse.Namespace) -> list[socket.socket]:
    """Return sockets for the place that the options name, bound and not listening yet.

    Raises:
        CommandError: If they cannot be had (exit code CONFIG, as for a start-up that fails).
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


def remove_socket_file(options: argparse.Namespace) -> None:
    """Remove the file of a Unix socket at the end."""
    if options.uds is not None:
        with contextlib.suppress(OSError):
            os.unlink(options.uds)


def _bound_to_path(path: str) -> socket.socket:
    mode = 0o666
    with contextlib.suppress(FileNotFoundError):
        existing = os.stat(path)
        if stat.S_ISSOCK(existing.st_mode):
            # Of a server that was killed: whoever has set its mode has meant it.
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
    try:
        for family, kind, protocol, _, address in dict.fromkeys(found):
            made = socket.socket(family, kind, protocol)
            sockets.append(made)
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            made.bind((address[0], port, *address[2:]))
            port = made.getsockname()[1]  # port 0: the others get the same one
    except BaseException:
        for each in sockets:
            each.close()
        raise
    return sockets
