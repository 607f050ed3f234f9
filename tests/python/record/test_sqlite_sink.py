from __future__ import annotations

import gc
import json
import sqlite3
import warnings
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from penstock.record import (
    Field,
    RecordSchema,
    SinkExistsError,
    SinkWriteError,
    SqliteSink,
)
from tests.python.record.batches import MASS_FLOW, NOON_NS, flow_batch, typed_batch
from tests.python.record.child_program import printed_by

pytestmark = pytest.mark.anyio


def rows(path: Path, query: str) -> list[Any]:
    with closing(sqlite3.connect(path)) as database:
        return database.execute(query).fetchall()


def flows(path: Path, table: str = "samples") -> list[float]:
    return [row[0] for row in rows(path, f"SELECT Mass_Flow FROM {table} ORDER BY rowid")]


async def test_rows_and_metadata_are_in_tables(tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"
    async with SqliteSink(path) as sink:
        await sink.open(MASS_FLOW, {"run_id": "r1"})
        await sink.write_batch(flow_batch(3))
        sink.add_metadata({"summary": {"errors": 0}})
    assert list(tmp_path.iterdir()) == [path]
    assert flows(path) == [0.0, 1.0, 2.0]
    assert rows(path, "SELECT t_utc, t_mono_ns, unit_id, error FROM samples LIMIT 1") == [
        (NOON_NS + 4_123_000, 4_123_456, "A", None)
    ]
    iso = rows(path, "SELECT t_utc FROM samples_iso LIMIT 1")
    assert iso == [("2026-11-21T12:00:00.004123Z",)]
    [(columns, recording, facts)] = rows(
        path, "SELECT columns, recording, facts FROM penstock_parts"
    )
    assert {"name": "Mass_Flow", "unit": "SCCM", "kind": "float"} in json.loads(columns)
    assert json.loads(recording) == {"rate_hz": 20, "run_id": "r1"}
    assert json.loads(facts) == {"rows": 3, "summary": {"errors": 0}}


async def test_every_kind_of_field_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"
    batch = typed_batch()
    async with SqliteSink(path) as sink:
        await sink.write_batch(batch)
    for field in batch.schema.fields:
        found = [row[0] for row in rows(path, f'SELECT "{field.name}" FROM samples')]
        assert found == batch.column(field.name)


async def test_the_database_is_readable_while_it_grows(tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"
    async with SqliteSink(path) as sink:
        await sink.write_batch(flow_batch(3))
        await sink.flush()
        with closing(sqlite3.connect(path)) as reader:
            reader.execute("BEGIN")
            assert reader.execute("SELECT count(*) FROM samples").fetchone() == (3,)
            await sink.write_batch(flow_batch(2, first=3))
            await sink.flush()
            assert reader.execute("SELECT count(*) FROM samples").fetchone() == (3,)
        assert len(flows(path)) == 5


async def test_an_existing_file_is_refused_continued_or_replaced(tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"
    async with SqliteSink(path) as sink:
        await sink.write_batch(flow_batch(2))
    with pytest.raises(SinkExistsError, match="append=True"):
        await SqliteSink(path).open()
    async with SqliteSink(path, append=True) as sink:
        await sink.write_batch(flow_batch(2, first=2))
    assert flows(path) == [0.0, 1.0, 2.0, 3.0]
    async with SqliteSink(path, overwrite=True):
        pass
    assert len(flows(path)) == 4
    async with SqliteSink(path, overwrite=True) as sink:
        await sink.write_batch(flow_batch(1))
    assert flows(path) == [0.0]


@pytest.mark.parametrize("how", ["overwrite", "append"])
async def test_two_recorders_cannot_share_a_database(tmp_path: Path, how: str) -> None:
    path = tmp_path / "run.sqlite"
    async with SqliteSink(path, loss_rows=0) as sink:
        await sink.write_batch(flow_batch(1))
        with pytest.raises(SinkWriteError, match="being recorded by another"):
            await SqliteSink(path, overwrite=how == "overwrite", append=how == "append").open()
        await sink.write_batch(flow_batch(1, first=1))
    assert flows(path) == [0.0, 1.0]
    assert list(tmp_path.iterdir()) == [path]


async def test_the_lock_of_a_killed_recorder_is_free(tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"
    async with SqliteSink(path) as sink:
        await sink.write_batch(flow_batch(1))
    path.with_name("run.sqlite-lock").touch()
    async with SqliteSink(path, append=True) as sink:
        await sink.write_batch(flow_batch(1, first=1))
    assert flows(path) == [0.0, 1.0]
    assert list(tmp_path.iterdir()) == [path]


def test_a_failed_disk_is_one_sentence_and_leaves_what_was_committed(tmp_path: Path) -> None:
    # The limit makes the kernel refuse a write; SQLite then ends the transaction.
    program = """
        import anyio, resource, sys
        from penstock.record import SinkWriteError, SqliteSink
        from tests.python.record.batches import flow_batch

        async def main():
            sink = SqliteSink(sys.argv[1], loss_rows=0)
            await sink.open()
            await sink.write_batch(flow_batch(10))
            resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, resource.RLIM_INFINITY))
            try:
                await sink.write_batch(flow_batch(1000, first=10))
            except SinkWriteError as error:
                print(error)
            resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, resource.RLIM_INFINITY))
            try:
                await sink.close()
            except SinkWriteError as error:
                print(error)

        anyio.run(main)
        """
    path = tmp_path / "run.sqlite"
    [sentence] = printed_by(program, str(path)).splitlines()
    assert sentence.endswith("run.sqlite: disk I/O error; check the disk and record elsewhere")
    assert flows(path) == [float(n) for n in range(10)]
    assert rows(path, "SELECT json_extract(facts, '$.rows') FROM penstock_parts") == [(10,)]


async def test_another_unit_begins_a_table(tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"
    litres = RecordSchema((Field("Mass_Flow", "float", "SLPM"), Field("Gas", "text")))
    async with SqliteSink(path) as sink:
        await sink.write_batch(flow_batch(2))
        await sink.write_batch(flow_batch(3, first=2, schema=litres))
        await sink.write_batch(flow_batch(1, first=5, schema=RecordSchema(litres.fields[:1])))
    assert flows(path) + flows(path, "samples_2") == [float(n) for n in range(6)]
    assert len(rows(path, "SELECT * FROM penstock_parts")) == 2


async def test_what_is_no_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"
    path.write_text("precious " * 100)
    with warnings.catch_warnings(record=True) as leaked:
        warnings.simplefilter("always")
        with pytest.raises(SinkWriteError, match="not an SQLite database"):
            await SqliteSink(path, append=True).open()
        gc.collect()
    assert [each for each in leaked if issubclass(each.category, ResourceWarning)] == []
    assert path.read_text() == "precious " * 100


async def test_a_sink_that_was_given_nothing_leaves_nothing(tmp_path: Path) -> None:
    async with SqliteSink(tmp_path / "run.sqlite"):
        pass
    assert list(tmp_path.iterdir()) == []


async def test_a_table_of_another_name_beside_others(tmp_path: Path) -> None:
    path = tmp_path / "lab.sqlite"
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE notes (text)")
    async with SqliteSink(path, table='odd " name', append=True) as sink:
        await sink.write_batch(flow_batch(2))
    assert rows(path, 'SELECT count(*) FROM "odd "" name"') == [(2,)]
    with pytest.raises(ValueError, match="cannot be named"):
        SqliteSink(path, table="sqlite_x")
