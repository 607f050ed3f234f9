"""The workers of ``penstock serve``: started, watched, replaced, ended.

Nothing here waits for a worker: each look, several times a second, does what is due. So a worker
that hangs, in its import or at its end, holds up neither a signal nor the other workers.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import os
import select
import signal
import socket
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from math import inf

from penstock.cli._errors import ExitCode, one_line
from penstock.cli._serve.ending import AFTER_ABORT, AFTER_GRACE
from penstock.cli._serve.metrics import SharedCounters
from penstock.cli._serve.worker import WorkerProcess
from penstock.cli._service_manager import ServiceManager

_LOOK = 0.25
_LATER = 2.0
"""Seconds more than a process gives to itself: it names the request that does not end."""
_SHORTEST_LIFE = 1.0
_GRACE_OF_RELOAD = 3.0
_STANDSTILL = 1.0
"""Seconds by which a look is late if this process has stood still, as in a frozen container."""


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
        given = {name: value for name, value in vars(options).items() if name != "run"}
        grace = options.timeout_graceful_shutdown
        if options.reload:  # who has saved a file waits for it, not for an open event stream
            grace = given["timeout_graceful_shutdown"] = min(grace, _GRACE_OF_RELOAD)
        self._grace = grace + AFTER_GRACE + _LATER
        self._count = 1 if options.reload else options.workers
        self._settings = json.dumps(given).encode()
        self._workers: list[WorkerProcess] = []
        self._signals: list[int] = []
        self._not_before = 0.0
        self._waits_for_change = False
        self._was_ready = False
        self._to_replace: deque[WorkerProcess] = deque()
        self._successor: WorkerProcess | None = None
        self._reload_again = False
        self._manager = ServiceManager(os.environ)
        self._is_ready = False
        self._looked = time.monotonic()

    def run(self) -> int | None:
        """Supervise.

        Returns:
            The signal that has ended it, or None if a worker could not start.
        """
        with self._handled_signals() as wake:
            self._log.info("Started parent process [%d]", os.getpid())
            try:
                ended_by = self._watch(wake)
            finally:
                self._manager.tell("STOPPING=1")
                self._end_all(wake)
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

    def _watch(self, wake: int) -> int | None:
        while self._look_after_workers():
            self._tell_service_manager()
            self._rest(wake, _LOOK)
            while self._signals:
                signum = self._signals.pop(0)
                if signum in (signal.SIGINT, signal.SIGTERM):
                    return signum
                self._obey(signum)
            if self._changed():
                self._begin_again()
        return None

    @staticmethod
    def _rest(wake: int, seconds: float) -> None:
        select.select([wake], [], [], seconds)
        with contextlib.suppress(BlockingIOError):
            while os.read(wake, 4096):
                pass

    def _tell_service_manager(self) -> None:
        if not self._is_ready and self._workers and all(each.ready for each in self._workers):
            self._is_ready = True
            self._manager.tell("READY=1")
        if self._manager.watchdog_s is not None:
            self._manager.tell("WATCHDOG=1")

    def _obey(self, signum: int) -> None:
        if signum == signal.SIGHUP:
            self._begin_replacing()
        elif signum == signal.SIGTTIN:
            self._count += 1
        elif signum == signal.SIGTTOU and self._count > 1:
            self._count -= 1
            running = [each for each in self._running() if each is not self._successor]
            if len(running) > self._count:
                running[-1].end(self._grace)

    def _running(self) -> list[WorkerProcess]:
        return [worker for worker in self._workers if not worker.stopping]

    def _look_after_workers(self) -> bool:
        """Replace workers that have ended or hang. False if none can start."""
        now = self._time_of_look()
        for worker in list(self._workers):
            worker.listen()
            self._was_ready = self._was_ready or worker.ready
            code = worker.process.poll()
            if code is None:
                self._look_at(worker, now)
            elif not self._after_end(worker, code, now):
                return False
        self._go_on_replacing()
        # A program that is changed again and again ends before it starts: it may hold what only
        # one process can have.
        there = self._workers if self._options.reload else self._running()
        missing = self._count + (self._successor is not None) - len(there)
        if now >= self._not_before and not self._waits_for_change:
            for _ in range(missing):
                if self._start() is None:
                    break
        return True

    def _time_of_look(self) -> float:
        """Return the time. What this process has missed of it, its workers have not had either."""
        now = time.monotonic()
        missed = now - self._looked - _LOOK
        self._looked = now
        if missed > _STANDSTILL:
            for worker in self._workers:
                worker.excuse(missed)
        return now

    def _look_at(self, worker: WorkerProcess, now: float) -> None:
        patience = self._options.timeout_worker_healthcheck
        start = self._options.timeout_worker_start
        if self._options.reload:  # a program under development may stand in a debugger
            patience, start = inf, 0.0
        if now > worker.last_moment:
            if worker.kill():
                self._log.error("Worker [%d] does not end; it is killed", worker.pid)
        elif worker.stopping:
            return
        elif worker.ready:
            if now - worker.heard > patience and worker.kill():
                self._log.error(
                    "Worker [%d] has been unresponsive for %g s; it is killed",
                    worker.pid,
                    patience,
                )
        elif start and now - worker.started > start and not worker.is_late:
            worker.is_late = True
            if worker is self._successor:
                self._give_up_replacing(
                    f"Worker [{worker.pid}] is not ready after {start:g} s; it is killed, and the "
                    "old ones are kept (--timeout-worker-start)"
                )
                worker.end(0.0)
            elif self._was_ready:
                self._log.error(
                    "Worker [%d] is not ready after %g s; it is killed (--timeout-worker-start)",
                    worker.pid,
                    start,
                )
                worker.kill()
            else:
                self._log.warning(
                    "Worker [%d] is not ready after %g s; it may hang in its import or in the "
                    "application's startup",
                    worker.pid,
                    start,
                )

    def _after_end(self, worker: WorkerProcess, code: int, now: float) -> bool:
        """Forget a worker that has ended. False if none can start."""
        self._forget(worker)
        if worker is self._successor:
            if not worker.stopping:
                self._give_up_replacing("A new worker did not start; the old ones are kept")
            self._successor = None
            return True
        if worker.stopping:
            return True
        if code > 0 and not worker.ready and not self._options.reload:
            if any(each.ready for each in self._workers):
                self._log.error("A new worker did not start; the others continue")
                self._not_before = now + _SHORTEST_LIFE
            elif code == ExitCode.CONFIG or not self._was_ready:
                return False  # also one whose import ends the process, which each would do again
        self._log.info("Worker [%d] ended (%d)", worker.pid, code)
        if self._options.reload and not worker.ready:
            self._waits_for_change = True
            self._log.warning("The application did not start; it is tried again after a change")
        if now - worker.started < _SHORTEST_LIFE:
            self._not_before = now + _SHORTEST_LIFE
        return True

    def _start(self) -> WorkerProcess | None:
        metrics = self._metrics
        counters = None if metrics is None else (metrics.descriptor, metrics.take())
        try:
            worker = WorkerProcess(
                self._settings, self._sockets, counters, keeps_terminal=self._options.reload
            )
        except OSError as error:  # as when the system has no more processes or memory
            self._log.error("A worker cannot be started: %s", one_line(error))
            if metrics is not None and counters is not None:
                metrics.give_back(counters[1])
            self._not_before = time.monotonic() + _SHORTEST_LIFE
            return None
        self._workers.append(worker)
        return worker

    def _forget(self, worker: WorkerProcess) -> None:
        self._workers.remove(worker)
        worker.close()
        if self._metrics is not None and worker.place is not None:
            self._metrics.give_back(worker.place)

    def _begin_again(self) -> None:
        """End all; new ones start when they have ended. For code that has changed."""
        self._waits_for_change = False
        self._not_before = 0.0
        for worker in self._running():
            worker.end(self._grace)

    def _begin_replacing(self) -> None:
        """Replace each worker by a new one, which is ready before the old one ends."""
        if self._to_replace or self._successor is not None:
            self._reload_again = True  # once, however often it is asked for meanwhile
        else:
            self._to_replace.extend(self._running())

    def _go_on_replacing(self) -> None:
        if self._successor is not None:
            if not self._successor.ready:
                return
            self._successor = None
            self._to_replace.popleft().end(self._grace)
        while self._to_replace and self._to_replace[0] not in self._running():
            self._to_replace.popleft()  # its successor has started since
        if self._to_replace:
            self._successor = self._start()
            if self._successor is None:
                self._give_up_replacing("The old workers are kept")
        elif self._reload_again:
            self._reload_again = False
            self._begin_replacing()

    def _give_up_replacing(self, reason: str) -> None:
        self._log.error(reason)
        self._to_replace.clear()
        self._reload_again = False

    def _end_all(self, wake: int) -> None:
        for worker in self._workers:
            worker.end(self._grace)
        interrupts = 0
        while self._workers:
            self._rest(wake, _LOOK)
            asked = self._signals.count(signal.SIGINT)
            self._signals.clear()
            for _ in range(asked):
                interrupts += 1
                self._hurry(interrupts)
            now = self._time_of_look()
            for worker in list(self._workers):
                worker.listen()
                if worker.process.poll() is not None:
                    self._forget(worker)
                else:
                    self._look_at(worker, now)

    def _hurry(self, interrupts: int) -> None:
        if interrupts == 1:
            self._log.warning("Interrupted again: running requests are cancelled")
            for worker in self._workers:
                worker.hurry(AFTER_ABORT + _LATER)
        else:
            self._log.warning("Interrupted once more: the workers are killed")
            for worker in self._workers:
                worker.kill()
