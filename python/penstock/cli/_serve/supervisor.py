"""The workers of ``penstock serve``: started, watched, replaced, ended."""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import math
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence

from penstock.cli._errors import ExitCode
from penstock.cli._serve.metrics.memory import SharedCounters
from penstock.cli._service_manager import ServiceManager

__all__ = ["Supervisor", "options_of_worker"]

_LOOK = 0.25
_AFTER_GRACE = 10.0
_SHORTEST_LIFE = 1.0


class _Worker:
    """A process, and the pipe on which its loop gives signs of life."""

    def __init__(
        self, settings: bytes, sockets: Sequence[socket.socket], metrics: SharedCounters | None
    ) -> None:
        self.place = metrics.take() if metrics is not None else None
        shared = [] if metrics is None or self.place is None else [metrics.descriptor]
        given, to_give = os.pipe()
        self.pipe, heartbeat = os.pipe()
        os.set_blocking(self.pipe, False)
        os.set_blocking(heartbeat, False)
        numbers = ",".join(str(each.fileno()) for each in sockets)
        try:
            self.process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "penstock.cli._serve.worker"),
                    *(str(given), str(heartbeat), numbers),
                    *(str(number) for each in shared for number in (each, self.place)),
                ],
                pass_fds=[given, heartbeat, *shared, *(each.fileno() for each in sockets)],
                # Ctrl-C in a terminal goes to its whole group; the supervisor ends the workers.
                process_group=0,
            )
            with open(to_give, "wb", closefd=False) as file:
                file.write(settings)
        finally:
            for descriptor in (given, to_give, heartbeat):
                os.close(descriptor)
        self.started = self.heard = time.monotonic()
        self.ready = False
        self.stopping = False
        self.last_moment = math.inf

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

    def close(self) -> None:
        os.close(self.pipe)


def options_of_worker(descriptor: int) -> argparse.Namespace:
    """Read what a supervisor gives to its worker."""
    with open(descriptor, "rb") as file:
        return argparse.Namespace(**json.load(file))


