"""Tokens and passwords: from the environment or a file, never from a URL or a command line.

Other users of a machine can read the command lines of all processes, and URLs end up in logs.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from penstock.record.errors import SinkWriteError

__all__ = ["Secret", "split_url"]


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
            raise SinkWriteError(f"{self.file} holds no secret: write it there, on one line")
        return text


def split_url(url: str, remedy: str) -> SplitResult:
    """The parts of a URL that holds no user and no password.

    One ``@`` is enough: a password with ``/``, ``?`` or ``#`` looks like a path. No error shows the
    URL, nor has a cause that does.

    Raises:
        ValueError: it holds one, or its host or port is malformed.
    """
    scheme = url.partition("://")[0].lower()
    if "@" in url:
        raise ValueError(
            f"a URL with {scheme}:// holds no user and no password, which every user of the "
            f"machine could read: {remedy}; an @ in a name is written %40"
        )
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - raises
    except ValueError:
        raise ValueError(
            f"the URL with {scheme}:// has no valid host or port: write {scheme}://HOST:PORT/NAME"
        ) from None
    return parts
