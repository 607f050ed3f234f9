"""``penstock grafana``: what it writes hangs together, and its queries are answered.

There is no Grafana here. So this side does what Grafana does with a query before a server gets it:
it writes times and intervals in place of the macros.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import anyio
import pytest

from penstock.cli import main
from penstock.cli._dash.grafana_dashboard import grafana_unit
from penstock.cli._dash.grafana_sources import SOURCES
from penstock.record import (
    ColumnBuffer,
    Field,
    InfluxSink,
    ParquetSink,
    PostgresSink,
    RecordSchema,
    SampleBatch,
    Sink,
)
from tests.python.integration.daemons import PATIENT
from tests.python.integration.influx import InfluxServer, flux_server, influx_server
from tests.python.integration.postgres import PostgresServer, postgres_server
from tests.python.record.batches import NOON_NS, flow_batch

SCHEMA = RecordSchema(
    (
        Field("Mass_Flow", "float", "SCCM"),
        Field("Gas", "text"),
        Field("Temp", "float", None, (("fuel", "°C"), ("air", "°F"))),
    )
)
RUN = """
[[device]]
name = "fuel"
port = "p"
[[device.limit]]
field = "Mass_Flow"
low = 2
high = 30
"""


def written(sink: Sink, *batches: SampleBatch) -> None:
    async def write() -> None:
        await sink.open()
        for batch in batches:
            await sink.write_batch(batch)
        await sink.close()

    anyio.run(write)


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    path = tmp_path / "run.parquet"
    written(ParquetSink(path, seals=False), flow_batch(3, schema=SCHEMA).fitted(SCHEMA))
    return path


def dashboard_of(recording: Path, source: str, *options: str) -> tuple[Path, dict[str, Any]]:
    out = recording.parent / source
    assert main(["grafana", str(recording), str(out), "--source", source, *options]) == 0
    found: dict[str, Any] = json.loads((out / "dashboards/penstock.json").read_text())
    return out, found


@pytest.mark.parametrize("source", SOURCES)
def test_the_files_hang_together(recording: Path, source: str) -> None:
    yaml = pytest.importorskip("yaml")
    out, board = dashboard_of(recording, source)
    sources = yaml.safe_load((out / "provisioning/datasources/penstock.yaml").read_text())
    [data] = sources["datasources"]
    providers = yaml.safe_load((out / "provisioning/dashboards/penstock.yaml").read_text())
    compose = yaml.safe_load((out / "compose.yaml").read_text())
    service = compose["services"]["grafana"]
    folder = providers["providers"][0]["options"]["path"]
    assert f"./dashboards:{folder}:ro" in service["volumes"]
    for secret in data.get("secureJsonData", {}).values():
        assert re.fullmatch(r"\$[A-Z_]+", secret)  # from the environment, never the file
        assert secret[1:] in service["environment"]
    assert "${DS_" not in json.dumps(board)
    where = {"type": data["type"], "uid": data["uid"]}
    assert board["id"] is None
    assert len(board["uid"]) <= 40
    assert [panel["title"] for panel in board["panels"]] == ["Mass Flow", "Temp"]
    for panel in board["panels"]:
        assert panel["datasource"] == where
        assert panel["targets"][0]["datasource"] == where
        assert panel["fieldConfig"]["defaults"]["thresholds"]["steps"][0]["value"] is None
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
    assert len({panel["id"] for panel in board["panels"]}) == 2
    for one, other in combinations([panel["gridPos"] for panel in board["panels"]], 2):
        apart = one["x"] + one["w"] <= other["x"] or one["y"] + one["h"] <= other["y"]
        assert apart
    for event in board["annotations"]["list"]:
        assert {"name", "enable", "iconColor", "datasource"} <= event.keys()
    for variable in board["templating"]["list"]:
        assert variable["datasource"] == where
    chosen = {variable["name"] for variable in board["templating"]["list"]}
    assert set(re.findall(r"\$\{(\w+)", json.dumps(board["panels"]))) <= chosen
    # Another machine is another address; without one in the file, Grafana asks itself.
    assert "host.docker.internal" in data["url"]
    assert service["extra_hosts"] == ["host.docker.internal:host-gateway"]


# The keys of Grafana's JSON model, version 39, by the place of an object. What it does not know it
# drops without a word.
DASHBOARD = {
    "": "id uid title tags schemaVersion version editable graphTooltip timezone time refresh "
    "panels templating annotations",
    "time": "from to",
    "panels": "id type title gridPos datasource interval targets fieldConfig options",
    "panels.gridPos": "h w x y",
    "panels.datasource": "type uid",
    "panels.fieldConfig": "defaults overrides",
    "panels.fieldConfig.defaults": "unit thresholds custom",
    "panels.fieldConfig.defaults.thresholds": "mode steps",
    "panels.fieldConfig.defaults.thresholds.steps": "color value",
    "panels.fieldConfig.defaults.custom": "drawStyle lineWidth showPoints spanNulls "
    "thresholdsStyle",
    "panels.fieldConfig.defaults.custom.thresholdsStyle": "mode",
    "panels.fieldConfig.overrides": "matcher properties",
    "panels.fieldConfig.overrides.matcher": "id options",
    "panels.fieldConfig.overrides.properties": "id value",
    "panels.options": "legend tooltip",
    "panels.options.legend": "displayMode placement calcs",
    "panels.options.tooltip": "mode sort",
    "templating": "list",
    "templating.list": "name label type query definition datasource refresh sort multi includeAll "
    "options current",
    "templating.list.datasource": "type uid",
    "templating.list.current": "",
    "annotations": "list",
    "annotations.list": "name enable iconColor datasource target query textColumn tagsColumn",
    "annotations.list.datasource": "type uid",
}
# Of a query, by the data source's plugin, and by its language.
TARGETS = {
    "influx": "refId datasource rawQuery query resultFormat alias",
    "influx2": "refId datasource query",
    "influx3": "refId datasource rawQuery editorMode format rawSql",
    "postgres": "refId datasource rawQuery editorMode format rawSql",
    "prometheus": "refId datasource editorMode expr legendFormat range",
}


def objects_of(value: Any, place: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every object below a value, with its place; those of a list are at the list's."""
    if isinstance(value, dict):
        yield place, value
        for key, each in value.items():
            yield from objects_of(each, f"{place}.{key}".lstrip("."))
    elif isinstance(value, list):
        for each in value:
            yield from objects_of(each, place)


