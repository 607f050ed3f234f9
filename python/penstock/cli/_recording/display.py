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
from typing import TYPE_CHECKING, Protocol, TextIO

import anyio
import anyio.to_thread

from penstock.cli._recording.progress import RECENT_SECONDS, DeviceProgress, Progress
from penstock.cli._recordings.terminal_plot import sparkline

if TYPE_CHECKING:
    from rich.console import RenderableType

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
        self._live.update(progress_table(progress), refresh=True)

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
    aim = f" of {_number(device.setpoint)}" if device.setpoint is not None else ""
    status = f" {device.status}" if device.status else ""
    status += " ALARM" if device.alarms else ""
    return f"{device.plan.name} {_number(device.value)}{aim} {device.unit}{status}".rstrip()


def progress_table(progress: Progress) -> RenderableType:
    """Return all of ``progress`` as a table that fits the console that draws it."""
    from rich.table import Table
    from rich.text import Text

    length = f" of {progress.duration:g}" if progress.duration is not None else ""
    table = Table(
        title=f"{progress.device_count} at {progress.rate_hz:g} Hz, "
        f"{progress.elapsed:.1f}{length} s",
        title_justify="left",
        title_style="bold",
    )
    table.add_column("device", no_wrap=True)
    table.add_column("value", justify="right", no_wrap=True)
    table.add_column("unit")
    table.add_column("setpoint", justify="right", no_wrap=True)
    table.add_column("status", min_width=8)
    table.add_column(f"last {RECENT_SECONDS} s", no_wrap=True)
    table.add_column("Hz", justify="right")
    table.add_column("samples", justify="right")
    table.add_column("late", justify="right")
    table.add_column("errors", justify="right")
    for device in progress.devices.values():
        failing = device.error is not None
        # Text, not markup: names and error messages may contain square brackets.
        table.add_row(
            Text(device.plan.name),
            Text(_number(device.value), style="dim" if failing else "bold"),
            Text(device.unit),
            Text(_number(device.setpoint)),
            _status(device),
            Text(sparkline(list(device.recent), RECENT_SECONDS), style="cyan"),
            f"{device.samples / progress.elapsed:.1f}" if progress.elapsed > 0 else "-",
            str(device.samples),
            Text(str(device.late), style="yellow" if device.late else ""),
            Text(str(device.errors), style="red" if device.errors else ""),
        )
    return table


def _status(device: DeviceProgress) -> RenderableType:
    from rich.text import Text

    if device.error is not None:
        return Text("absent" if device.absent else "failing", style="red")
    if device.alarms:
        return Text("ALARM", style="bold red")
    if device.value is None:
        return Text("waiting", style="dim")
    if device.status:
        return Text(device.status, style="yellow")
    return Text("ok", style="green")


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
