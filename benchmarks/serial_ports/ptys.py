"""The far end of a measured port: a raw pseudo-terminal, and a process that answers on it."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time
import tty
from collections.abc import Iterator
from contextlib import contextmanager

FRAME = b"A +014.70 +025.00 +000.02 +000.02 000.00 N2    \r"  # 48 bytes, an instrument's reply
READY = b"ready\n"
PATIENCE = 5.0
STEP = 0.001  # seconds between two moves of a paced line


class PtyPair:
    """``path`` is the device to open; ``fd`` is the controlling end, which is non-blocking."""

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
    """A process that echoes, or with *frames* sends an instrument's reply to each CR.

    It is this module as a program, not a fork of the measured process: after a fork, that process
    would copy each page that it writes to for the first time, 1000 of them or 6 ms.
    """
    with far_end(["answer", "frames" if frames else "echo"], [pair.fd for pair in pairs], core):
        yield


@contextmanager
def far_end(what: list[str], descriptors: list[int], core: int | None) -> Iterator[None]:
    """Run this module as a program that owns *descriptors* too; the end of the block stops it."""
    numbers = ",".join(map(str, descriptors))
    command = [sys.executable, "-I", "-S", __file__, *what, numbers, str(core)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=descriptors
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            if process.stdout.readline() != READY:
                raise RuntimeError("the far end of the ports did not start")
            yield
        finally:
            process.stdin.close()


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
    """Answer the data that is available on the controlling end *fd*, if any."""
    try:
        asked = os.read(fd, 65_536)
    except BlockingIOError:
        return
    os.write(fd, FRAME * asked.count(b"\r") if frames else asked)


def other_core() -> int | None:
    """A core other than the one that this process is pinned to."""
    others = sorted(set(range(os.cpu_count() or 1)) - os.sched_getaffinity(0))
    return others[0] if others else None


def _move(fd: int, sends: bool, total: int, rate: int) -> None:
    """Wait for one byte. Then send *total* bytes at *rate*, or take and acknowledge them."""
    waiting = select.poll()
    waiting.register(fd, select.POLLIN)
    waiting.register(0, select.POLLIN)
    if waiting.poll()[0][0] != fd:
        return
    os.read(fd, 1)
    moved, begin = 0, time.monotonic()
    while moved < total and time.monotonic() < begin + PATIENCE:
        due = min(total, int((time.monotonic() - begin) * rate)) - moved
        try:
            if due > 0:
                moved += os.write(fd, b"x" * due) if sends else len(os.read(fd, due))
        except BlockingIOError:
            pass
        time.sleep(STEP)
    if not sends:
        os.write(fd, b"!")


def main(what: str, how: str, numbers: str, core: str) -> None:
    """Be the far end until the standard input ends."""
    if core != "None":
        os.sched_setaffinity(0, {int(core)})
    descriptors = [int(number) for number in numbers.split(",")]
    sys.stdout.buffer.write(READY)
    sys.stdout.flush()
    if what == "answer":
        _answer(descriptors, 0, how == "frames")
    else:
        total, rate = map(int, how.split(","))
        _move(descriptors[0], what == "send", total, rate)


if sys.platform != "linux":
    raise ImportError("serial ports are measured on Linux only")

if __name__ == "__main__":
    main(*sys.argv[1:])
