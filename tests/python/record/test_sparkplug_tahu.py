"""What the Sparkplug sink publishes, decoded by Eclipse Tahu, another implementation."""

from __future__ import annotations

import time
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from penstock.record import ColumnBuffer, Field, RecordSchema, SampleBatch, SparkplugSink
from penstock.record._mqtt.packets import Message
from tests.python.integration.daemons import PATIENT
from tests.python.integration.mosquitto import Mosquitto, mosquitto
from tests.python.integration.tahu import decoded

pytestmark = pytest.mark.slow

SCHEMA = RecordSchema(
    (
        Field("Flow", "float", "SCCM"),
        Field("Count", "int"),
        Field("Open", "bool"),
        Field("Gas", "text"),
    )
)


def batch() -> SampleBatch:
    """A whole row, and one with nulls."""
    buffer = ColumnBuffer(SCHEMA)
    now = time.time_ns()
    whole = {"Flow": -1.5, "Count": -(2**40), "Open": True, "Gas": 'N2 é "x"'}
    for values in (whole, {"Flow": 2.5}):
        buffer.append_row("fuel", "A", now, now, 1, 2, values, "", None)
    return SampleBatch.from_buffer(buffer)


def published(broker: Mosquitto, spool: Path) -> list[Message]:
    """All messages of a short run."""
    found: list[Message] = []

    async def main() -> None:
        reader = await broker.reader("spBv1.0/plant/#", found.append)
        # Its echo says that the subscription holds.
        await reader.publish([(b"spBv1.0/plant/BEGIN/lab", b"")], 60)
        url = f"sparkplug://127.0.0.1:{broker.port}/plant/lab"
        async with SparkplugSink(url, spool=spool, **PATIENT) as sink:
            await sink.write_batch(batch())
        with anyio.fail_after(30):
            while not any("/NDEATH/" in each.topic for each in found):
                await anyio.lowlevel.checkpoint()
        await reader.close()

    anyio.run(main)
    return [each for each in found if "/BEGIN/" not in each.topic]


def test_tahu_reads_births_and_data(tmp_path: Path) -> None:
    with mosquitto() as broker:
        messages = published(broker, tmp_path / "spool")
    kinds = [each.topic.split("/")[2] for each in messages]
    assert kinds == ["NBIRTH", "DBIRTH", "DDATA", "DDATA", "NDEATH"]
    node, device, first, second, death = decoded([each.payload for each in messages], tmp_path)
    assert death["metrics"] == [each for each in node["metrics"] if each[0] == "bdSeq"]
    assert [each["seq"] for each in (node, device, first, second)] == [0, 1, 2, 3]
    assert {name: kind for name, _, kind, *_ in node["metrics"]} == {
        "bdSeq": "Int64",
        "Node Control/Rebirth": "Boolean",
    }
    names = {alias: (name, kind, unit) for name, alias, kind, _, unit, _ in device["metrics"]}
    known = {name: (kind, unit) for name, kind, unit in names.values()}
    assert known["Flow"] == ("Double", "SCCM")
    assert known["Count"] == ("Int64", None)
    assert known["Open"] == ("Boolean", None)
    assert known["Gas"] == ("String", None)
    values = {names[alias][0]: value for _, alias, _, value, *_ in first["metrics"]}
    expected = {"Flow": "-1.5", "Count": str(-(2**40)), "Open": "true", "Gas": 'N2 é "x"'}
    assert {name: values[name] for name in expected} == expected
    values = {names[alias][0]: value for _, alias, _, value, *_ in second["metrics"]}
    assert values["Flow"] == "2.5"
    assert values.get("Count") is None
