"""The plots of a run, a panel for each device: pictures, and curves in a terminal."""

from __future__ import annotations

import io
import math
import os
import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from penstock._durable_files import put_file, sync_folder, write_fully
from penstock.cli._errors import already_exists, explain_os_error
from penstock.cli._recording.progress import DeviceProgress, Progress

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_VALUE = "#0b6fa4"
_SETPOINT = "#d1495b"
_COLUMNS = 2


def draw_pictures(progress: Progress, paths: Sequence[Path]) -> dict[Path, bytes]:
    """Return the content of each file of ``paths``: the figure in the format of its suffix."""
    figure = draw_run(progress)
    pictures = {}
    for path in paths:
        pictures[path] = picture_of(figure, path.suffix[1:])
    return pictures


def picture_of(figure: Figure, kind: str) -> bytes:
    """The content of a file of ``kind``, png or svg."""
    picture = io.BytesIO()
    # A date in an SVG's metadata would make the files of two equal runs differ.
    metadata = {"Date": None} if kind == "svg" else None
    with warnings.catch_warnings():
        # A box stands for a character of a name that the font lacks: no need for a warning each.
        warnings.filterwarnings("ignore", message="Glyph", category=UserWarning)
        figure.savefig(picture, format=kind, dpi=144, metadata=metadata)
    return picture.getvalue()


def write_pictures(pictures: Mapping[Path, bytes], *, overwrite: bool = False) -> None:
    """Write each picture to its file.

    Each file is complete or missing, even if the disk fills up or a signal arrives.

    Raises:
        CommandError: if a file cannot be written or, without ``overwrite``, already exists.
    """
    for path, picture in pictures.items():
        try:
            os.close(put_file(path, partial(write_fully, data=picture), overwrite=overwrite))
            sync_folder(os.fspath(path))
        except FileExistsError as error:
            raise already_exists(path) from error
        except OSError as error:
            raise explain_os_error(error, path) from error


def draw_run(progress: Progress) -> Figure:
    """Return the figure: a panel for each device, two in a row, with units on the axes."""
    # Figure without pyplot has no global state and needs no display; savefig picks Agg or SVG.
    from matplotlib.figure import Figure

    devices = list(progress.devices.values())
    columns = min(_COLUMNS, len(devices))
    rows = math.ceil(len(devices) / columns)
    figure = Figure(figsize=(5.2 * columns, 2.5 * rows + 1.0), layout="constrained")
    panels = list(figure.subplots(rows, columns, squeeze=False, sharex=True).flat)
    for axes, device in zip(panels, devices, strict=False):
        _draw_device(axes, device)
    for axes in panels[len(devices) :]:
        axes.set_visible(False)
    panels = panels[: len(devices)]
    # The lowest panel of every column, even if an odd number of devices leaves a gap.
    for axes in panels[-columns:]:
        axes.set_xlabel("time since start (s)")
        axes.tick_params(labelbottom=True)
    figure.suptitle(
        f"{progress.device_count} polled at {progress.rate_hz:g} Hz for "
        f"{progress.elapsed:.1f} s: {progress.counts}",
        fontsize=11,
    )
    _add_legend(figure, panels)
    return figure


def _draw_device(axes: Axes, device: DeviceProgress) -> None:
    buckets = device.curve.buckets
    at = [bucket.at for bucket in buckets]
    value = [bucket.mean if bucket.count else math.nan for bucket in buckets]
    aim = [
        bucket.setpoint if bucket.count and bucket.setpoint is not None else math.nan
        for bucket in buckets
    ]
    if device.quantity is not None and device.quantity.setpoint is not None:
        axes.plot(
            at, aim, drawstyle="steps-post", color=_SETPOINT, lw=1.4, ls="--", label="setpoint"
        )
    axes.plot(at, value, color=_VALUE, lw=1.4, label="measured")
    if device.curve.per_bucket > 1:
        low = [bucket.low if bucket.count else math.nan for bucket in buckets]
        high = [bucket.high if bucket.count else math.nan for bucket in buckets]
        axes.fill_between(at, low, high, color=_VALUE, alpha=0.25, lw=0, label="extremes")
    if not buckets:
        axes.text(0.5, 0.5, "no sample", transform=axes.transAxes, ha="center", va="center")
    plan = device.plan
    axes.set_title(f"{plan.name} (unit id {plan.unit_id})", loc="left", parse_math=False)
    label = device.quantity.label if device.quantity is not None else "value"
    axes.set_ylabel(f"{label} ({device.unit})" if device.unit else label, parse_math=False)
    axes.margins(x=0.01, y=0.08)
    axes.grid(color="#d9d9d9", lw=0.6)
    axes.spines[["top", "right"]].set_visible(False)


