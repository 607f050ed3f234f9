"""The dashboard of a recording in Grafana's JSON model: panels, data sources, units."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from penstock.record.schema import beside

__all__ = ["SOURCES", "UID", "DataSource", "ShownField", "dashboard", "grafana_unit"]

UID = "penstock-data"
"""Of the data source: fixed, because a provisioned dashboard gets no ``${DS_...}`` filled in."""

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
        "templating": {"list": []},
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


# The data sources: how Grafana reaches each, and how a panel asks it.


@dataclass(frozen=True, slots=True)
class DataSource:
    """A kind of data source.

    Attributes:
        kind: Grafana's name of its plugin.
        settings: what its provisioning file says beside name, uid and type.
        secrets: settings that come from the environment of Grafana.
        curve: the query of a field over time, a series a device.
        last: the query of the last value of a field, for each device; for InfluxDB and Prometheus
            that of the curve.
        events: the query of events, as an annotation; None where there are none.
        note: lines of its provisioning file that tell of other versions.
    """

    kind: str
    settings: Mapping[str, Any]
    secrets: Mapping[str, str]
    curve: Callable[[str], dict[str, Any]]
    events: Mapping[str, Any] | None
    note: tuple[str, ...] = ()


def _influx_name(name: str) -> str:
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _influx_curve(field: str) -> dict[str, Any]:
    name = _influx_name(beside(field, ("", "time")))  # as InfluxSink writes it
    return {
        "rawQuery": True,
        "query": f'SELECT mean({name}) FROM "samples" WHERE $timeFilter '
        'GROUP BY time($__interval), "device" fill(none)',
        "resultFormat": "time_series",
        "alias": "$tag_device",
    }


def _sql_name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _sql_curve(field: str) -> dict[str, Any]:
    return {
        "rawQuery": True,
        "editorMode": "code",
        "format": "time_series",
        "rawSql": f"SELECT $__timeGroupAlias(t_utc, $__interval), device AS metric, "
        f"avg({_sql_name(field)}) AS value FROM samples WHERE $__timeFilter(t_utc) "
        f"AND {_sql_name(field)} IS NOT NULL GROUP BY 1, 2 ORDER BY 1",
    }


def _prometheus_curve(field: str) -> dict[str, Any]:
    return {
        "editorMode": "code",
        "expr": f"penstock_field_value{{field={json.dumps(field, ensure_ascii=False)}}}",
        "legendFormat": "{{device}}",
        "range": True,
    }


SOURCES: Mapping[str, DataSource] = MappingProxyType(
    {
        "influx": DataSource(
            "influxdb",
            {
                "url": "http://influxdb:8086",
                "user": "grafana",
                "jsonData": {"dbName": "lab", "httpMode": "POST"},
            },
            {"password": "$INFLUX_PASSWORD"},
            _influx_curve,
            {
                "target": {
                    "refId": "Events",
                    "rawQuery": True,
                    "query": 'SELECT "message", "event" FROM "events" WHERE $timeFilter',
                },
                "query": 'SELECT "message", "event" FROM "events" WHERE $timeFilter',
                "textColumn": "message",
                "tagsColumn": "event",
            },
            (
                "InfluxDB 2 and 3 know tokens instead of users. They answer InfluxQL for a",
                "database of version 3, and for a bucket of version 2 that has a DBRP mapping.",
                "Instead of user, jsonData and secureJsonData write then:",
                '    jsonData: {dbName: lab, httpMode: POST, httpHeaderName1: "Authorization"}',
                '    secureJsonData: {httpHeaderValue1: "Token $INFLUX_TOKEN"}',
            ),
        ),
        "postgres": DataSource(
            "grafana-postgresql-datasource",
            {
                "url": "postgres:5432",
                "user": "grafana",
                "jsonData": {"database": "lab", "sslmode": "require", "postgresVersion": 1500},
            },
            {"password": "$POSTGRES_PASSWORD"},
            _sql_curve,
            {
                "target": {
                    "refId": "Events",
                    "rawQuery": True,
                    "editorMode": "code",
                    "format": "table",
                    "rawSql": "SELECT t_utc AS time, message AS text, event AS tags FROM samples "
                    "WHERE event IS NOT NULL AND $__timeFilter(t_utc) ORDER BY 1",
                }
            },
        ),
        "prometheus": DataSource(
            "prometheus",
            {"url": "http://prometheus:9090", "jsonData": {"httpMode": "POST"}},
            {},
            _prometheus_curve,
            None,
        ),
    }
)
