"""What SIGINT, SIGTERM and SIGHUP do, from the first line of a command to its last.

One handler is installed for the whole life of the command, and what it does is a matter of
phase:

* outside the event loop it raises :class:`Interrupted`, wherever the program is, but in a
  destructor: what is raised there ends there, unseen. Then it raises once that is over;
* while a run is on, it asks the run to stop, and the run closes its files in order;
* once a run is closing, a further signal is noted and changes nothing, so that an impatient
  second Ctrl-C cannot tear a file.

``loop.add_signal_handler`` was tried for the middle phase and rejected: on leaving, the loop
puts back the *default* disposition, so a SIGTERM between the loop's end and the process's end
would kill the command before its summary.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from penstock.cli.errors import Interrupted

__all__ = ["Interrupts"]

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

_LATER_S = 0.001
"""When a signal that came in a destructor is looked at again."""


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
        """Handle the signals inside the ``with``; put back the previous handlers after it.

        A signal that is ignored stays ignored: ``nohup`` and a shell's background jobs ask for
        that.
        """
        previous = {}
        for number in _SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                previous[number] = signal.signal(number, self._receive)
        previous[signal.SIGALRM] = signal.signal(signal.SIGALRM, self._receive_again)
        try:
            yield self
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            for number, handler in previous.items():
                signal.signal(number, handler)

    @contextmanager
    def stopping(self, stop: Callable[[], object]) -> Iterator[None]:
        """Call *stop* on the running loop at the first signal, instead of raising.

        Stays in force for every later signal too, so they do nothing more. Must be entered on
        the event loop's thread; a signal that came before is delivered at once.
        """
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
        """Hold signals back inside the ``with``: for steps that must not be cut in two.

        ``signum`` tells afterwards whether one came; nothing is raised on leaving.
        """
        before, self._deferred = self._deferred, True
        try:
            yield
        finally:
            self._deferred = before

    def raise_if_received(self) -> None:
        """Raise :class:`Interrupted` when a signal has come."""
        if self.signum is not None:
            raise Interrupted(self.signum)

    def _receive(self, signum: int, frame: FrameType | None) -> None:
        first = self.signum is None
        if first:
            self.signum = signum
        if self._stop is not None:
            if first:
                self._stop()
        elif self._deferred:
            return
        elif _is_in_destructor(frame):
            signal.setitimer(signal.ITIMER_REAL, _LATER_S)
        else:
            raise Interrupted(signum)

    def _receive_again(self, signum: int, frame: FrameType | None) -> None:
        if self.signum is not None:
            self._receive(self.signum, frame)


def _is_in_destructor(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_name == "__del__":
            return True
        frame = frame.f_back
    return False
