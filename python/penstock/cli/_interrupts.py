"""What SIGINT, SIGTERM and SIGHUP do while a command runs.

One set of handlers is installed for the whole command. What a signal does depends on the phase:

* Outside the event loop it raises :class:`Interrupted` in the running code. A destructor or another
  interpreter callback cannot propagate an exception; there the signal is recorded, and the next
  ``raise_if_received`` or the next signal raises it.
* During a run, it asks the run to stop, and the run closes its files in order.
* While a run closes, a further signal is recorded and has no effect, so that a second Ctrl-C
  cannot corrupt a file.

``loop.add_signal_handler`` was tried for the middle phase and rejected. When the loop ends it
restores the *default* action, so a SIGTERM between the end of the loop and the end of the process
would kill the command before its summary.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from penstock.cli._errors import Interrupted

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupts:
    """The signal state of one command. Main thread only.

    ``signum`` is the first signal received, or None.
    """

    def __init__(self) -> None:
        self.signum: int | None = None
        self._stop: Callable[[], object] | None = None
        self._deferred = False

    @contextmanager
    def installed(self) -> Iterator[Interrupts]:
        """Handle the signals inside the ``with``; restore the previous handlers after it.

        A signal that is ignored stays ignored, because ``nohup`` and a shell's background jobs
        rely on that.
        """
        previous = {}
        for number in _SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                previous[number] = signal.signal(number, self._receive)
        report = sys.unraisablehook

        def report_others(unraisable: Any) -> None:
            if not isinstance(unraisable.exc_value, Interrupted):
                report(unraisable)

        sys.unraisablehook = report_others
        try:
            yield self
        finally:
            sys.unraisablehook = report
            for number, handler in previous.items():
                signal.signal(number, handler)

    @contextmanager
    def stopping(self, stop: Callable[[], object]) -> Iterator[None]:
        """Call ``stop`` on the running loop at the first signal, instead of raising.

        Later signals have no further effect. Must be entered on the event loop's thread; a signal
        that arrived before is delivered at once.
        """
        import asyncio  # a loop runs, so it is there; a command without a loop starts without it

        loop = asyncio.get_running_loop()
        self._stop = lambda: loop.call_soon_threadsafe(stop)
        try:
            if self.signum is not None:
                stop()
            yield
        finally:
            self._stop = None

    @contextmanager
    def deferred(self) -> Iterator[None]:
        """Only record signals inside the ``with``, for steps that must not be interrupted.

        Afterwards ``signum`` shows whether a signal arrived; the exit raises nothing.
        """
        before, self._deferred = self._deferred, True
        try:
            yield
        finally:
            self._deferred = before

    def raise_if_received(self) -> None:
        """Raise :class:`Interrupted` if a signal has arrived."""
        if self.signum is not None:
            raise Interrupted(self.signum)

    def _receive(self, signum: int, frame: FrameType | None) -> None:
        first = self.signum is None
        if first:
            self.signum = signum
        if self._stop is not None:
            if first:
                self._stop()
        elif not self._deferred:
            raise Interrupted(signum)
