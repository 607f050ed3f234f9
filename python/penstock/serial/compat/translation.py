"""This package's errors as pyserial's."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from penstock.serial.compat.definitions import SerialException
from penstock.serial.exceptions import ConfigurationError, UnsupportedConfigurationError

__all__ = ["translated", "translation"]


@contextmanager
def translated(prefix: str = "") -> Iterator[None]:
    """Raise errors as pyserial does: ValueError for a setting, else SerialException."""
    try:
        yield
    except SerialException:
        raise
    except (ConfigurationError, UnsupportedConfigurationError) as exc:
        raise ValueError(f"{prefix}{exc}") from exc
    except OSError as exc:
        raise translation(exc, prefix) from exc


def translation(exc: OSError, prefix: str = "") -> SerialException:
    return SerialException(exc.errno or errno.EIO, f"{prefix}{exc}")
