"""``hwgrep://REGEXP``: the first port whose device, description or hardware id matches.

``hwgrep://REGEXP&n=2`` is the second one.
"""

from __future__ import annotations

from penstock.serial.compat._definitions import SerialException
from penstock.serial.compat._port import Serial
from penstock.serial.compat.tools import list_ports

__all__ = ["serial_class_for_url"]


def serial_class_for_url(url: str) -> tuple[str, type[Serial]]:
    """Return the port's path and the class; SerialException where no port matches."""
    return _first_match(url), Serial


def _first_match(url: str) -> str:
    pattern, *options = url.partition("://")[2].split("&")
    place = 1
    for option in options:
        name, _, value = option.partition("=")
        if name == "n" and value.isdigit() and int(value) > 0:
            place = int(value)
        elif name != "skip_busy":
            raise ValueError(f"{url}: unknown option {option!r}, known is n=NUMBER")
    for number, info in enumerate(sorted(list_ports.grep(pattern)), 1):
        if number == place:
            return info.device
    raise SerialException(f"no port matches {pattern!r}; penstock ports lists those there are")
