"""``serial.serial_for_url`` and the packages in which it looks for handlers."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

from penstock.serial.compat._port import Serial

__all__ = ["protocol_handler_packages", "serial_for_url"]

protocol_handler_packages = ["penstock.serial.compat.urlhandler"]
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
