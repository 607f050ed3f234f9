"""An archive in PostgreSQL, with a real server, which is killed too."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.cli import main
from penstock.record import Field, NatsSink, RecordSchema
from penstock.record._nats.run_reader import StreamMessage
from penstock.record.archives import ArchiveError, PostgresArchive, RunOptions
from penstock.record.archives.manifest import Fenced
from tests.python.integration.daemons import PATIENT
from tests.python.integration.nats import nats_server
from tests.python.integration.postgres import PostgresServer, postgres_server
from tests.python.record.archived_messages import message
from tests.python.record.batches import flow_batch

psycopg = pytest.importorskip("psycopg")

pytestmark = pytest.mark.slow

ENV = {**os.environ, "PYTHONPATH": str(Path(penstock.__file__).parents[1])}
OTHER_UNIT = RecordSchema((Field("Mass_Flow", "float", "SLPM"), Field("Gas", "text")), "{}")


@pytest.fixture(scope="module")
def running() -> Iterator[PostgresServer]:
    with postgres_server() as server:
        yield server


@pytest.fixture
def server(running: PostgresServer) -> PostgresServer:
    query(running, "DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    return running


@pytest.fixture
def archive(server: PostgresServer) -> Iterator[PostgresArchive]:
    archive = PostgresArchive(server.uri())
    yield archive
    archive.close()


def query(server: PostgresServer, text: str) -> list[Any]:
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        cursor = connection.execute(text)
        return cursor.fetchall() if cursor.description else []


def rows(server: PostgresServer, table: str = "samples") -> list[tuple[Any, ...]]:
    return query(
        server,
        f'SELECT archive_run, device, archive_row, "Mass_Flow" FROM {table} ORDER BY 1, 2, 3',
    )


def test_of_two_owners_one_is_refused_and_has_written_nothing(
    server: PostgresServer, archive: PostgresArchive
) -> None:
    first, second = (archive.archive_of("r", RunOptions()) for _ in range(2))
    for each in (first, second):
        each.load()
        each.add(message(1, 1, 2))
    first.write()
    with pytest.raises(Fenced):
        second.write()
    stale = archive.archive_of("r", RunOptions())
    stale.load()
    for each in (first, stale):
        each.add(message(1, 2, 2))  # archived already
        each.add(message(2, 3, 2))
    assert first.write().rows == 4
    with pytest.raises(Fenced):
        stale.write()
    assert rows(server) == [
        ("r", "fuel", 2, 10.0),
        ("r", "fuel", 3, 11.0),
        ("r", "fuel", 4, 20.0),
        ("r", "fuel", 5, 21.0),
    ]
    later = archive.archive_of("r", RunOptions())
    later.load()
    assert later.position == 3
    assert later.manifest == first.manifest


def test_an_unclear_commit_is_found_again(
    server: PostgresServer, archive: PostgresArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server has committed, and its answer was lost."""
    run: Any = archive.archive_of("r", RunOptions())
    run.load()
    run.add(message(1, 1))

    commit = run._commit

    def lost(prepared: Any) -> None:
        commit(prepared)
        raise TimeoutError

    monkeypatch.setattr(run, "_commit", lost)
    with pytest.raises(TimeoutError):
        run.write()
    monkeypatch.undo()
    assert run.write().rows == 1
    run.add(message(2, 2))
    assert run.write().rows == 2
    assert [row[3] for row in rows(server)] == [10.0, 20.0]


def test_a_server_that_is_away_is_told_and_the_same_call_goes_on(
    server: PostgresServer, archive: PostgresArchive
) -> None:
    run = archive.archive_of("r", RunOptions())
    run.load()
    run.add(message(1, 1))
    server.stop()
    try:
        with pytest.raises(ArchiveError, match=r"^PostgreSQL at .* does not accept the archive: "):
            run.write()
    finally:
        server.start()
    assert run.write().rows == 1
    assert len(rows(server)) == 1


def test_what_is_no_row_is_kept_and_counted(
    server: PostgresServer, archive: PostgresArchive
) -> None:
    run = archive.archive_of("r", RunOptions())
    run.load()
    run.add(StreamMessage(1, "lab.r.x", "", 0, b"hello"))
    run.add(StreamMessage(2, "lab.r.fuel", "r/fuel/1", 0, b"no Arrow"))
    run.add(message(2, 3))
    manifest = run.write()
    assert (manifest.refused, manifest.rows) == (2, 1)
    kept = query(server, "SELECT run, sequence, message FROM penstock_archive_refused ORDER BY 2")
    assert kept == [("r", 1, b"hello"), ("r", 2, b"no Arrow")]


