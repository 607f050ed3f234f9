"""The data sources: how Grafana reaches each, and how a panel asks it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

__all__ = ["SOURCES", "DataSource"]


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
    """

    kind: str
    settings: Mapping[str, Any]
    secrets: Mapping[str, str]
    curve: Callable[[str], dict[str, Any]]
    events: Mapping[str, Any] | None


def _influx_name(name: str) -> str:
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _influx_curve(field: str) -> dict[str, Any]:
    name = _influx_name("field_time" if field == "time" else field)
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
            {"url": "http://influxdb:8086", "jsonData": {"dbName": "lab", "httpMode": "POST"}},
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
