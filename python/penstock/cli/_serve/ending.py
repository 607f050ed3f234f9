"""The end of a process that serves: at the latest at a moment, whatever hangs in it."""

from __future__ import annotations

import _thread
import logging
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue

AFTER_GRACE = 10.0
"""Seconds behind the grace: for requests that are cancelled, and for the lifespan."""

AFTER_ABORT = 5.0
"""The same after a second Ctrl-C."""

_TO_TELL = 2.0


class LastMoment:
    """Ends this process when its time is over.

    An application may swallow its cancellation, its lifespan or one of its threads may never end,
    and its loop may be blocked. A thread that none of them can hold up ends the process then, and
    says why.

    Args:
        log: Where it says so.
        unfinished: Returns what still runs, in words. Called in the thread.
        exit_code: Returns the exit code.
    """

    def __init__(
        self,
        log: logging.Logger,
        unfinished: Callable[[], Sequence[str]],
        exit_code: Callable[[], int],
    ) -> None:
        self._log = log
        self._unfinished = unfinished
        self._exit_code = exit_code
        self._main = threading.get_ident()
        # Its put() may be called in a handler of a signal, whatever that has interrupted.
        self._moments: SimpleQueue[float] = SimpleQueue()
        self._is_watched = False
        self._silent = False

    def within(self, seconds: float, *, silent: bool = False) -> None:
        """Let it come in so many seconds, or when it was to come anyway, if that is earlier.

        `silent` says nothing then: the log has the reason already.
        """
        self._silent = silent
        self._moments.put(time.monotonic() + seconds)
        if not self._is_watched:
            self._is_watched = True
            # threading.Thread.start() waits for a lock, which the main thread may hold here.
            _thread.start_new_thread(self._wait, ())

    def _wait(self) -> None:
        moment = self._moments.get()
        while (left := moment - time.monotonic()) > 0:
            try:
                moment = min(moment, self._moments.get(timeout=left))
            except Empty:
                break
        # A log that cannot be written, as when its reader has stopped, holds up nothing.
        told = threading.Thread(target=self._tell, daemon=True)
        told.start()
        told.join(_TO_TELL)
        os._exit(self._exit_code())

    def _tell(self) -> None:
        if self._silent:
            return
        unfinished = list(self._unfinished())
        if unfinished:
            reason = f"still running: {', '.join(unfinished)}"
        else:
            reason = f"the main thread is {_place_of(self._main)}"
        self._log.error("Process [%d] does not end; it is ended now. %s", os.getpid(), reason)


def _place_of(thread: int) -> str:
    frame = sys._current_frames().get(thread)
    if frame is None:
        return "gone"
    last = traceback.extract_stack(frame)[-1]
    return f"at {last.filename}:{last.lineno}, in {last.name}"
