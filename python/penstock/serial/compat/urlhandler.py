"""``serial.urlhandler``: which class opens which URL, one module for each kind of URL.

The form is pyserial's, so that a package of handlers made for it can be added to
``protocol_handler_packages``: a module ``protocol_KIND`` has a class ``Serial``, or a function
``serial_class_for_url`` that returns a port's name and a class. The modules of this package have no
files of their own: they are entered into ``sys.modules`` when this file is imported.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from penstock.serial.compat._definitions import SerialException
from penstock.serial.compat._port import Serial
from penstock.serial.compat.tools import list_ports

__all__ = ["protocol_handler_packages", "serial_for_url"]

protocol_handler_packages: list[str] = ["penstock.serial.compat.urlhandler"]
"""Names of packages; the first that has a module ``protocol_KIND`` opens ``KIND://...``."""


def serial_for_url(url: str | None, *args: Any, **kwargs: Any) -> Serial:
    """Return a port for a path or a URL, open unless ``do_not_open=True``.

    Besides the URLs of :func:`penstock.serial.open_serial_port`, ``hwgrep://`` and ``alt://``,
    those of the packages in :data:`protocol_handler_packages`, whose ports may be of any class
    derived from :class:`SerialBase`.

    Raises:
        ValueError: No package has a handler for this kind of URL.
    """
    do_open = not kwargs.pop("do_not_open", False)
    made_by: type[Serial] = Serial
    port = url
    if isinstance(url, str) and "://" in url:
        handler = _handler_of(url.partition("://")[0].lower())
        if hasattr(handler, "serial_class_for_url"):
            port, made_by = handler.serial_class_for_url(url)
        else:
            made_by = handler.Serial
    instance = made_by(None, *args, **kwargs)
    instance.port = port
    if do_open:
        instance.open()
    return instance


def _handler_of(kind: str) -> ModuleType:
    failure: ImportError | None = None
    for package in protocol_handler_packages:
        try:
            return importlib.import_module(f"{package}.protocol_{kind}")
        except ImportError as exc:
            failure = exc
    raise ValueError(
        f"invalid URL, protocol {kind!r} not known; see serial.protocol_handler_packages"
    ) from failure


def _class_by_name(url: str) -> tuple[str, type[Serial]]:
    """Return the port's path and the class; ValueError for a name that is not a class of ports."""
    parts = urlsplit(url)
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    name = options.pop("class", "Serial")
    if options:
        raise SerialException(f"{url}: unknown option {next(iter(options))!r}, known is class=NAME")
    found = getattr(sys.modules[__package__], name, None)
    if not (isinstance(found, type) and issubclass(found, Serial)):
        raise ValueError(
            f"{url}: {name!r} is not a class of ports; use Serial or a class derived from it"
        )
    return parts.netloc + parts.path, found


def _class_by_search(url: str) -> tuple[str, type[Serial]]:
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
    raise SerialException(f"no port matches {pattern!r}; penstock ports lists the existing ones")


def _enter_handler(kind: str, text: str, **names: object) -> None:
    module = ModuleType(f"{__name__}.protocol_{kind}", text)
    vars(module).update(names, __all__=list(names))
    sys.modules[module.__name__] = module
    globals()[f"protocol_{kind}"] = module


for _kind, _text in (
    ("loop", "``loop://``: what is written comes back."),
    ("rfc2217", "``rfc2217://``: a remote port."),
    ("socket", "``socket://``: a TCP connection."),
    ("spy", "``spy://``: another port, with a log."),
):
    _enter_handler(_kind, _text, Serial=Serial)
_enter_handler(
    "alt",
    "``alt://PORT?class=NAME``: a port opened by another class of this package.",
    serial_class_for_url=_class_by_name,
)
_enter_handler(
    "hwgrep",
    "``hwgrep://REGEXP``: the first port whose device, description or hardware id matches;\n"
    "``hwgrep://REGEXP&n=2`` is the second one.",
    serial_class_for_url=_class_by_search,
)
