"""The far end of a measured port: a raw pseudo-terminal, and a process that answers on it."""

from __future__ import annotations

import os
import pty
import select
import sys
import tty
from collections.abc import Iterator
from contextlib import contextmanager

FRAME = b"A +014.70 +025.00 +000.02 +000.02 000.00 N2    \r"  # 48 bytes, an instrument's reply


class PtyPair:
    """``path`` is what is opened; ``fd`` the controlling end, which does not block."""

    def __init__(self) -> None:
        self.fd, self.follower = pty.openpty()
        tty.setraw(self.follower)
        os.set_blocking(self.fd, False)
        self.path = os.ttyname(self.follower)

    def close(self) -> None:
        os.close(self.fd)
        os.close(self.follower)


@contextmanager
def answering_process(
    pairs: list[PtyPair], core: int | None, *, frames: bool = False
) -> Iterator[None]:
    """A child that sends back what comes, or with *frames* an instrument's reply to each CR."""
    stop, stop_write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(stop_write)
            if core is not None:
                os.sched_setaffinity(0, {core})
            _answer([pair.fd for pair in pairs], stop, frames)
        finally:
            os._exit(0)
    os.close(stop)
    try:
        yield
    finally:
        os.close(stop_write)
        os.waitpid(child, 0)


def _answer(descriptors: list[int], stop: int, frames: bool) -> None:
    poll = select.epoll()
    for fd in (*descriptors, stop):
        poll.register(fd, select.EPOLLIN)
    while True:
        for fd, _ in poll.poll():
            if fd == stop:
                return
            answer_once(fd, frames)


def answer_once(fd: int, frames: bool) -> None:
    """Answer what waits on the controlling end *fd*, if anything does."""
    try:
        asked = os.read(fd, 65_536)
    except BlockingIOError:
        return
    os.write(fd, FRAME * asked.count(b"\r") if frames else asked)


def other_core() -> int | None:
    """A core that this process does not run on: the page has pinned it to one."""
    others = sorted(set(range(os.cpu_count() or 1)) - os.sched_getaffinity(0))
    return others[0] if others else None


if sys.platform != "linux":
    raise ImportError("serial ports are measured on Linux only")
