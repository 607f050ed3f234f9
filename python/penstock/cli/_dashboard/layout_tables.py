"""The ``[[dash.chart]]`` tables of a ``run.toml``: charts that the page shows to everybody."""

from __future__ import annotations

from collections.abc import Collection

from penstock.cli._dashboard.plan import ChartLayout
from penstock.cli._toml_table import Table

__all__ = ["chart_layouts"]

_SIDES = ("left", "right")


def chart_layouts(top: Table, devices: Collection[str]) -> tuple[ChartLayout, ...]:
    """The charts of the ``dash`` table of ``top``.

    Args:
        top: the file.
        devices: the names of its devices.

    Raises:
        CommandError: a table is malformed, or names another device.
    """
    dash = top.table("dash")
    dash.refuse_unknown(("chart",))
    return tuple(_chart(table, devices) for table in dash.tables("chart"))


def _chart(table: Table, devices: Collection[str]) -> ChartLayout:
    table.label = table.label.replace("[[chart]]", "[[dash.chart]]")
    table.refuse_unknown(("title", *_SIDES, "log"))
    curves = {side: _curves(table, side, devices) for side in _SIDES if side in table.entries}
    if not curves:
        table.text("left", 'curves such as ["argon.Mass_Flow"], as a list, or right')
    return ChartLayout(
        table.text("title", "the title of the chart") if "title" in table.entries else "",
        curves.get("left", ()),
        curves.get("right", ()),
        table.choices("log", _SIDES, ()) if "log" in table.entries else (),
    )


def _curves(table: Table, side: str, devices: Collection[str]) -> tuple[tuple[str, str], ...]:
    found = []
    for text in table.words(side, 'curves such as ["argon.Mass_Flow"]'):
        # The name of a device may have dots, that of a field has none.
        device, _, field = text.rpartition(".")
        if device not in devices or not field:
            table.refuse(
                side,
                f'has "{text}", which is no device and field',
                f"write DEVICE.FIELD; the devices are {', '.join(devices)}",
            )
        found.append((device, field))
    return tuple(found)
