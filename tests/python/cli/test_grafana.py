"""``penstock grafana``: what it writes hangs together, and its queries are answered."""

from __future__ import annotations

import json
import re
from itertools import combinations
from pathlib import Path
from typing import Any

import anyio
import pytest

from penstock.cli import main
from penstock.cli._dash.grafana_dashboard import grafana_unit
from penstock.record import Field, InfluxSink, ParquetSink, RecordSchema, SampleBatch, Sink
from tests.python.integration.daemons import PATIENT
from tests.python.integration.influx import influx_server
from tests.python.record.batches import flow_batch

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


@pytest.mark.parametrize("source", ["influx", "postgres", "prometheus"])
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


@pytest.mark.slow
def test_influxdb_answers_the_queries(recording: Path, tmp_path: Path) -> None:
    _, board = dashboard_of(recording, "influx")
    with influx_server() as server:
        written(InfluxSink(server.url(), spool=tmp_path / "spool", **PATIENT), flow_batch(40))
        query = board["panels"][0]["targets"][0]["query"]
        query = query.replace("$timeFilter", "time > 0").replace("$__interval", "1s")
        found = server.query(query)
        assert [(row["device"], row["mean"]) for row in found] == [("fuel", 9.5), ("fuel", 29.5)]
        events = board["annotations"]["list"][0]["query"].replace("$timeFilter", "time > 0")
        assert server.query(events) == []
