"""The data and the parameters that the tests of stream transports share."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from .peers import BufferedRecorder, Recorder, Recording

Make = Callable[..., Recording]
BIG = bytes(range(256)) * 8192
"""2 MiB, much more than the socket's buffers hold."""

both_protocols = pytest.mark.parametrize("make", [Recorder, BufferedRecorder])
both_families = pytest.mark.parametrize("family", ["tcp", "unix"])
native_only = "asyncio keeps a view of the caller's buffer since Python 3.12"
