"""``serial.serial_for_url``."""

from __future__ import annotations

from typing import Any

from penstock.serial.compat.port import Serial
from penstock.serial.compat.serialutil import SerialException
from penstock.serial.compat.tools import list_ports

__all__ = ["serial_for_url"]

_KNOWN = frozenset({"socket", "rfc2217", "loop", "spy"})


def serial_for_url(url: str | None, *args: Any, **kwargs: Any) -> Serial:
    """Return a :class:`Serial` for a path or a URL, open unless ``do_not_open=True``.

    Besides the URLs of :mod:`penstock.serial.urls`, ``hwgrep://REGEXP`` is the first port whose
    device, description or hardware id matches; ``&n=2`` the second. ValueError for another scheme.
    """
    do_open = not kwargs.pop("do_not_open", False)
    port = url
    if isinstance(url, str) and "://" in url:
        scheme = url.partition("://")[0].lower()
        if scheme == "hwgrep":
            port = _first_match(url)
        elif scheme not in _KNOWN:
            raise ValueError(f"invalid URL, protocol {scheme!r} not known")
    instance = Serial(None, *args, **kwargs)
    instance.port = port
    if do_open:
        instance.open()
    return instance


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
