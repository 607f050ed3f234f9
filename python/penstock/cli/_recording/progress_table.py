"""The live table of a run, as wide as its terminal allows.

A narrow terminal shows fewer columns rather than half of each: what tells whether the run is well
stays, and the rest goes in the order of :data:`KEPT`, the last one first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.cli._recording.number_text import number_text
from penstock.cli._recording.progress import RECENT_SECONDS, DeviceProgress, Progress
from penstock.cli._recording.terminal_plot import sparkline

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.text import Text

__all__ = ["KEPT", "ProgressTable"]

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
