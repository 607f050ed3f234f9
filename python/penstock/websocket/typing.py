"""The types in the signatures of `penstock.websocket`, with the names of `websockets`."""

from __future__ import annotations

import http
import logging
import os
from typing import Any, NewType

__all__ = [
    "Data",
    "DataLike",
    "ExtensionName",
    "ExtensionParameter",
    "LoggerLike",
    "Origin",
    "PathLike",
    "StatusLike",
    "Subprotocol",
]

Data = str | bytes
"""A received message: text or binary."""

DataLike = str | bytes | bytearray | memoryview
"""What can be sent as one message or fragment."""

LoggerLike = logging.Logger | logging.LoggerAdapter[Any]
"""A logger, or an adapter of one."""

StatusLike = http.HTTPStatus | int
"""A status of a response."""

PathLike = str | bytes | os.PathLike[str] | os.PathLike[bytes]
"""A path of a Unix socket."""

Origin = NewType("Origin", str)
"""A value of the Origin field. Plain `str` is accepted too."""

Subprotocol = NewType("Subprotocol", str)
"""The name of a subprotocol. Plain `str` is accepted too."""

ExtensionName = NewType("ExtensionName", str)
"""The name of an extension."""

ExtensionParameter = tuple[str, str | None]
"""A parameter of an extension, and its value."""
