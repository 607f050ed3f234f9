"""Instruments that answer at once, on ptys of their own, in another process.

The simulator computes the reply to a command once; then it is kept. So an answer costs a look-up,
and what is measured is the library at the near end.
"""

from __future__ import annotations

import os
import pickle
import pty
import select
import time
import tty
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from penstock.sim import MassFlowController


class _Instrument:
    """One simulated controller, its replies and the times at which it was polled."""

    def __init__(self, unit_id: str, controlling: int) -> None:
        self.polled_at = array("q")
        self._controlling = controlling
        self._unit = MassFlowController(unit_id, full_scale=500.0)
        self._poll = unit_id.encode()
        self._replies: dict[bytes, bytes] = {}
        self._partial = b""

    def answer(self) -> None:
        """Answer what has come."""
        try:
            asked = os.read(self._controlling, 65_536)
        except BlockingIOError:
            return
        now = time.monotonic_ns()
        *commands, self._partial = (self._partial + asked).split(b"\r")
        for command in commands:
            if command == self._poll:
                self.polled_at.append(now)
            reply = self._replies.get(command)
            if reply is None:
                reply = self._replies[command] = self._reply_to(command)
            if reply:
                os.write(self._controlling, reply)

    def _reply_to(self, command: bytes) -> bytes:
        if command[:1] != self._poll:
            return b""
        lines = self._unit.answer(command[1:].decode("ascii", "replace"))
        return b"".join(line.encode("ascii", "replace") + b"\r" for line in lines)


@dataclass
class FarEnd:
    """The ports to open; and, once the block is left, when each instrument was polled."""

    paths: list[str]
    polled_at: list[array[int]] = field(default_factory=list)


@contextmanager
def far_end(ports: int, core: int | None, *, unit_id: str = "A") -> Iterator[FarEnd]:
    """A child process with an instrument on each of some ptys."""
    pairs = [pty.openpty() for _ in range(ports)]
    for controlling, follower in pairs:
        tty.setraw(follower)
        os.set_blocking(controlling, False)
    stop, stop_write = os.pipe()
    report, report_write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(stop_write)
            if core is not None:
                os.sched_setaffinity(0, {core})
            instruments = {
                controlling: _Instrument(unit_id, controlling) for controlling, _ in pairs
            }
            _serve(instruments, stop)
            with open(report_write, "wb") as out:
                pickle.dump([each.polled_at for each in instruments.values()], out)
        finally:
            os._exit(0)
    os.close(stop)
    os.close(report_write)
    there = FarEnd([os.ttyname(follower) for _, follower in pairs])
    try:
        yield there
    finally:
        os.close(stop_write)
        with open(report, "rb") as seen:
            there.polled_at = pickle.load(seen)
        os.waitpid(child, 0)
        for pair in pairs:
            for descriptor in pair:
                os.close(descriptor)


def _serve(instruments: dict[int, _Instrument], stop: int) -> None:
    poller = select.epoll()
    for descriptor in (stop, *instruments):
        poller.register(descriptor, select.EPOLLIN)
    while True:
        for descriptor, _ in poller.poll():
            if descriptor == stop:
                return
            instruments[descriptor].answer()