def test_the_command_archives_a_stream_and_query_reads_it(
    server: PostgresServer, tmp_path: Path
) -> None:
    def archived(*options: str) -> Any:
        command = [sys.executable, "-m", "penstock.cli", "archive", nats.url(), server.uri()]
        done = subprocess.run(
            [*command, "--once", "--json", *options], capture_output=True, env=ENV, check=True
        )
        return json.loads(done.stdout)

    async def publish(name: str, *batches: Any) -> None:
        async with NatsSink(nats.url(), spool=tmp_path / name, **PATIENT) as sink:
            for batch in batches:
                await sink.write_batch(batch)
                await sink.flush()

    with nats_server() as nats:
        asyncio.run(publish("1", flow_batch(3), flow_batch(2, 3)))
        asyncio.run(publish("2", flow_batch(4), flow_batch(4, 2, OTHER_UNIT)))
        assert archived()["rows"] == 13
        assert archived()["rows"] == 0
        asyncio.run(publish("3", flow_batch(1)))
        assert archived()["rows"] == 1
    runs = {row[0] for row in rows(server)}
    assert len(runs) == 3
    assert len(rows(server)) == 10
    assert len(rows(server, "samples_2")) == 4
    assert [row[0] for row in query(server, "SELECT name FROM penstock_parts ORDER BY part")] == [
        "samples",
        "samples_2",
    ]
    sql = "SELECT count(DISTINCT archive_run) runs, count(*) n, sum(Mass_Flow) s FROM samples"
    command = [sys.executable, "-m", "penstock.cli", "query", server.uri(), sql]
    done = subprocess.run([*command, "--format", "json"], capture_output=True, env=ENV, check=True)
    flows = sum(row[3] for table in ("samples", "samples_2") for row in rows(server, table))
    assert json.loads(done.stdout) == [{"runs": 3, "n": 14, "s": flows}]


def test_archivers_that_are_killed_have_each_row_once(
    server: PostgresServer, tmp_path: Path
) -> None:
    """Also while the database is away for a moment."""

    def begin() -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "penstock.cli", "archive", nats.url(), server.uri()]
        options = ["--part-seconds", "1", "--lease", "2"]
        with (tmp_path / "log").open("ab") as log:
            return subprocess.Popen([*command, *options], stdout=log, stderr=log, env=ENV)

    async def record(number: int) -> int:
        rows = 0
        async with NatsSink(nats.url(), spool=tmp_path / str(number), **PATIENT) as sink:
            while not done.is_set():
                await sink.write_batch(flow_batch(7, rows))
                rows += 7
                await asyncio.sleep(0.02)
        return rows

    async def committed(more: int) -> None:
        """Until so many more transactions of archivers are there."""
        before = await asyncio.to_thread(versions)
        while await asyncio.to_thread(versions) < before + more:  # noqa: ASYNC110
            await asyncio.sleep(0.05)

    def versions() -> int:
        try:
            return int(query(server, "SELECT sum(version) FROM penstock_archive")[0][0] or 0)
        except psycopg.errors.UndefinedTable:
            return 0

    async def disturb() -> None:
        for number in range(2):
            await committed(2)
            members[0].kill()
            members.pop(0).wait()
            if number == 1:
                await asyncio.to_thread(server.stop)
                await asyncio.to_thread(server.start)
            members.append(begin())
        done.set()

    async def main() -> list[int]:
        *counts, _ = await asyncio.gather(record(1), record(2), disturb())
        return counts

    with nats_server() as nats:
        done = asyncio.Event()
        members = [begin(), begin()]
        try:
            recorded = asyncio.run(main())
        finally:
            for member in members:
                member.terminate()
            codes = [member.wait(100) for member in members]
        # The last one may not have begun to listen for the signal.
        assert codes[0] == 143 and codes[1] in (143, -15), (tmp_path / "log").read_text()
        command = [sys.executable, "-m", "penstock.cli", "archive", nats.url(), server.uri()]
        # The last one may still hold a lease, and only time ends that.
        for _ in range(20):
            subprocess.run([*command, "--once", "--lease", "2"], check=True, env=ENV)
            if len(rows(server)) >= sum(recorded):
                break
    by_run: dict[str, list[int]] = {}
    for run, _, number, flow in rows(server):
        assert number == flow
        by_run.setdefault(run, []).append(number)
    assert sorted(by_run.values()) == sorted(list(range(count)) for count in recorded)


@pytest.mark.parametrize("place", ["me:secret@h/d", "me@h/d?sslpassword=secret"])
def test_a_password_on_the_command_line_is_refused(
    place: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where every user of the machine could read it as long as the archiver runs."""
    assert main(["archive", "nats://h/lab", f"postgresql://{place}"]) == 2
    error = capsys.readouterr().err
    assert "PGPASSWORD" in error
    assert "secret" not in error
