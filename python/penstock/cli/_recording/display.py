"""The progress output of a run: a live table in a terminal, else one line per second.

A display only writes and decides nothing. Its methods block, because a terminal may be halted with
Ctrl-S and a pipe may be full. So :func:`show` calls them on a worker thread: a halted terminal must
not delay the polls.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from importlib.util import find_spec
from typing import TYPE_CHECKING, Protocol, TextIO

import anyio
import anyio.to_thread

from penstock.cli._recording.plot import sparkline
from penstock.cli._recording.progress import RECENT_SECONDS, DeviceProgress, Progress

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.text import Text


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


# The live table of a run, as wide as its terminal allows.
#
# A narrow terminal shows fewer columns rather than half of each: what tells whether the run is well
# stays, and the rest goes in the order of :data:`KEPT`, the last one first.

KEPT = (
    "device",
    "value",
    "unit",
    "errors",
    "status",
    "setpoint",
    "recent",
    "late",
    "Hz",
    "samples",
)
"""The columns from the most to the least important one."""
_NEEDED = 4
_NARROWEST_NAME = 6
_STATUS_WIDTH = 8
"""The widest usual word, so that the table does not jump when it comes."""


@dataclass(frozen=True, slots=True)
class _Column:
    name: str
    header: str
    cell: Callable[[DeviceProgress, Progress], Text]
    to_right: bool = False
    least: int = 0


class ProgressTable:
    """All of a :class:`Progress` as a table, for a console of rich of any width."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.table import Table

        progress = self._progress
        length = f" of {progress.duration:g}" if progress.duration is not None else ""
        table = Table(
            title=f"{progress.device_count} at {progress.rate_hz:g} Hz, "
            f"{progress.elapsed:.1f}{length} s",
            title_justify="left",
            title_style="bold",
        )
        devices = list(progress.devices.values())
        cells = {
            column.name: [column.cell(device, progress) for device in devices]
            for column in _COLUMNS
        }
        widths = {
            column.name: max(
                len(column.header), column.least, *(text.cell_len for text in cells[column.name])
            )
            for column in _COLUMNS
        }
        shown = _fitting(widths, options.max_width)
        for column in _COLUMNS:
            if column.name in shown:
                table.add_column(
                    column.header,
                    justify="right" if column.to_right else "left",
                    no_wrap=True,
                    overflow="ellipsis",
                    width=shown[column.name],
                )
        for row in range(len(devices)):
            table.add_row(*(cells[column.name][row] for column in _COLUMNS if column.name in shown))
        yield table


def _fitting(widths: dict[str, int], room: int) -> dict[str, int]:
    """The columns that fit, with their widths; long names of devices give way at last."""
    kept = list(KEPT)
    while len(kept) > _NEEDED and _total(widths, kept) > room:
        kept.pop()
    shown = {name: widths[name] for name in kept}
    excess = _total(shown, kept) - room
    if excess > 0:
        shown["device"] = max(_NARROWEST_NAME, shown["device"] - excess)
    return shown


def _total(widths: dict[str, int], names: list[str]) -> int:
    # A cell has a space on either side, and a line between each two and around all.
    return sum(widths[name] + 3 for name in names) + 1


def _text(words: str, style: str = "") -> Text:
    # Text, not markup: names and error messages may contain square brackets.
    from rich.text import Text

    return Text(words, style=style)


def _status(device: DeviceProgress, _: Progress) -> Text:
    if device.error is not None:
        return _text("absent" if device.absent else "failing", "red")
    if device.alarms:
        return _text("ALARM", "bold red")
    if device.value is None:
        return _text("waiting", "dim")
    if device.status:
        return _text(device.status, "yellow")
    return _text("ok", "green")


def _value(device: DeviceProgress, _: Progress) -> Text:
    return _text(number_text(device.value), "dim" if device.error is not None else "bold")


def _rate(device: DeviceProgress, progress: Progress) -> Text:
    return _text(f"{device.samples / progress.elapsed:.1f}" if progress.elapsed > 0 else "-")


_COLUMNS = (
    _Column("device", "device", lambda device, _: _text(device.plan.name)),
    _Column("value", "value", _value, to_right=True),
    _Column("unit", "unit", lambda device, _: _text(device.unit)),
    _Column(
        "setpoint", "setpoint", lambda device, _: _text(number_text(device.setpoint)), to_right=True
    ),
    _Column("status", "status", _status, least=_STATUS_WIDTH),
    _Column(
        "recent",
        f"last {RECENT_SECONDS} s",
        lambda device, _: _text(sparkline(list(device.recent), RECENT_SECONDS), "cyan"),
        least=RECENT_SECONDS,
    ),
    _Column("Hz", "Hz", _rate, to_right=True),
    _Column("samples", "samples", lambda device, _: _text(str(device.samples)), to_right=True),
    _Column(
        "late",
        "late",
        lambda device, _: _text(str(device.late), "yellow" if device.late else ""),
        to_right=True,
    ),
    _Column(
        "errors",
        "errors",
        lambda device, _: _text(str(device.errors), "red" if device.errors else ""),
        to_right=True,
    ),
)
"""In the order of the table."""


# Numbers of instruments as texts: with the digits that the instrument has sent.

_FEWEST_DECIMALS = 2
_MOST_DIGITS = 12
"""No instrument sends more: a number with more was computed."""
_COMPUTED_DIGITS = 6
_SMALLEST_FIXED, _LARGEST_FIXED = 1e-3, 1e12


def number_text(value: float | None) -> str:
    """``value`` with its own digits, as a power of ten where it is very small or large.

    Two decimals at least, so that a column of numbers stands still; ``-`` for None.
    """
    if value is None:
        return "-"
    if not math.isfinite(value):
        return str(value)
    if value == 0:
        return "0.00"
    _, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int)
    computed = len(digits) > _MOST_DIGITS
    if not _SMALLEST_FIXED <= abs(value) < _LARGEST_FIXED:
        return f"{value:.{_COMPUTED_DIGITS if computed else len(digits) - 1}e}"
    if not computed:
        return f"{value:.{max(_FEWEST_DECIMALS, -exponent)}f}"
    first = math.floor(math.log10(abs(value)))
    least = _FEWEST_DECIMALS if first >= 0 else _COMPUTED_DIGITS - 1 - first
    return f"{value:.{least}f}"