@pytest.mark.parametrize("source", SOURCES)
def test_every_key_is_one_of_grafanas_model(recording: Path, tmp_path: Path, source: str) -> None:
    (tmp_path / "run.toml").write_text(RUN)
    _, board = dashboard_of(recording, source, "--limits", str(tmp_path / "run.toml"))
    known = DASHBOARD | {
        "panels.targets": TARGETS[source],
        "panels.targets.datasource": "type uid",
        "annotations.list.target": TARGETS[source],
    }
    seen = set()
    for place, found in objects_of(board):
        assert found.keys() <= set(known[place].split()), place
        seen.add(place)
    assert {"panels.targets", "panels.fieldConfig.overrides.matcher"} <= seen


def test_units_and_limits_are_those_of_the_run(recording: Path, tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text(RUN)
    _, board = dashboard_of(recording, "influx", "--limits", str(tmp_path / "run.toml"))
    flow, temperature = (panel["fieldConfig"] for panel in board["panels"])
    assert flow["defaults"]["unit"] == "suffix: SCCM"
    assert flow["defaults"]["thresholds"]["steps"] == [
        {"color": "red", "value": None},
        {"color": "green", "value": 2.0},
        {"color": "red", "value": 30.0},
    ]
    assert [
        (each["matcher"]["options"], each["properties"][0]["value"])
        for each in temperature["overrides"]
    ] == [("fuel", "celsius"), ("air", "fahrenheit")]
    assert grafana_unit("PSIA") == "suffix: PSIA"  # 1500 is not 1.5 ksi
    assert grafana_unit(None) == "none"


def test_influxdb_is_asked_by_a_user_or_with_a_token(recording: Path) -> None:
    """A password without a user is not sent; the lines for later versions are YAML too."""
    yaml = pytest.importorskip("yaml")
    out, _ = dashboard_of(recording, "influx")
    text = (out / "provisioning/datasources/penstock.yaml").read_text()
    [data] = yaml.safe_load(text)["datasources"]
    assert (data["user"], data["secureJsonData"]) == ("grafana", {"password": "$INFLUX_PASSWORD"})
    others = "".join(line[2:] + "\n" for line in text.splitlines() if line.startswith("#     "))
    later = yaml.safe_load(others)
    assert later["jsonData"]["httpHeaderName1"] == "Authorization"
    assert later["secureJsonData"] == {"httpHeaderValue1": "Token $INFLUX_TOKEN"}
    service = yaml.safe_load((out / "compose.yaml").read_text())["services"]["grafana"]
    assert {"INFLUX_PASSWORD", "INFLUX_TOKEN"} <= service["environment"].keys()


def test_a_folder_that_is_there_is_left_alone(
    recording: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["grafana", str(recording), str(recording.parent)]) == 5
    assert "already exists" in capsys.readouterr().err


# What Grafana writes in place of a macro, for the minute from NOON_NS on and a point a second.
FROM, TO = "2026-11-21T12:00:00Z", "2026-11-21T12:01:00Z"
INFLUXQL = {"$timeFilter": f"time >= '{FROM}' AND time <= '{TO}'", "$__interval": "1s"}
FLUX = {
    "v.defaultBucket": '"lab"',
    "v.timeRangeStart": FROM,
    "v.timeRangeStop": TO,
    "v.windowPeriod": "1s",
}
POSTGRES = {
    "$__timeGroupAlias(t_utc, $__interval)": 'floor(extract(epoch from t_utc)/1)*1 AS "time"',
    "$__timeFilter(t_utc)": f"t_utc BETWEEN '{FROM}' AND '{TO}'",
}
INFLUX_SQL = {
    "$__dateBin(time)": "date_bin(interval '1 second', time, timestamp '1970-01-01T00:00:00Z')",
    "$__timeFrom": f"cast('{FROM}' as timestamp)",
    "$__timeTo": f"cast('{TO}' as timestamp)",
}


def expanded(text: str, macros: Mapping[str, str]) -> str:
    for name, written in macros.items():
        text = text.replace(name, written)
    assert "$" not in text, text
    return text


def query_of(board: Mapping[str, Any], key: str) -> str:
    """That of the first panel."""
    return str(board["panels"][0]["targets"][0][key])


def events_of(board: Mapping[str, Any], key: str) -> str:
    return str(board["annotations"]["list"][0]["target"][key])


def batch_with_an_event(schema: RecordSchema = SCHEMA) -> SampleBatch:
    """A sample of two devices in each of two seconds, and an event of the whole recording."""
    buffer = ColumnBuffer(schema)
    for number, device in enumerate(("fuel", "air", "fuel", "air")):
        moment = NOON_NS + number // 2 * 1_000_000_000
        values = {"Mass_Flow": float(number), "Gas": "N2", "Temp": 20.5}
        buffer.append_row(device, "A", moment, moment, number, number, values, "", None)
    moment = NOON_NS + 1
    buffer.append_row("", None, moment, moment, 1, 1, {}, None, None)
    buffer.amend("event", "note")
    buffer.amend("message", "valve opened")
    return SampleBatch.from_buffer(buffer)


CURVES = [("air", 1.0), ("air", 3.0), ("fuel", 0.0), ("fuel", 2.0)]


@pytest.mark.slow
def test_influxdb_answers_the_queries(recording: Path, tmp_path: Path) -> None:
    _, board = dashboard_of(recording, "influx")
    with influx_server() as server:
        store_with_an_event(server, tmp_path)
        found = server.query(expanded(query_of(board, "query"), INFLUXQL))
        assert sorted((row["device"], row["mean"]) for row in found) == CURVES
        [event] = server.query(expanded(events_of(board, "query"), INFLUXQL))
        assert (event["message"], event["event"]) == ("valve opened", "note")


def store_with_an_event(server: InfluxServer, folder: Path, url: str | None = None) -> None:
    batch = batch_with_an_event()
    written(InfluxSink(url or server.url(), spool=folder / "spool", **PATIENT), batch)


@pytest.mark.slow
def test_influxdb_answers_flux(recording: Path, tmp_path: Path) -> None:
    """And takes the requests of version 2."""
    _, board = dashboard_of(recording, "influx2")
    with flux_server() as server:
        store_with_an_event(server, tmp_path, server.url("any/lab"))
        found = server.flux(expanded(query_of(board, "query"), FLUX))
        # The only label is the device, and no other name is there: Grafana shows the device.
        assert {key for row in found for key in row} == {
            *("", "result", "table", "_time", "_value", "device")
        }
        assert sorted((row["device"], float(row["_value"])) for row in found) == CURVES
        [event] = server.flux(expanded(events_of(board, "query"), FLUX))
        assert (event["text"], event["tags"]) == ("valve opened", "note")
        assert event["_time"].startswith("2026-11-21T12:00:00.000000001")


RUNS = [json.dumps({"run_id": name}) for name in ("first", "second")]


@pytest.mark.slow
def test_postgresql_answers_for_the_newest_run_and_any_other(
    recording: Path, tmp_path: Path
) -> None:
    """Each run has a table of its own, because its metadata are its own."""
    psycopg = pytest.importorskip("psycopg")
    _, board = dashboard_of(recording, "postgres")
    with postgres_server() as server:
        for number, metadata in enumerate(RUNS):
            sink = PostgresSink(
                server.dsn(), append=True, spool=tmp_path / f"spool-{number}", **PATIENT
            )
            written(sink, batch_with_an_event(replace(SCHEMA, metadata=metadata)))
            if number == 0:
                with psycopg.connect(server.dsn()) as connection:
                    connection.execute('UPDATE samples SET "Mass_Flow" = 7 WHERE event IS NULL')
        other = PostgresSink(server.dsn(), table="samples_x", spool=tmp_path / "x", **PATIENT)
        written(other, batch_with_an_event())
        [variable] = board["templating"]["list"]
        with psycopg.connect(server.dsn()) as connection:
            tables = connection.execute(variable["query"]).fetchall()
            assert tables == [("samples_2", "samples_2"), ("samples", "samples")]
            flows = []
            for _, table in tables:
                macros = POSTGRES | {"${recording:raw}": table}
                found = connection.execute(expanded(query_of(board, "rawSql"), macros)).fetchall()
                flows.append(sorted((device, flow) for _, device, flow in found))
                [event] = connection.execute(expanded(events_of(board, "rawSql"), macros))
                assert event[1:] == ("valve opened", "note")
    assert flows == [CURVES, [(device, 7.0) for device, _ in CURVES]]


def test_the_tables_of_a_schema_are_named_with_it(recording: Path) -> None:
    _, board = dashboard_of(recording, "postgres", "--table", "it's.low_flow")
    [variable] = board["templating"]["list"]
    assert 'FROM "it\'s".penstock_parts' in variable["query"]
    assert "'\"it''s\".' || quote_ident(name)" in variable["query"]
    assert "starts_with(name, 'low_flow_') AND substr(name, 10)" in variable["query"]


@pytest.mark.parametrize("source", ["influx", "influx2", "influx3"])
def test_the_table_is_the_measurement_of_influxdb(recording: Path, source: str) -> None:
    """With the name of its events, as InfluxSink chooses it."""
    _, board = dashboard_of(recording, source, "--table", "furnace")
    assert '"furnace"' in json.dumps(board["panels"]).replace('\\"', '"')
    assert '"furnace_events"' in json.dumps(board["annotations"]).replace('\\"', '"')


# The means of a second are those of CURVES.
SQL_ROWS = """VALUES
    (timestamp '2026-11-21 12:00:00', 'fuel', 0.0),
    (timestamp '2026-11-21 12:00:00', 'air', 1.0),
    (timestamp '2026-11-21 12:00:01.2', 'fuel', 1.0),
    (timestamp '2026-11-21 12:00:01.8', 'fuel', 3.0),
    (timestamp '2026-11-21 12:00:01', 'air', 3.0),
    (timestamp '2026-11-21 12:00:01', 'air', NULL)"""


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    with postgres_server() as server:
        yield server


@pytest.mark.slow
def test_postgresql_understands_the_sql_for_influxdb_3(
    recording: Path, postgres: PostgresServer
) -> None:
    """It has the one function that is not in the standard; InfluxDB 3 is in no registry."""
    psycopg = pytest.importorskip("psycopg")
    _, board = dashboard_of(recording, "influx3")
    with psycopg.connect(postgres.dsn()) as connection:
        connection.execute(
            f'CREATE TEMPORARY TABLE samples (time, device, "Mass_Flow") AS {SQL_ROWS}'
        )
        found = connection.execute(expanded(query_of(board, "rawSql"), INFLUX_SQL))
        assert [each.name for each in found.description] == ["time", "device", "Value"]
        assert sorted((device, float(flow)) for _, device, flow in found) == CURVES
        connection.execute(
            "CREATE TEMPORARY TABLE events (time, message, event) AS "
            "VALUES (timestamp '2026-11-21 12:00:00', 'valve opened', 'note')"
        )
        [event] = connection.execute(expanded(events_of(board, "rawSql"), INFLUX_SQL))
        assert event[1:] == ("valve opened", "note")
    # Grafana writes an interval below a second as none.
    assert all(panel["interval"] == "1s" for panel in board["panels"])


def test_datafusion_understands_the_sql_for_influxdb_3(recording: Path) -> None:
    """It is the engine of InfluxDB 3."""
    datafusion = pytest.importorskip("datafusion")
    _, board = dashboard_of(recording, "influx3")
    context = datafusion.SessionContext()
    columns = 'column1 AS time, column2 AS device, column3 AS "Mass_Flow"'
    context.sql(f"CREATE TABLE samples AS SELECT {columns} FROM ({SQL_ROWS})").collect()
    found = context.sql(expanded(query_of(board, "rawSql"), INFLUX_SQL)).to_pydict()
    assert list(found) == ["time", "device", "Value"]
    assert sorted(zip(found["device"], found["Value"], strict=True)) == CURVES
    assert found["time"] == sorted(found["time"])
