"""The keys that commands are given, with errors of the command line."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from penstock.cli._errors import CommandError, ExitCode, one_line
from penstock.record import PublicKey, SigningKey
from penstock.record.errors import RecordError, SinkDependencyError

Key = TypeVar("Key")


def signing_key(file: str | None) -> SigningKey | None:
    """The private key in ``file``; CommandError if there is none."""
    return None if file is None else _loaded(SigningKey, file)


def public_key(file: str | None) -> PublicKey | None:
    """The public key in ``file``; CommandError if there is none."""
    return None if file is None else _loaded(PublicKey, file)


def _loaded(kind: Callable[[str], Key], file: str) -> Key:
    try:
        return kind(file)
    except SinkDependencyError as error:
        raise CommandError(one_line(error), ExitCode.MISSING_PART) from error
    except RecordError as error:
        raise CommandError(one_line(error), ExitCode.CONFIG) from error
