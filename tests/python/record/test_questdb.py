"""The InfluxDB sink against QuestDB, which takes the same lines by rules of its own."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from penstock.record import InfluxSink, SinkWriteError
from tests.python.documentation.page_steps import DOCS
from tests.python.integration.daemons import PATIENT
from tests.python.integration.questdb import QuestServer, quest_server
from tests.python.record.batches import flow_batch

pytestmark = pytest.mark.slow

_PATIENCE_S = 20.0


@pytest.fixture(scope="module")
def server() -> Iterator[QuestServer]:
    with quest_server() as running:
        yield running


def send(server: QuestServer, spool: Path, **options: Any) -> None:
    async def main() -> None:
        async with InfluxSink(server.url, spool=spool, **{**PATIENT, **options}) as sink:
            await sink.write_batch(flow_batch(5))

    anyio.run(main)


def table_of_the_page() -> str:
    """The statement that docs/influx.md gives for a table without doubles."""
    found = re.search(r"`(CREATE TABLE samples .*?)`", (DOCS / "influx.md").read_text())
    assert found is not None
    return found.group(1)


def test_with_the_table_of_the_page_rows_that_come_twice_are_there_once(
    server: QuestServer, tmp_path: Path
) -> None:
    server.query(table_of_the_page())
    for _ in range(2):
        send(server, tmp_path / "spool")
    # What a request has brought is seen when the server has applied its log.
    applied = "SELECT sequencerTxn = writerTxn FROM wal_tables() WHERE name = 'samples'"
    deadline = time.monotonic() + _PATIENCE_S
    while server.query(applied) != [[True]] and time.monotonic() < deadline:
        time.sleep(0.05)
    found = server.query('SELECT device, "Mass_Flow", "Gas" FROM samples ORDER BY timestamp')
    assert found == [["fuel", float(number), "N2"] for number in range(5)]


def test_a_field_of_another_type_is_told_and_kept(server: QuestServer, tmp_path: Path) -> None:
    server.query(
        'CREATE TABLE other (device SYMBOL, "Mass_Flow" LONG, timestamp TIMESTAMP) '
        "TIMESTAMP(timestamp) PARTITION BY DAY WAL"
    )
    with pytest.raises(SinkWriteError, match="refused 5 rows"):
        send(server, tmp_path / "spool", measurement="other")
    [kept] = tmp_path.glob("*refused*")
    assert "Mass_Flow" in kept.read_text()
