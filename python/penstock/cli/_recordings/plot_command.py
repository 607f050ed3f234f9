"""``penstock plot``: recorded curves as PNG or SVG, or in the terminal."""

from __future__ import annotations

import argparse
import math
import os
import shutil
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from penstock._durable_files import put_file, write_fully
from penstock.cli._errors import CommandError, ExitCode, explain_os_error
from penstock.cli._recordings.reading import field_names, name_of, read_parts, units_by_device
from penstock.cli._recordings.terminal_plot import dot_plot
from penstock.record.arrow import pyarrow_module
from penstock.record.shown_quantity import choose_quantity
from penstock.record.stored_parts import StoredPart

__all__ = ["run_plot"]

_MOST_POINTS = 20_000


@dataclass(slots=True)
class _Curve:
    label: str
    unit: str
    at: list[float] = field(default_factory=list)
    values: list[float] = field(default_factory=list)


def run_plot(options: argparse.Namespace) -> int:
    """Plot a field of the recordings ``options.files``."""
    curves = [curve for file in options.files for curve in _curves(file, options)]
    if not curves:
        raise CommandError(
            "there is no sample to plot; check --field and --device", ExitCode.OUTPUT
        )
    if options.out is None:
        size = shutil.get_terminal_size()
        for curve in curves:
            title = f"{curve.label} ({curve.unit})" if curve.unit else curve.label
            print(dot_plot(curve.at, curve.values, width=size.columns, height=10, title=title))
        return ExitCode.OK
    out = Path(options.out)
    if out.suffix not in (".png", ".svg"):
        raise CommandError(
            f"{out} is not a picture that can be drawn; its suffix must be .png or .svg",
            ExitCode.USAGE,
        )
    if os.path.lexists(out) and not options.overwrite:
        raise CommandError(
            f"{out} already exists; add --overwrite to replace it or choose another name",
            ExitCode.OUTPUT,
        )
    picture = _draw(curves, out.suffix[1:])
    try:
        os.close(put_file(out, partial(write_fully, data=picture), overwrite=True))
    except OSError as error:
        raise explain_os_error(error, out, kind="file") from error
    print(f"wrote {out}")
    return ExitCode.OK


def _curves(target: str, options: argparse.Namespace) -> list[_Curve]:
    # A device whose unit changes gets another curve.
    curves: dict[tuple[str, str], _Curve] = {}
    start: float | None = None
    for part in read_parts(target, options.table, needs=("device", "t_utc")):
        name = _field_of(part, options.field)
        if name is None:
            continue
        compute = pyarrow_module("pyarrow.compute")
        table = part.table
        if "event" in table.column_names:
            table = table.filter(compute.is_null(table["event"]))
        units = units_by_device(part, name)
        moments = table["t_utc"].cast("int64").to_pylist()
        if start is None and moments:
            start = moments[0]
        for device, moment, value in zip(
            table["device"].to_pylist(), moments, table[name].to_pylist(), strict=True
        ):
            if options.device and device not in options.device:
                continue
            unit = units.get(device, "")
            curve = curves.get((device, unit))
            if curve is None:
                label = f"{device} {name}"
                if len(options.files) > 1:
                    label = f"{name_of(target, options.table)}: {label}"
                curve = curves[device, unit] = _Curve(label, unit)
            curve.at.append((moment - (start or 0)) / 1e9)
            curve.values.append(math.nan if value is None else float(value))
    for curve in curves.values():
        step = len(curve.at) // _MOST_POINTS + 1
        curve.at, curve.values = curve.at[::step], curve.values[::step]
    return list(curves.values())


def _field_of(part: StoredPart, wanted: str | None) -> str | None:
    known = field_names(part)
    if wanted is None:
        quantity = choose_quantity(dict.fromkeys(known))
        return quantity.name if quantity is not None else None
    if wanted not in known:
        raise CommandError(
            f"{part.path} has no number column {wanted}; it has {', '.join(known) or 'none'}",
            ExitCode.USAGE,
        )
    return wanted


def _draw(curves: list[_Curve], kind: str) -> bytes:
    if find_spec("matplotlib") is None:
        raise CommandError(
            "a picture needs matplotlib; run pip install 'penstock[cli]', or leave --out away to "
            "plot in the terminal",
            ExitCode.MISSING_PART,
        )
    from matplotlib.figure import Figure

    from penstock.cli._recording.plot import picture_of

    figure = Figure(figsize=(9.0, 4.5), layout="constrained")
    axes = figure.subplots()
    units = {curve.unit for curve in curves}
    labels = [
        f"{curve.label} ({curve.unit})" if len(units) > 1 and curve.unit else curve.label
        for curve in curves
    ]
    lines = [axes.plot(curve.at, curve.values, lw=1.2)[0] for curve in curves]
    axes.set_xlabel("time since start (s)")
    axes.set_ylabel(", ".join(sorted(unit for unit in units if unit)) or "value", parse_math=False)
    axes.grid(color="#d9d9d9", lw=0.6)
    # Of the lines' own labels, a legend leaves out those that begin with an underscore.
    for text in axes.legend(lines, labels, frameon=False).get_texts():
        text.set_parse_math(False)
    return picture_of(figure, kind)
