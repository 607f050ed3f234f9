"""What tests of ports without an event loop wait for, and what they compare."""

from __future__ import annotations

import select
import time
from collections.abc import Callable
from typing import Any


def arrived(port: Any, count: int) -> None:
    """Wait until the pty has carried *count* bytes to the port."""
    deadline = time.monotonic() + 60
    while port.in_waiting < count:
        assert time.monotonic() < deadline
        select.select([port.fileno()], [], [], 1)


def outcome(call: Callable[[], Any]) -> Any:
    """What a call returns, or the name of what it raises."""
    try:
        value = call()
    except Exception as exc:
        return type(exc).__name__
    return value
