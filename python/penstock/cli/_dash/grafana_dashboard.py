"""The dashboard of a recording in Grafana's JSON model: panels, limits, units."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from penstock.cli._dash.grafana_sources import UID, DataSource

_COLUMNS = 24
_CURVE = (12, 8)


@dataclass(frozen=True, slots=True)
class ShownField:
    """A field that gets a panel.

    Attributes:
        name: its column.
        unit: the unit of all devices; None where it is unknown or they differ.
        units: by device, where they differ.
        low, high: limits of a device, the narrowest of several.
    """

    name: str
    unit: str | None = None
    units: tuple[tuple[str, str], ...] = ()
    low: float | None = None
    high: float | None = None


def dashboard(title: str, fields: Sequence[ShownField], source: DataSource) -> dict[str, Any]:
    """A dashboard with a panel a field, and the events as annotations.

    Of the schema version 39 (Grafana 10 and 11), which later ones bring to their own.
    """
    where = {"type": source.kind, "uid": UID}
    panels = []
    for number, field in enumerate(fields):
        width, height = _CURVE
        a_row = _COLUMNS // width
        place = {
            "h": height,
            "w": width,
            "x": number % a_row * width,
            "y": number // a_row * height,
        }
        panels.append(_curve(number + 1, field, source, where, place))
    annotations = []
    if source.events is not None:
        annotations.append(
            {
                "name": "Events",
                "enable": True,
                "iconColor": "orange",
                "datasource": where,
                **source.events,
            }
        )
    return {
        "id": None,
        "uid": f"penstock-{hashlib.sha256(title.encode()).hexdigest()[:12]}",
        "title": title,
        "tags": ["penstock"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "timezone": "browser",
        "time": {"from": "now-15m", "to": "now"},
        "refresh": "5s",
        "panels": panels,
        "templating": {
            "list": [{**variable, "datasource": where} for variable in source.variables]
        },
        "annotations": {"list": annotations},
    }


def _curve(
    number: int,
    field: ShownField,
    source: DataSource,
    where: Mapping[str, str],
    place: Mapping[str, int],
) -> dict[str, Any]:
    return {
        "id": number,
        "type": "timeseries",
        "title": field.name.replace("_", " "),
        "gridPos": dict(place),
        "datasource": where,
        **({} if source.shortest_interval is None else {"interval": source.shortest_interval}),
        "targets": [{"refId": "A", "datasource": where, **source.curve(field.name)}],
        "fieldConfig": {
            "defaults": {
                "unit": grafana_unit(field.unit),
                "thresholds": {"mode": "absolute", "steps": _steps(field)},
                "custom": {
                    "drawStyle": "line",
                    "lineWidth": 1,
                    "showPoints": "auto",
                    "spanNulls": False,
                    "thresholdsStyle": {
                        "mode": "off" if field.low is field.high is None else "line+area"
                    },
                },
            },
            "overrides": [
                {
                    "matcher": {"id": "byName", "options": device},
                    "properties": [{"id": "unit", "value": grafana_unit(unit)}],
                }
                for device, unit in field.units
            ],
        },
        "options": {
            "legend": {"displayMode": "table", "placement": "bottom", "calcs": ["lastNotNull"]},
            "tooltip": {"mode": "multi", "sort": "none"},
        },
    }


def _steps(field: ShownField) -> list[dict[str, Any]]:
    """Red below the low limit and from the high one on; the first step begins everywhere."""
    steps: list[dict[str, Any]] = [
        {"color": "green" if field.low is None else "red", "value": None}
    ]
    if field.low is not None:
        steps.append({"color": "green", "value": field.low})
    if field.high is not None:
        steps.append({"color": "red", "value": field.high})
    return steps


# Units of instruments as Grafana knows them.

_UNITS: Mapping[str, str] = MappingProxyType(
    {
        "%": "percent",
        "°C": "celsius",
        "`C": "celsius",
        "C": "celsius",
        "°F": "fahrenheit",
        "`F": "fahrenheit",
        "F": "fahrenheit",
        "K": "kelvin",
        "`K": "kelvin",
        "V": "volt",
        "mV": "mvolt",
        "A": "amp",
        "mA": "mamp",
        "s": "s",
        "ms": "ms",
    }
)


def grafana_unit(unit: str | None) -> str:
    """The unit's id; a suffix for one that Grafana has not, or would scale.

    Pressures are suffixes on purpose: Grafana's own ``pressurepsi`` shows 1500 as 1.5 ksi.
    """
    if unit is None:
        return "none"
    return _UNITS.get(unit, f"suffix: {unit}")
