"""The progress output of a run: a live table in a terminal, else one line per second.

A display only writes and decides nothing. Its methods block, because a terminal may be halted with
Ctrl-S and a pipe may be full. So :func:`show` calls them on a worker thread: a halted terminal must
not delay the polls.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec
from typing import Protocol, TextIO

import anyio
import anyio.to_thread

from penstock.cli._recording.number_text import number_text
from penstock.cli._recording.progress import DeviceProgress, Progress
from penstock.cli._recording.progress_table import ProgressTable

__all__ = [
    "Display",
    "LineDisplay",
    "TableDisplay",
    "open_display",
    "progress_line",
    "show",
    "tell",
]


class Display(Protocol):
    """An output for a run's progress. All methods may block."""

    interval: float
    """Seconds between two updates."""

    def note(self, text: str) -> None:
        """Write one line about the current step, before or after the run."""

    def update(self, progress: Progress) -> None:
        """Show the current state of ``progress``."""

    def close(self) -> None:
        """Restore the terminal. Idempotent."""


def open_display(stream: TextIO) -> Display:
    """Return a live table if ``stream`` is a capable terminal and rich is installed, else lines."""
    if stream.isatty() and os.environ.get("TERM", "dumb") != "dumb":
        if find_spec("rich") is not None:
            return TableDisplay(stream)
        stream.write("a live table instead of these lines: pip install 'penstock[cli]'\n")
    return LineDisplay(stream)


async def show(display: Display, progress: Progress, refresh: Callable[[], None]) -> None:
    """Update ``display`` at its interval until cancelled; ``refresh`` updates ``progress`` first.

    A display that can no longer write (the pipe's reader has exited, the terminal was closed) is
    dropped silently: the recording continues and reports its result by its exit code.
    """
    due = anyio.current_time()
    while True:
        refresh()
        try:
            await anyio.to_thread.run_sync(display.update, progress, abandon_on_cancel=True)
        except (OSError, ValueError):
            return
        due = max(due + display.interval, anyio.current_time())
        await anyio.sleep_until(due)


async def tell(display: Display, text: str) -> None:
    """Write ``text`` as a separate line; ignore a display that can no longer write."""
    with suppress(OSError, ValueError):
        await anyio.to_thread.run_sync(display.note, text, abandon_on_cancel=True)


class TableDisplay:
    """A table that is redrawn in place."""

    interval = 0.25

    def __init__(self, stream: TextIO) -> None:
        from rich.console import Console
        from rich.live import Live

        self._stream = stream
        self._live = Live(console=Console(file=stream), auto_refresh=False)

    def note(self, text: str) -> None:
        self._stream.write(f"{text}\n")
        self._stream.flush()

    def update(self, progress: Progress) -> None:
        if not self._live.is_started:
            self._live.start()
        self._live.update(ProgressTable(progress), refresh=True)

    def close(self) -> None:
        self._live.stop()


class LineDisplay:
    """One plain line per second, for files, pipes and logs."""

    interval = 1.0

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def note(self, text: str) -> None:
        self._stream.write(f"{text}\n")
        self._stream.flush()

    def update(self, progress: Progress) -> None:
        self.note(progress_line(progress))

    def close(self) -> None:
        """Do nothing: there is no terminal state to restore."""


def progress_line(progress: Progress) -> str:
    """Return all of ``progress`` on one line."""
    devices = ", ".join(_device_phrase(device) for device in progress.devices.values())
    return f"{progress.elapsed:6.1f} s  {devices}  |  {progress.counts}"


def _device_phrase(device: DeviceProgress) -> str:
    if device.error is not None:
        return f"{device.plan.name} {'absent' if device.absent else 'failing'}"
    if device.value is None:
        return f"{device.plan.name} -"
    aim = f" of {number_text(device.setpoint)}" if device.setpoint is not None else ""
    status = f" {device.status}" if device.status else ""
    status += " ALARM" if device.alarms else ""
    return f"{device.plan.name} {number_text(device.value)}{aim} {device.unit}{status}".rstrip()
