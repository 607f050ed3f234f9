"""``penstock plot``: recorded curves as PNG or SVG, or in the terminal.

The rows are never in the memory together: each piece that is read goes into envelopes, which have
some bins for each column of pixels.
"""

from __future__ import annotations

import argparse
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from penstock._durable_files import put_file, write_fully
from penstock.cli._errors import CommandError, ExitCode, explain_os_error
from penstock.cli._stored.reading import name_of, read_parts

if TYPE_CHECKING:
    from penstock.cli._stored.picture import TimeAxis
    from penstock.record.envelopes.curves import RecordedCurve

_BINS_A_PIXEL = 4
"""At most, at least half as many: a line through them marks every pixel that a sample marks."""
_TERMINAL_BINS = 4096
_TERMINAL_HEIGHT = 10
_PICTURES = (".png", ".svg")


@dataclass(frozen=True, slots=True)
class _Plotted:
    """The curves of one recording and its first moment."""

    name: str
    curves: list[RecordedCurve]
    start: int
    end: int


def run_plot(options: argparse.Namespace) -> int:
    """Plot fields of the recordings ``options.files``."""
    out = Path(options.out) if options.out is not None else None
    if out is not None:
        _check_picture(out, options)
    if find_spec("numpy") is None:
        raise CommandError(
            "a plot needs numpy; run pip install 'penstock[cli]'", ExitCode.MISSING_PART
        )
    from penstock.cli._stored.picture import TimeAxis

    bins = _TERMINAL_BINS if out is None else _BINS_A_PIXEL * options.width
    plotted = [found for file in options.files if (found := _curves(file, bins, options))]
    if not plotted:
        times = (options.begin, options.end)
        chosen = options.field or options.device or times != (None, None)
        advice = (
            "check --field, --device, --from and --to"
            if chosen
            else "penstock verify says which rows can be read"
        )
        raise CommandError(f"there is no sample to plot; {advice}", ExitCode.OUTPUT)
    if options.time == "elapsed":
        start, end = plotted[0].start, plotted[0].start + max(p.end - p.start for p in plotted)
    else:
        start, end = min(p.start for p in plotted), max(p.end for p in plotted)
    axis = TimeAxis(options.time, start, end, len(plotted))
    if out is None:
        _print(plotted, axis)
    else:
        _write(out, plotted, axis, (options.width, options.height))
    return ExitCode.OK


def _check_picture(out: Path, options: argparse.Namespace) -> None:
    if out.suffix not in _PICTURES:
        raise CommandError(
            f"{out} is not a picture that can be drawn; its suffix must be .png or .svg",
            ExitCode.USAGE,
        )
    if os.path.lexists(out) and not options.overwrite:
        raise CommandError(
            f"{out} already exists; add --overwrite to replace it or choose another name",
            ExitCode.OUTPUT,
        )
    if find_spec("matplotlib") is None:
        raise CommandError(
            "a picture needs matplotlib; run pip install 'penstock[cli]', or leave out --out to "
            "plot in the terminal",
            ExitCode.MISSING_PART,
        )


def _curves(target: str, bins: int, options: argparse.Namespace) -> _Plotted | None:
    from penstock.record.envelopes.curves import Curves

    curves = Curves(
        bins,
        fields=options.field,
        devices=options.device,
        times="steady" if options.time == "elapsed" else "wall",
        begin=options.begin,
        end=options.end,
    )
    for part in read_parts(
        target, options.table, needs=("device", "t_utc"), pieces=True, columns=curves.columns
    ):
        curves.add(part)
    for name in options.field:
        if name not in curves.found_fields:
            raise CommandError(
                f"{name_of(target, options.table)} has no column {name}; its numbers are "
                f"{', '.join(curves.known_fields) or 'none'}",
                ExitCode.USAGE,
            )
    span = curves.span
    if span is None:
        return None
    return _Plotted(name_of(target, options.table), curves.all, *span)


def _labels(plotted: Sequence[_Plotted]) -> list[list[str]]:
    """For each recording and curve what tells it from the others."""
    curves = [curve for recording in plotted for curve in recording.curves]
    units = {curve.unit for curve in curves}
    return [
        [
            (f"{recording.name}: " if len(plotted) > 1 else "")
            + f"{curve.device} {curve.field}"
            + (f" ({curve.unit})" if len(units) > 1 and curve.unit else "")
            for curve in recording.curves
        ]
        for recording in plotted
    ]


def _print(plotted: Sequence[_Plotted], axis: TimeAxis) -> None:
    from penstock.cli._recording.plot import dot_plot

    size = shutil.get_terminal_size()
    for recording, labels in zip(plotted, _labels(plotted), strict=True):
        for curve, label in zip(recording.curves, labels, strict=True):
            bins = curve.envelope.bins
            unit = f" ({curve.unit})" if curve.unit and not label.endswith(")") else ""
            print(
                dot_plot(
                    axis.places(bins.middle, recording.start).tolist(),
                    bins.low.tolist(),
                    bins.high.tolist(),
                    width=size.columns,
                    height=_TERMINAL_HEIGHT,
                    title=f"{label}{unit}",
                    between=axis.limits,
                    ends=axis.ends(),
                )
            )


def _write(out: Path, plotted: Sequence[_Plotted], axis: TimeAxis, size: tuple[int, int]) -> None:
    from penstock.cli._stored.picture import PlottedCurve, draw_curves
    from penstock.record.envelopes.curves import line_of

    curves = [
        PlottedCurve(label, curve.unit, line_of(curve.envelope.bins, curve.gap_ns), recording.start)
        for recording, labels in zip(plotted, _labels(plotted), strict=True)
        for curve, label in zip(recording.curves, labels, strict=True)
    ]
    picture = draw_curves(curves, axis, out.suffix[1:], size)
    try:
        os.close(put_file(out, partial(write_fully, data=picture), overwrite=True))
    except OSError as error:
        raise explain_os_error(error, out, kind="file") from error
    print(f"wrote {out}")
