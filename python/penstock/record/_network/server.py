"""The server of a sink: its address, its secrets, and whom the sink trusts."""

from __future__ import annotations

import contextlib
import os
import ssl
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit

from penstock.record.addresses import scheme_of
from penstock.record.errors import SinkWriteError


@dataclass(frozen=True, slots=True)
class BrokerAddress:
    """A broker, and the name below which it is written.

    Attributes:
        scheme: in lower case.
        host: a name or an address.
        port: TCP port.
        name: the path, without the slashes around it.
    """

    scheme: str
    host: str
    port: int
    name: str

    @classmethod
    def parse(cls, url: str, ports: dict[str, int], *, name: str, secrets: str) -> BrokerAddress:
        """Read a URL.

        Args:
            url: what is read.
            ports: the schemes, and the port of each.
            name: for a URL without a path.
            secrets: where user and password belong, for an error.

        Raises:
            ValueError: it is malformed, or holds a password.
        """
        parts = split_url(url, secrets)
        scheme, host, port = parts.scheme, parts.hostname, parts.port
        if scheme not in ports or not host:
            known = " or ".join(f"{each}://HOST" for each in ports)
            raise ValueError(
                f"the URL with {scheme}:// is not the address of a broker: write {known}"
            )
        if parts.query or parts.fragment:
            raise ValueError(
                f"{scheme}://{host} has options after ? or #, and there are none: {secrets}"
            )
        return cls(scheme, host, port or ports[scheme], unquote(parts.path).strip("/") or name)

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}/{self.name}"


# Tokens and passwords: from the environment or a file, never from a URL or a command line.
#
# Other users of a machine can read the command lines of all processes, and URLs end up in logs.


@dataclass(frozen=True, slots=True)
class Secret:
    """Where a secret is. Its text is read anew for each use: a file may be replaced meanwhile.

    Attributes:
        file: a file whose text is the secret, without the blanks around it.
        variable: an environment variable, for a secret without a file.
    """

    file: Path | None = None
    variable: str | None = None

    def read(self) -> str | None:
        """The secret; None where the variable is not set, or neither is named.

        Raises:
            SinkWriteError: the file cannot be read, or is empty; or the secret is not one line of
                text, which no header field could carry.
        """
        if self.file is None:
            text = os.environ.get(self.variable, "").strip() if self.variable else ""
            if not text.isprintable():
                raise SinkWriteError(
                    f"the secret in {self.variable} has line ends or other control characters: "
                    "set the variable to one line of text"
                )
            return text or None
        try:
            text = self.file.read_text("utf-8-sig").strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not text"
            raise SinkWriteError(
                f"the secret in {self.file} cannot be read: {reason}; check the path and who may "
                "read it"
            ) from error
        if not text or not text.isprintable():
            raise SinkWriteError(f"{self.file} contains no secret: write it there, on one line")
        return text


def split_url(url: str, remedy: str) -> SplitResult:
    """The parts of a URL that holds no user and no password.

    One ``@`` is enough: a password with ``/``, ``?`` or ``#`` looks like a path. No error shows the
    URL, nor has a cause that does.

    Raises:
        ValueError: it holds one, or its host or port is malformed.
    """
    scheme = scheme_of(url)
    named = f"URL with {scheme}://" if scheme else "URL"
    if "@" in url:
        raise ValueError(
            f"a {named} must not contain a user or a password, which every user of "
            f"the machine could read: {remedy}; an @ in a name is written %40"
        )
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - raises
    except ValueError:
        raise ValueError(
            f"the {named} has no valid host or port: write {scheme or 'SCHEME'}://HOST:PORT/NAME"
        ) from None
    return parts


# Whom a sink trusts, and what is said of a server that cannot be trusted.


class Trust:
    """TLS that checks the server's name, and its certificate against the system's or ``ca_file``.

    A run outlives a certificate: the file is read again, for the next connection, once it has
    changed. While it cannot be read, since half of it is written, what it had before counts.

    Raises:
        ValueError: there are no certificates in the file.
    """

    def __init__(self, ca_file: str | os.PathLike[str] | None) -> None:
        self._file = ca_file
        self._state = self._look()
        self._context = self._read()

    def context(self) -> ssl.SSLContext:
        """For the next connection."""
        state = self._look()
        if state != self._state:
            with contextlib.suppress(ValueError):
                self._context = self._read()
                self._state = state
        return self._context

    def _look(self) -> tuple[int, ...]:
        """Changes with the file; empty where there is none."""
        if self._file is None:
            return ()
        try:
            found = os.stat(self._file)
        except OSError:
            return ()
        return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns

    def _read(self) -> ssl.SSLContext:
        try:
            return ssl.create_default_context(cafile=self._file)
        except OSError as error:
            reason = (
                "it holds no certificate" if isinstance(error, ssl.SSLError) else error.strerror
            )
            raise ValueError(
                f"the certificates in {os.fspath(self._file or '')} cannot be read: {reason}; name "
                "a file with certificates as PEM"
            ) from error


def describe_distrust(error: ssl.SSLCertVerificationError) -> str:
    """Why a server is not trusted, and what to do."""
    reason = " ".join(str(getattr(error, "verify_message", "") or error).split())
    return (
        f"the server's certificate is not trusted ({reason}): name the certificates of its "
        "authority with ca_file, or write the name of the host that is in the certificate"
    )
