"""``alt://PORT?class=NAME``: a port opened by another class of this package."""

from __future__ import annotations

from urllib.parse import parse_qsl, urlsplit

from penstock.serial import compat
from penstock.serial.compat._definitions import SerialException
from penstock.serial.compat._port import Serial

__all__ = ["serial_class_for_url"]


def serial_class_for_url(url: str) -> tuple[str, type[Serial]]:
    """Return the port's path and the class; ValueError for a name that is no class of ports."""
    parts = urlsplit(url)
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    name = options.pop("class", "Serial")
    if options:
        raise SerialException(f"{url}: unknown option {next(iter(options))!r}, known is class=NAME")
    found = getattr(compat, name, None)
    if not (isinstance(found, type) and issubclass(found, Serial)):
        raise ValueError(
            f"{url}: {name!r} is not a class of ports; use Serial or a class derived from it"
        )
    return parts.netloc + parts.path, found
