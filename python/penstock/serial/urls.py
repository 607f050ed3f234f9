"""Ports that are named by a URL instead of a path.

* ``socket://host:port``: a TCP connection that carries the bytes as they are
* ``rfc2217://host:port``: a remote port with its settings and control lines (RFC 2217)
* ``loop://``: what is written comes back
* ``spy://PORT?file=LOG``: any other port or URL, with a log of what passes

Options follow a question mark, joined by ``&``: ``socket://lab:4001?timeout=2``.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlsplit

from penstock.serial.backend import SerialBackend
from penstock.serial.config import SerialConfig
from penstock.serial.device import TtyDevice
from penstock.serial.exceptions import ConfigurationError

__all__ = ["SerialUrl", "is_url", "open_backend"]


def is_url(path: str) -> bool:
    """Whether *path* names a port by URL; a path with ``://`` in it can be written ``./a://b``."""
    scheme, separator, _ = path.partition("://")
    return bool(separator) and scheme.isalnum()


def open_backend(path: str, config: SerialConfig) -> SerialBackend:
    """Open the device that *path*, a path or a URL, names. Blocks; call it in a worker thread.

    Raises :class:`SerialError` of the kind that fits.
    """
    if not path or not _can_be_a_file_name(path):
        raise ConfigurationError(
            errno.EINVAL, f"{path!r} cannot be the name of a port; give a path or a URL", path
        )
    if not is_url(path):
        return TtyDevice(path, config)
    scheme = path.partition("://")[0].lower()
    opener = _OPENERS.get(scheme)
    if opener is None:
        raise ConfigurationError(
            errno.EINVAL,
            f"{path}: unknown kind of port {scheme!r}; use a path or one of "
            + ", ".join(f"{name}://" for name in _OPENERS),
            path,
        )
    backend = opener(path, config)
    if config.initial_rts is not None or config.initial_dtr is not None:
        try:
            backend.set_control_lines(config.initial_rts, config.initial_dtr)
        except BaseException:
            backend.close()
            raise
    return backend


def _can_be_a_file_name(path: str) -> bool:
    try:
        return b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:
        return False


@dataclass(frozen=True, slots=True)
class SerialUrl:
    """The parts of a URL. Every error is a :class:`ConfigurationError` that shows the form."""

    text: str
    form: str
    place: str
    options: Mapping[str, str]

    @classmethod
    def parse(cls, text: str, form: str, known_options: frozenset[str]) -> SerialUrl:
        """Take *text* apart; *form* is what the error shows a URL of its kind to look like."""
        try:
            parts = urlsplit(text)
            options = dict(parse_qsl(parts.query, keep_blank_values=True))
        except ValueError as exc:
            raise _wrong(text, form, str(exc)) from exc
        url = cls(text, form, parts.netloc + parts.path, options)
        for name in options:
            if name not in known_options:
                choices = ", ".join(sorted(known_options)) or "none"
                raise url.wrong(f"unknown option {name!r}, known are: {choices}")
        return url

    def host_and_port(self) -> tuple[str, int]:
        """Return what stands before the options as a host and a TCP port."""
        parts = urlsplit(self.text)
        try:
            host, port = parts.hostname, parts.port
        except ValueError as exc:
            raise self.wrong(str(exc)) from exc
        if not host or not port or parts.path not in ("", "/"):
            raise self.wrong("it needs a host and a port from 1 to 65535")
        return host, port

    def seconds(self, option: str, default: float) -> float:
        """Return the value of *option*, a time above 0."""
        text = self.options.get(option)
        if text is None:
            return default
        try:
            value = float(text)
        except ValueError:
            value = 0.0
        if not 0 < value < 1e6:
            raise self.wrong(f"{option} must be a number of seconds above 0, not {text!r}")
        return value

    def flag(self, option: str) -> bool:
        """Whether *option* is given, with any value but 0."""
        return self.options.get(option, "0") != "0"

    def wrong(self, reason: str) -> ConfigurationError:
        return _wrong(self.text, self.form, reason)


def _wrong(text: str, form: str, reason: str) -> ConfigurationError:
    return ConfigurationError(errno.EINVAL, f"{text}: {reason}; write it as {form}", text)


def _open_socket(path: str, config: SerialConfig) -> SerialBackend:
    from penstock.serial.rawsocket import open_socket

    return open_socket(path, config)


def _open_rfc2217(path: str, config: SerialConfig) -> SerialBackend:
    from penstock.serial.rfc2217.client import open_rfc2217

    return open_rfc2217(path, config)


def _open_loop(path: str, config: SerialConfig) -> SerialBackend:
    from penstock.serial.loopback import open_loop

    return open_loop(path, config)


def _open_spy(path: str, config: SerialConfig) -> SerialBackend:
    from penstock.serial.spy import open_spy

    return open_spy(path, config)


_OPENERS: dict[str, Callable[[str, SerialConfig], SerialBackend]] = {
    "socket": _open_socket,
    "rfc2217": _open_rfc2217,
    "loop": _open_loop,
    "spy": _open_spy,
}