class Supervisor:
    """Keeps a number of workers running until a signal.

    Args:
        options: The command's options.
        sockets: What the workers listen on.
        log: Where it tells what happens.
        changed: Returns whether the workers are to be replaced; looked at several times a second.
        metrics: Where the workers count.
    """

    def __init__(
        self,
        options: argparse.Namespace,
        sockets: Sequence[socket.socket],
        log: logging.Logger,
        changed: Callable[[], bool] = lambda: False,
        metrics: SharedCounters | None = None,
    ) -> None:
        self._options = options
        self._sockets = sockets
        self._log = log
        self._changed = changed
        self._metrics = metrics
        self._grace = options.timeout_graceful_shutdown + _AFTER_GRACE
        self._count = 1 if options.reload else options.workers
        given = {name: value for name, value in vars(options).items() if name != "run"}
        self._settings = json.dumps(given).encode()
        self._workers: list[_Worker] = []
        self._signals: list[int] = []
        self._not_before = 0.0
        self._manager = ServiceManager(os.environ)
        self._is_ready = False

    def run(self) -> int | None:
        """Supervise.

        Returns:
            The signal that has ended it, or None if a worker could not start.
        """
        with self._handled_signals() as wake:
            self._log.info("Started parent process [%d]", os.getpid())
            for _ in range(self._count):
                self._start()
            ended_by = self._watch(wake)
            self._manager.tell("STOPPING=1")
            self._end_all()
            self._log.info("Stopped parent process [%d]", os.getpid())
        return ended_by

    @contextlib.contextmanager
    def _handled_signals(self) -> Iterator[int]:
        reader, writer = os.pipe()
        os.set_blocking(reader, False)
        os.set_blocking(writer, False)
        handled = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGTTIN, signal.SIGTTOU)
        before = {
            signum: signal.signal(signum, lambda number, _: self._signals.append(number))
            for signum in (*handled, signal.SIGCHLD)
        }
        woken = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        try:
            yield reader
        finally:
            signal.set_wakeup_fd(woken)
            for signum, handler in before.items():
                signal.signal(signum, handler)
            os.close(reader)
            os.close(writer)

    def _start(self) -> _Worker:
        worker = _Worker(self._settings, self._sockets, self._metrics)
        self._workers.append(worker)
        return worker

    def _watch(self, wake: int) -> int | None:
        while True:
            select.select([wake], [], [], _LOOK)
            with contextlib.suppress(BlockingIOError):
                while os.read(wake, 4096):
                    pass
            while self._signals:
                signum = self._signals.pop(0)
                if signum in (signal.SIGINT, signal.SIGTERM):
                    return signum
                self._obey(signum)
            if self._changed():
                self._replace_all(before=True)
            if not self._look_after_workers():
                return None
            self._tell_service_manager()

    def _tell_service_manager(self) -> None:
        if not self._is_ready and all(worker.ready for worker in self._workers):
            self._is_ready = True
            self._manager.tell("READY=1")
        if self._manager.watchdog_s is not None:
            self._manager.tell("WATCHDOG=1")

    def _obey(self, signum: int) -> None:
        if signum == signal.SIGHUP:
            self._replace_all(before=False)
        elif signum == signal.SIGTTIN:
            self._count += 1
        elif signum == signal.SIGTTOU and self._count > 1:
            self._count -= 1
            running = [worker for worker in self._workers if not worker.stopping]
            if len(running) > self._count:
                running[-1].end(self._grace)

    def _look_after_workers(self) -> bool:
        """Replace workers that have ended or hang. False if none can start."""
        now = time.monotonic()
        patience = self._options.timeout_worker_healthcheck
        for worker in list(self._workers):
            worker.listen()
            code = worker.process.poll()
            if code is None:
                if worker.ready and now - worker.heard > patience and not worker.stopping:
                    self._log.error(
                        "Worker [%d] has shown no sign of life for %g s; it is killed",
                        worker.process.pid,
                        patience,
                    )
                    worker.process.kill()
                if now > worker.last_moment:
                    self._log.error("Worker [%d] does not end; it is killed", worker.process.pid)
                    worker.process.kill()
                continue
            self._forget(worker)
            if code == ExitCode.CONFIG and not worker.ready:
                if not any(each.ready for each in self._workers):
                    return False
                self._log.error("A new worker has not started; the others go on")
                self._not_before = now + _SHORTEST_LIFE
            if not worker.stopping:
                self._log.info("Worker [%d] has ended (%d)", worker.process.pid, code)
                if now - worker.started < _SHORTEST_LIFE:
                    self._not_before = now + _SHORTEST_LIFE
        while len(self._workers) < self._count and now >= self._not_before:
            self._start()
        return True

    def _forget(self, worker: _Worker) -> None:
        self._workers.remove(worker)
        worker.close()
        if self._metrics is not None and worker.place is not None:
            self._metrics.give_back(worker.place)

    def _replace_all(self, *, before: bool) -> None:
        """Replace each worker by a new one, which is ready before the old one ends.

        With `before`, the old ones end first: the new code may not start, and is then waited for.
        """
        old = [worker for worker in self._workers if not worker.stopping]
        if before:
            for worker in old:
                worker.end(self._grace)
            for worker in old:
                self._wait(worker)
            for _ in range(self._count):
                self._start()
            return
        for worker in old:
            new = self._start()
            while not new.ready and new.process.poll() is None and not self._is_ending():
                time.sleep(0.02)
                new.listen()
                self._tell_service_manager()
            if self._is_ending():
                return
            if not new.ready:
                self._log.error("A new worker has not started; the old ones are kept")
                if new.process.poll() is not None:
                    self._forget(new)
                return
            worker.end(self._grace)

    def _is_ending(self) -> bool:
        return signal.SIGTERM in self._signals or signal.SIGINT in self._signals

    def _wait(self, worker: _Worker) -> None:
        try:
            worker.process.wait(max(0.0, worker.last_moment - time.monotonic()))
        except subprocess.TimeoutExpired:
            worker.process.kill()
            worker.process.wait()
        self._forget(worker)

    def _end_all(self) -> None:
        for worker in self._workers:
            worker.end(self._grace)
        for worker in list(self._workers):
            self._wait(worker)
