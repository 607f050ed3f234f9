"""Where a dashboard of Grafana gets its data: how Grafana reaches each database, and asks it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any

from penstock.record.schema import beside

UID = "penstock-data"
"""Of the data source: fixed, because a provisioned dashboard gets no ``${DS_...}`` filled in."""

THIS_MACHINE = "host.docker.internal"
"""The machine of a container, as ``compose.yaml`` names it inside."""


@dataclass(frozen=True, slots=True)
class DataSource:
    """A kind of data source, for one recording.

    Attributes:
        kind: Grafana's name of its plugin.
        settings: what its provisioning file says beside name, uid and type.
        secrets: settings that come from the environment of Grafana.
        curve: the query of a field over time, a series a device.
        events: the query of events, as an annotation; None where there are none.
        variables: what is chosen above the panels, without its data source.
        shortest_interval: between two points of a curve; None where Grafana may choose any.
        note: lines of its provisioning file that tell of other versions.
    """

    kind: str
    settings: Mapping[str, Any]
    secrets: Mapping[str, str]
    curve: Callable[[str], dict[str, Any]]
    events: Mapping[str, Any] | None
    variables: Sequence[Mapping[str, Any]] = ()
    shortest_interval: str | None = None
    note: tuple[str, ...] = ()


# InfluxDB in three languages: InfluxQL for version 1, Flux for 2, SQL for 3.


def _stored_name(field: str) -> str:
    """A column's name as InfluxSink writes it."""
    return beside(field, ("", "time"))


def _events_of(measurement: str) -> str:
    """The measurement of events, where InfluxSink was not told another one."""
    return "events" if measurement == "samples" else f"{measurement}_events"


def _influxql_name(name: str) -> str:
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _influxql_curve(measurement: str, field: str) -> dict[str, Any]:
    return {
        "rawQuery": True,
        "query": f"SELECT mean({_influxql_name(_stored_name(field))}) "
        f"FROM {_influxql_name(measurement)} WHERE $timeFilter "
        'GROUP BY time($__interval), "device" fill(none)',
        "resultFormat": "time_series",
        "alias": "$tag_device",
    }


def _influx(measurement: str) -> DataSource:
    events = (
        f'SELECT "message", "event" FROM {_influxql_name(_events_of(measurement))} '
        "WHERE $timeFilter"
    )
    return DataSource(
        "influxdb",
        {
            "url": f"http://{THIS_MACHINE}:8086",
            "user": "grafana",
            "jsonData": {"dbName": "lab", "httpMode": "POST"},
        },
        {"password": "$INFLUX_PASSWORD"},
        partial(_influxql_curve, measurement),
        {
            "target": {"refId": "Events", "rawQuery": True, "query": events},
            "query": events,
            "textColumn": "message",
            "tagsColumn": "event",
        },
        note=(
            "InfluxDB 2 and 3 know tokens instead of users: --source influx2 and influx3 ask them",
            "in their own languages. They also answer InfluxQL: for a database of version 3, and",
            "for a bucket of version 2 that has a DBRP mapping. Instead of user, jsonData and",
            "secureJsonData write then:",
            '    jsonData: {dbName: lab, httpMode: POST, httpHeaderName1: "Authorization"}',
            '    secureJsonData: {httpHeaderValue1: "Token $INFLUX_TOKEN"}',
        ),
    )


def _flux_text(text: str) -> str:
    """A text as a literal of Flux, where ``${`` would begin an expression."""
    return json.dumps(text, ensure_ascii=False).replace("${", "\\${")


def _flux(measurement: str, fields: Sequence[str], *steps: str) -> str:
    """A query for fields of a measurement within the range of the dashboard, and steps."""
    wanted = " or ".join(f"r._field == {_flux_text(field)}" for field in fields)
    return "\n  |> ".join(
        (
            "from(bucket: v.defaultBucket)",
            "range(start: v.timeRangeStart, stop: v.timeRangeStop)",
            f"filter(fn: (r) => r._measurement == {_flux_text(measurement)} and ({wanted}))",
            *steps,
        )
    )


def _flux_curve(measurement: str, field: str) -> dict[str, Any]:
    return {
        "query": _flux(
            measurement,
            [_stored_name(field)],
            "aggregateWindow(every: v.windowPeriod, fn: mean, createEmpty: false)",
            # Grafana calls a series after its only label, where it has no other name.
            'keep(columns: ["_time", "_value", "device"])',
        )
    }


def _influx2(measurement: str) -> DataSource:
    events = _flux(
        _events_of(measurement),
        ["event", "message"],
        'pivot(rowKey: ["_time"], columnKey: ["_field"], valueColumn: "_value")',
        "group()",
        'keep(columns: ["_time", "event", "message"])',
        # By a function: where no event has a message, there is no such column to name.
        'rename(fn: (column) => if column == "message" then "text" '
        'else if column == "event" then "tags" else column)',
        'sort(columns: ["_time"])',
    )
    return DataSource(
        "influxdb",
        {
            "url": f"http://{THIS_MACHINE}:8086",
            "jsonData": {"version": "Flux", "organization": "lab", "defaultBucket": "lab"},
        },
        {"token": "$INFLUX_TOKEN"},
        partial(_flux_curve, measurement),
        {"target": {"refId": "Events", "query": events}},
    )


