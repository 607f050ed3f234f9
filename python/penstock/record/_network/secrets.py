"""Tokens and passwords: from the environment or a file, never from a URL or a command line.

Other users of a machine can read the command lines of all processes, and URLs end up in logs.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from penstock.record.errors import SinkWriteError

__all__ = ["Secret", "refuse_password"]


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
            SinkWriteError: the file cannot be read, or is empty.
        """
        if self.file is None:
            return os.environ.get(self.variable) or None if self.variable else None
        try:
            text = self.file.read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not text"
            raise SinkWriteError(
                f"the secret in {self.file} cannot be read: {reason}; check the path and who may "
                "read it"
            ) from error
        if not text or "\n" in text:
            raise SinkWriteError(f"{self.file} holds no secret: write it there, on one line")
        return text


def refuse_password(scheme: str, user_info: str, remedy: str) -> None:
    """ValueError for a URL that holds a user or a password."""
    if user_info:
        raise ValueError(
            f"a URL with {scheme}:// holds no user and no password, which every user of the "
            f"machine could read: {remedy}"
        )
