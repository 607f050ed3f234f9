"""What every test and every process that it starts may take for granted."""

from __future__ import annotations

import signal
from types import FrameType


def _survive(number: int, frame: FrameType | None) -> None:
    """Do nothing: as good as ignoring, but not inherited by the processes that tests start."""


def _undo_ignored_signals() -> None:
    """Have child processes begin with the signals' defaults, whatever this one was started with.

    nohup ignores SIGHUP, and a shell without job control SIGINT and SIGQUIT in what it runs in the
    background. A process inherits what its parent ignores, and Python then installs no handler for
    SIGINT, so that tests that send these signals would wait for ever.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, _survive)


_undo_ignored_signals()
