"""Ports that are named by a URL instead of a path: taking such a URL apart.

Nothing is opened here; the kinds of URL and their openers are in
:mod:`penstock.serial._devices.open`.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlsplit

from penstock.serial.exceptions import ConfigurationError


def is_url(path: str) -> bool:
    """Return whether ``path`` is a URL. A path that contains ``://`` can be written ``./a://b``."""
    scheme, separator, _ = path.partition("://")
    return bool(separator) and scheme.isalnum()


@dataclass(frozen=True, slots=True)
class SerialUrl:
    """The parts of a URL. Every error is a :class:`ConfigurationError` that shows the form."""

    text: str
    form: str
    place: str
    options: Mapping[str, str]

    @classmethod
    def parse(cls, text: str, form: str, known_options: frozenset[str]) -> SerialUrl:
        """Split ``text`` into its parts.

        Args:
            text: The URL.
            form: What a URL of this kind looks like; shown in errors.
            known_options: The options that this kind of URL takes.

        Raises:
            ConfigurationError: ``text`` is malformed or has an unknown option.
        """
        try:
            parts = urlsplit(text)
            options = dict(parse_qsl(parts.query, keep_blank_values=True))
        except ValueError as exc:
            raise _wrong(text, form, str(exc)) from exc
        url = cls(text, form, parts.netloc + parts.path, options)
        for name in options:
            if name not in known_options:
                choices = ", ".join(sorted(known_options)) or "none"
                raise url.wrong(f"unknown option {name!r}; the options are: {choices}")
        return url

    def host_and_port(self) -> tuple[str, int]:
        """Return the host and the TCP port, which stand before the options."""
        parts = urlsplit(self.text)
        try:
            host, port = parts.hostname, parts.port
        except ValueError as exc:
            raise self.wrong(str(exc)) from exc
        if not host or not port or parts.path not in ("", "/"):
            raise self.wrong("it needs a host and a port from 1 to 65535")
        return host, port

    def seconds(self, option: str, default: float) -> float:
        """Return the value of ``option``, a time above 0."""
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
        """Return whether ``option`` is given with any value but 0."""
        return self.options.get(option, "0") != "0"

    def wrong(self, reason: str) -> ConfigurationError:
        """Return the error for this URL."""
        return _wrong(self.text, self.form, reason)


def _wrong(text: str, form: str, reason: str) -> ConfigurationError:
    return ConfigurationError(errno.EINVAL, f"{text}: {reason}; write it as {form}", text)
