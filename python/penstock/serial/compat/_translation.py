"""This package's errors as pyserial's."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from penstock.serial.compat._definitions import SerialException
from penstock.serial.exceptions import ConfigurationError, UnsupportedConfigurationError

__all__ = ["translated", "translation"]


@contextmanager
def translated(phrase: Callable[[str], str] = str) -> Iterator[None]:
    """Raise errors as pyserial does: ValueError for a setting, else SerialException.

    ``phrase`` makes pyserial's sentence of this package's.
    """
    try:
        yield
    except SerialException:
        raise
    except (ConfigurationError, UnsupportedConfigurationError) as exc:
        raise ValueError(phrase(str(exc))) from exc
    except OSError as exc:
        raise translation(exc, phrase) from exc


def translation(exc: OSError, phrase: Callable[[str], str] = str) -> SerialException:
    """Return pyserial's exception for this package's."""
    return SerialException(exc.errno or errno.EIO, phrase(str(exc)))
