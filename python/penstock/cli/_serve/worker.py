"""The process of a worker, and what its supervisor sees of it.

``python -m penstock.cli._serve.worker SETTINGS HEARTBEAT SOCKETS [MEMORY PLACE]``
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence

from penstock.cli._errors import CommandError
from penstock.cli._serve.logs import set_up_logs
from penstock.cli._serve.metrics import SharedCounters
from penstock.cli._serve.running import run_process


def main(settings: str, heartbeat: str, sockets: str, *metrics: str) -> int:
    """Serve on the sockets that the supervisor has passed. Return the exit code."""
    counters = None
    if metrics:
        memory, place = map(int, metrics)
        counters = SharedCounters(memory).place(place)
    try:
        options = options_of_worker(int(settings))
        if options.reload:
            leave_interrupts_to_supervisor()
        listening = [socket.socket(fileno=int(number)) for number in sockets.split(",")]
        run_process(options, set_up_logs(options), listening, "", int(heartbeat), counters)
    except CommandError as error:
        print(f"penstock: {error}", file=sys.stderr, flush=True)
        return int(error.code)
    return 0


# A worker as its supervisor sees it: a process, and the pipe of its signs of life.


class WorkerProcess:
    """A process, and the pipe on which its loop gives signs of life.

    Args:
        settings: What `options_of_worker` reads.
        sockets: What it listens on.
        metrics: The memory where it counts, and its place there.
        keeps_terminal: Whether it may read from the supervisor's terminal, as a debugger does.
    """

    def __init__(
        self,
        settings: bytes,
        sockets: Sequence[socket.socket],
        metrics: tuple[int, int] | None,
        *,
        keeps_terminal: bool = False,
    ) -> None:
        # One that shares the terminal gets its Ctrl-C as well, and leaves it to the supervisor.
        self._hurrying = signal.SIGTERM if keeps_terminal else signal.SIGINT
        self.place = None if metrics is None else metrics[1]
        given = _in_memory(settings)
        self.pipe, heartbeat = os.pipe()
        os.set_blocking(self.pipe, False)
        os.set_blocking(heartbeat, False)
        numbers = ",".join(str(each.fileno()) for each in sockets)
        shared = [] if metrics is None else metrics[:1]
        try:
            self.process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "penstock.cli._serve.worker"),
                    *(str(given), str(heartbeat), numbers),
                    *map(str, metrics or ()),
                ],
                pass_fds=[given, heartbeat, *shared, *(each.fileno() for each in sockets)],
                # Ctrl-C in a terminal goes to its whole group; the supervisor ends the workers.
                # Only that group may read from the terminal: others are stopped.
                process_group=None if keeps_terminal else 0,
            )
        except BaseException:
            os.close(self.pipe)
            raise
        finally:
            os.close(given)
            os.close(heartbeat)
        self.started = self.heard = time.monotonic()
        self.ready = False
        self.is_late = False
        """Whether it was said that it is not ready in time."""
        self.stopping = False
        self.last_moment = math.inf
        self._killed = False

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self.process.pid

    def listen(self) -> None:
        """Take the signs of life that have come."""
        with contextlib.suppress(BlockingIOError):
            while os.read(self.pipe, 4096):
                self.heard = time.monotonic()
                self.ready = True

    def end(self, grace: float) -> None:
        """Let it end, in at most so many seconds. Only the first call counts."""
        if not self.stopping:
            self.stopping = True
            self.last_moment = time.monotonic() + grace
            self.process.terminate()

    def hurry(self, grace: float) -> None:
        """Let it end without waiting for its requests, in at most so many seconds."""
        self.last_moment = min(self.last_moment, time.monotonic() + grace)
        self.process.send_signal(self._hurrying)

    def excuse(self, seconds: float) -> None:
        """Let so much time not count: it has not run."""
        self.started += seconds
        self.heard += seconds
        self.last_moment += seconds

    def kill(self) -> bool:
        """Kill it. Returns whether this is the first call."""
        first = not self._killed
        if first:
            self._killed = True
            self.process.kill()
        return first

    def close(self) -> None:
        """Close the pipe."""
        os.close(self.pipe)


def _in_memory(settings: bytes) -> int:
    # A pipe's writer would wait for a reader that never comes to read.
    descriptor = os.memfd_create("penstock-settings")
    try:
        os.pwrite(descriptor, settings, 0)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def options_of_worker(descriptor: int) -> argparse.Namespace:
    """Read what a supervisor gives to its worker."""
    with open(descriptor, "rb") as file:
        return argparse.Namespace(**json.load(file))


def leave_interrupts_to_supervisor() -> None:
    """Do nothing at a Ctrl-C: the supervisor, in the same group, gets it too."""
    signal.signal(signal.SIGINT, lambda *_: None)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
