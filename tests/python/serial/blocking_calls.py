"""Threads, waits and comparisons for tests of the blocking ports."""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Callable
from typing import Any

from penstock.serial.sync import SerialPort


def arrived(port: Any, count: int) -> None:
    """Wait until the pty has delivered ``count`` bytes to the port."""
    deadline = time.monotonic() + 60
    while port.in_waiting < count:
        assert time.monotonic() < deadline
        select.select([port.fileno()], [], [], 1)


def outcome(call: Callable[[], Any]) -> Any:
    """Return the result of a call, or the name of the exception that it raises."""
    try:
        value = call()
    except Exception as exc:
        return type(exc).__name__
    return value


def in_thread(function: Callable[[], Any]) -> Callable[[], Any]:
    """Start ``function`` in a thread; return a call that returns its result or raises its error."""
    outcome: list[Any] = []

    def run() -> None:
        try:
            outcome.append((function(), None))
        except BaseException as exc:
            outcome.append((None, exc))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()

    def join() -> Any:
        thread.join(60)
        assert not thread.is_alive()
        result, error = outcome[0]
        if error is not None:
            raise error
        return result

    return join


def wait_until(condition: Callable[[], object]) -> None:
    """Yield to other threads until ``condition`` returns something true."""
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        os.sched_yield()


def receives(port: SerialPort) -> bool:
    """Return whether a thread is inside a receive."""
    return port._operations.receiving.lock.locked()


RECEIVES: dict[str, Callable[[SerialPort, float], object]] = {
    "receive": lambda port, timeout: port.receive(timeout=timeout),
    "receive_into": lambda port, timeout: port.receive_into(bytearray(4), timeout=timeout),
    "receive_available": lambda port, timeout: port.receive_available(timeout=timeout),
    "receive_exactly": lambda port, timeout: port.receive_exactly(4, timeout=timeout),
    "receive_until": lambda port, timeout: port.receive_until(b"\r", timeout=timeout),
}
"""Each way to receive, with a timeout."""