def _sql_name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _sql(form: str, text: str) -> dict[str, Any]:
    return {"rawQuery": True, "editorMode": "code", "format": form, "rawSql": text}


def _influx_sql_curve(measurement: str, field: str) -> dict[str, Any]:
    name = _sql_name(_stored_name(field))
    return _sql(
        "time_series",
        # Grafana shows the device alone beside a column that is called Value.
        f'SELECT $__dateBin(time) AS time, device, avg({name}) AS "Value" '
        f"FROM {_sql_name(measurement)} WHERE time >= $__timeFrom AND time <= $__timeTo "
        f"AND {name} IS NOT NULL GROUP BY 1, 2 ORDER BY 1",
    )


def _influx3(measurement: str) -> DataSource:
    events = (
        f"SELECT time, message AS text, event AS tags FROM {_sql_name(_events_of(measurement))} "
        "WHERE time >= $__timeFrom AND time <= $__timeTo ORDER BY 1"
    )
    settings = {"version": "SQL", "dbName": "lab", "httpMode": "POST", "insecureGrpc": True}
    return DataSource(
        "influxdb",
        {"url": f"http://{THIS_MACHINE}:8181", "jsonData": settings},
        {"token": "$INFLUX_TOKEN"},
        partial(_influx_sql_curve, measurement),
        {"target": {"refId": "Events", **_sql("table", events)}},
        # Grafana writes it into the SQL as whole seconds, and none of them is an error.
        shortest_interval="1s",
        note=("insecureGrpc is for http://; leave it out for https://.",),
    )


# PostgreSQL, with TimescaleDB or without. A run has a table of its own, because it has metadata of
# its own. The newest one is shown, and any other one can be chosen.

_TABLE = "${recording:raw}"


def _sql_text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _postgres_curve(field: str) -> dict[str, Any]:
    name = _sql_name(field)
    return _sql(
        "time_series",
        f"SELECT $__timeGroupAlias(t_utc, $__interval), device AS metric, avg({name}) AS value "
        f"FROM {_TABLE} WHERE $__timeFilter(t_utc) AND {name} IS NOT NULL "
        "GROUP BY 1, 2 ORDER BY 1",
    )


def _tables_of(table: str) -> str:
    """The query of a recording's tables, the newest first: the name of each, and it in SQL."""
    namespace, _, base = table.rpartition(".")
    within = f"{_sql_name(namespace)}." if namespace else ""
    return (
        f"SELECT name AS __text, {_sql_text(within)} || quote_ident(name) AS __value "
        f"FROM {within}penstock_parts WHERE name = {_sql_text(base)} "
        f"OR (starts_with(name, {_sql_text(base + '_')}) "
        f"AND substr(name, {len(base) + 2}) ~ '^[0-9]+$') ORDER BY part DESC"
    )


def _postgres(table: str) -> DataSource:
    events = (
        f"SELECT t_utc AS time, message AS text, event AS tags FROM {_TABLE} "
        "WHERE event IS NOT NULL AND $__timeFilter(t_utc) ORDER BY 1"
    )
    return DataSource(
        "grafana-postgresql-datasource",
        {
            "url": f"{THIS_MACHINE}:5432",
            "user": "grafana",
            "jsonData": {"database": "lab", "sslmode": "require", "postgresVersion": 1500},
        },
        {"password": "$POSTGRES_PASSWORD"},
        _postgres_curve,
        {"target": {"refId": "Events", **_sql("table", events)}},
        variables=(
            {
                "name": "recording",
                "label": "Recording",
                "type": "query",
                "query": _tables_of(table),
                "definition": _tables_of(table),
                "refresh": 1,  # when the dashboard is opened
                "sort": 0,
                "multi": False,
                "includeAll": False,
                "options": [],
                "current": {},
            },
        ),
    )


# Prometheus.


def _prometheus_curve(field: str) -> dict[str, Any]:
    return {
        "editorMode": "code",
        "expr": f"penstock_field_value{{field={json.dumps(field, ensure_ascii=False)}}}",
        "legendFormat": "{{device}}",
        "range": True,
    }


_PROMETHEUS = DataSource(
    "prometheus",
    {"url": f"http://{THIS_MACHINE}:9090", "jsonData": {"httpMode": "POST"}},
    {},
    _prometheus_curve,
    None,
)

SOURCES: Mapping[str, Callable[[str], DataSource]] = MappingProxyType(
    {
        "influx": _influx,
        "influx2": _influx2,
        "influx3": _influx3,
        "postgres": _postgres,
        "prometheus": lambda _: _PROMETHEUS,
    }
)
"""By the name for ``--source``, what makes each, for a table or a measurement of samples."""