def _add_legend(figure: Figure, panels: Sequence[Axes]) -> None:
    # One legend below all panels: inside a panel it could cover a curve.
    entries: dict[str, Artist] = {}
    for axes in panels:
        handles, labels = axes.get_legend_handles_labels()
        entries.update(zip(labels, handles, strict=True))
    if entries:
        figure.legend(
            handles=list(entries.values()),
            labels=list(entries),
            loc="outside lower center",
            ncols=len(entries),
            frameon=False,
        )


# Curves in a terminal: sparklines, and plots of braille dots.

_BARS = "▁▂▃▄▅▆▇█"
# Unicode numbers the dots of a braille cell down the left column, then down the right one; the
# lowest row was added later and has the highest bits.
_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))


def sparkline(values: Sequence[float | None], width: int) -> str:
    """The last ``width`` values as bars between their lowest and highest; a space for a gap."""
    shown = [
        value if value is not None and math.isfinite(value) else None for value in values[-width:]
    ]
    known = [value for value in shown if value is not None]
    if not known:
        return " " * len(shown)
    low, span = min(known), max(known) - min(known)
    top = len(_BARS) - 1
    return "".join(
        " " if value is None else _BARS[round((value - low) / span * top) if span else top // 2]
        for value in shown
    )


def dot_plot(
    at: Sequence[float],
    low: Sequence[float],
    high: Sequence[float],
    *,
    width: int,
    height: int,
    title: str,
    between: tuple[float, float],
    ends: tuple[str, str],
) -> str:
    """A plot of extremes over ``at`` in ``width`` by ``height`` characters, with its limits.

    A column of dots is filled from the lowest to the highest value in it. Values that are not
    finite leave a gap. The columns reach over what ``between`` has; ``ends`` are the words below
    the first and the last one.
    """
    points = [
        (x, *pair)
        for x, *pair in zip(at, low, high, strict=True)
        if math.isfinite(x) and all(map(math.isfinite, pair))
    ]
    if not points:
        return f"{title}\n  no sample"
    left, right = between
    least, most = min(y for _, y, _ in points), max(y for _, _, y in points)
    labels = [f"{most:.6g}", f"{least:.6g}"]
    margin = max(map(len, labels))
    columns, rows = max(1, width - margin - 2), height
    cells = [[0] * columns for _ in range(rows)]

    def up(y: float) -> int:
        return round(_share(y, least, most) * (4 * rows - 1)) if most > least else 2 * rows

    filled: dict[int, tuple[int, int]] = {}
    for x, bottom, top in points:
        share = min(1.0, max(0.0, _share(x, left, right))) if right > left else 0.0
        across = round(share * (2 * columns - 1))
        begin, end = filled.get(across, (4 * rows, 0))
        filled[across] = min(begin, up(bottom)), max(end, up(top))
    for across, (begin, end) in filled.items():
        for level in range(begin, end + 1):
            down = 4 * rows - 1 - level
            cells[down // 4][across // 2] |= _DOTS[down % 4][across % 2]
    lines = [title]
    for number, row in enumerate(cells):
        label = labels[0] if number == 0 else labels[1] if number == rows - 1 else ""
        lines.append(f"{label:>{margin}} ┤" + "".join(chr(0x2800 + dots) for dots in row).rstrip())
    foot, last = ends
    room = columns - len(foot)
    if room > len(last):
        lines.append(f"{'':>{margin}}  {foot}{last:>{room}}")
    else:
        # A date and a zone are wider than a narrow terminal.
        lines += [f"{'':>{margin}}  {foot}", f"{'':>{margin}}  to {last}"]
    return "\n".join(lines)


def _share(value: float, low: float, high: float) -> float:
    """Where ``value`` lies between ``low`` and ``high``, from 0 to 1."""
    # The span of two finite floats may be infinite.
    span = high - low
    if math.isinf(span):
        return (value / 2 - low / 2) / (high / 2 - low / 2)
    return (value - low) / span
