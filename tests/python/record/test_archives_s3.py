"""An archive in an S3-compatible store, which is killed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow
import pytest

from penstock.cli import main
from penstock.record import RecordError
from penstock.record._nats.run_reader import StreamMessage
from penstock.record.archives import ArchiveError, archive_files, store_at
from penstock.record.queries import QuerySession, s3_datasets
from tests.python.integration.seaweedfs import S3Server, s3_server
from tests.python.record.archived_messages import (
    flows_of,
    joined_by_one_of_two_owners,
    loaded_run,
    message,
)
from tests.python.record.batches import flow_batch

pytestmark = pytest.mark.slow

TARGET = "s3://lab/archive"


@pytest.fixture
def running() -> Iterator[S3Server]:
    pytest.importorskip("obstore")
    with s3_server() as server:
        yield server


@pytest.fixture
def server(running: S3Server, monkeypatch: pytest.MonkeyPatch) -> S3Server:
    for name, value in running.environment.items():
        monkeypatch.setenv(name, value)
    store_at("s3://lab").put("first", b"")  # which makes the bucket
    return running


def test_an_archive_in_a_bucket_and_then_without_it(server: S3Server) -> None:
    store = store_at(TARGET)
    first = joined_by_one_of_two_owners(store, TARGET)
    [name] = archive_files(TARGET)
    assert name.startswith(f"{TARGET}/run=r/schema=1/day=2026-11-21/000000000001-")
    assert flows_of(store, name.removeprefix(f"{TARGET}/")) == [10.0, 20.0, 21.0, 30.0, 31.0]
    # The two files that did not come into being by a commit are gone but for that of the second.
    assert len([each for each in store.list("run=r/") if each.name.endswith(".parquet")]) == 2
    server.kill()
    first.add(message(4, 4))
    with pytest.raises(ArchiveError, match=r"^s3://lab/archive/run=r/.* cannot be reached: "):
        first.write()


def test_query_reads_a_bucket(
    server: S3Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = store_at(TARGET)
    for name, part in (("007", 1), ("r", 2)):
        run = loaded_run(store, name)
        run.add(message(part, 1, 2, name))
        run.add(other_schema(name))
        run.write()
    # What no manifest names has no rows of the archive.
    store.put("run=r/schema=1/day=2026-11-21/000000000009-killed.parquet", b"torn")

    def ask(sql: str, target: str = TARGET) -> list[Any]:
        out = tmp_path / "rows.json"
        assert main(["query", target, sql, "--out", str(out), "--overwrite"]) == 0
        found: list[Any] = json.loads(out.read_text())
        return found

    assert ask(
        "SELECT run, schema, day, sum(Mass_Flow) s FROM samples GROUP BY ALL ORDER BY ALL"
    ) == [
        {"run": "007", "schema": 1, "day": "2026-11-21", "s": 21.0},
        {"run": "007", "schema": 2, "day": "2026-11-21", "s": 7.0},
        {"run": "r", "schema": 1, "day": "2026-11-21", "s": 41.0},
        {"run": "r", "schema": 2, "day": "2026-11-21", "s": 7.0},
    ]
    sql = (
        "SELECT Mass_Flow f FROM samples WHERE run = '007' AND t_utc < '2026-11-22' AND schema = 1"
    )
    assert ask(sql) == [{"f": 10.0}, {"f": 11.0}]
    assert main(["query", TARGET, "SELECT * FROM read_csv('/etc/passwd')"]) == 2
    assert main(["query", f"{TARGET}/none", "SELECT 1"]) == 5
    assert "is not an archive with rows" in capsys.readouterr().err
    # The store goes while the question is asked.
    with QuerySession() as session:
        session.attach_datasets(s3_datasets(TARGET))
        server.kill()
        with pytest.raises(RecordError, match="cannot be read") as failed:
            try:
                session.ask("SELECT sum(Mass_Flow) FROM samples").read_all()
            except Exception as error:
                raise session.explained(error) from error
    assert "\n" not in str(failed.value)
    assert main(["query", TARGET, "SELECT 1"]) == 5
    assert "cannot be reached" in capsys.readouterr().err


def other_schema(run: str) -> StreamMessage:
    """A message with a flow in whole numbers, and a further column."""
    rows = pyarrow.Table.from_batches([flow_batch(1).to_arrow()])
    place = rows.schema.get_field_index("Mass_Flow")
    rows = rows.set_column(place, "Mass_Flow", pyarrow.array([7], pyarrow.int64()))
    rows = rows.append_column("Valve", pyarrow.array(["open"]))
    sink = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_table(rows)
    return StreamMessage(9, f"lab.{run}.fuel", f"{run}/fuel/9", 9, sink.getvalue().to_pybytes())


@pytest.mark.parametrize("target", ["s3://me:secret@lab/x", "gs://lab", "s3:///x", "s3://lab?x=1"])
def test_a_wrong_address_is_refused(target: str) -> None:
    with pytest.raises(ValueError, match="s3://BUCKET/PREFIX") as refused:
        store_at(target)
    assert "secret" not in str(refused.value)


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(ArchiveError, match="cannot be written: Not a directory"):
        store_at(str(tmp_path / "file")).put("a/b", b"")
