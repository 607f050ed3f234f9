"""Archives: what recorders publish, as Parquet, with a real server and real kills."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

import penstock
from penstock.record import Field, NatsSink, RecordSchema
from penstock.record._nats.connection import NatsConnection
from penstock.record._nats.run_reader import StreamMessage
from penstock.record._network.protocol import Away
from penstock.record.archives import (
    ArchiveError,
    Archiver,
    ArchiverOptions,
    ArchiverRefused,
    archive_files,
    store_at,
)
from penstock.record.archives.manifest import Fenced, Manifest, load_manifest, manifests
from penstock.record.archives.run_archive import RunArchive
from penstock.record.archives.stores import StoredObject
from penstock.record.archives.waiting_run import RunOptions, identity_of
from tests.python.documentation.page_steps import DOCS, blocks
from tests.python.integration.daemons import PATIENT, until
from tests.python.integration.nats import NatsServer, nats_server
from tests.python.record.archived_messages import message, rows_of
from tests.python.record.batches import flow_batch

pytestmark = pytest.mark.slow

ENV = {**os.environ, "PYTHONPATH": str(Path(penstock.__file__).parents[1])}
SECOND_SCHEMA = RecordSchema((Field("Mass_Flow", "float", "SLPM"), Field("Gas", "text")), "{}")


@pytest.fixture(scope="module")
def running() -> Iterator[NatsServer]:
    with nats_server() as server:
        yield server


@pytest.fixture
def server(running: NatsServer) -> NatsServer:
    for stream in ("lab", "lab-archive"):
        running.empty(stream)
    return running


async def publish(server: NatsServer, spool: Path, *batches: Any) -> None:
    async with NatsSink(server.url(), spool=spool, **PATIENT) as sink:
        for batch in batches:
            await sink.write_batch(batch)
            await sink.flush()


async def archive_once(server: NatsServer, target: str, **options: Any) -> Archiver:
    archiver = Archiver(server.url(), store_at(target), options=ArchiverOptions(**options))
    await archiver.run(once=True)
    return archiver


def test_runs_become_partitions(server: NatsServer, tmp_path: Path) -> None:
    async def main() -> None:
        await publish(server, tmp_path / "1", flow_batch(3), flow_batch(2, 3))
        await publish(server, tmp_path / "2", flow_batch(4), flow_batch(4, 2, SECOND_SCHEMA))
        assert (await archive_once(server, str(target))).counts.rows == 13
        again = await archive_once(server, str(target))
        assert (again.counts.rows, again.counts.files) == (0, 0)
        await publish(server, tmp_path / "3", flow_batch(1))
        assert (await archive_once(server, str(target))).counts.rows == 1

    target = tmp_path / "archive"
    asyncio.run(main())
    names = [Path(name).relative_to(target).parts for name in archive_files(target)]
    assert sorted(parts[1] for parts in names) == ["schema=1"] * 3 + ["schema=2"]
    assert {parts[2] for parts in names} == {"day=2026-11-21"}
    found = rows_of(target)
    assert len(found) == len({row[:3] for row in found}) == 14
    table = pyarrow.parquet.read_table(archive_files(target)[0], partitioning=None)
    assert table.schema.field("Mass_Flow").metadata[b"unit"] in (b"SCCM", b"SLPM")


def test_a_stream_that_keeps_little_has_the_schema_of_its_rows(
    server: NatsServer, tmp_path: Path
) -> None:
    """It was told once an hour, and its message is the oldest."""

    async def main() -> None:
        async with NatsSink(server.url(), spool=tmp_path / "spool", **PATIENT) as sink:
            for first in range(0, 20_000, 5_000):
                await sink.write_batch(flow_batch(5_000, first))
                await sink.flush()
                await until(lambda: not sink.rows_waiting)
        counts = (await archive_once(server, str(tmp_path / "archive"))).counts
        assert counts.refused == 0
        assert counts.rows >= 5_000

    kept = {"name": "lab", "subjects": ["lab.>"], "max_msgs": 3}
    assert "error" not in server.ask("STREAM.CREATE.lab", kept)
    try:
        asyncio.run(main())
    finally:
        server.ask("STREAM.DELETE.lab")


def test_an_archiver_that_begins_in_the_middle_of_a_run_knows_its_schema(
    server: NatsServer, tmp_path: Path
) -> None:
    """Also beside messages of an earlier version, which have it each."""

    async def main() -> None:
        async with NatsSink(server.url(), spool=tmp_path / "spool", **PATIENT) as sink:
            for first in range(0, 30, 10):
                await sink.write_batch(flow_batch(10, first))
                await sink.flush()
                await until(lambda: not sink.rows_waiting)
                # Each time another one, which reads on behind what is archived.
                assert (await archive_once(server, str(target))).counts.rows == 10
        earlier = message(1, 0, 5)
        connection = await NatsConnection.connect("127.0.0.1", server.port, None, {}, 60)
        headers = {"Nats-Msg-Id": earlier.id, "Penstock-Row": str(earlier.row)}
        await connection.request("lab.r.fuel", earlier.payload, headers, 60)
        await connection.close()
        counts = (await archive_once(server, str(target))).counts
        assert (counts.rows, counts.refused) == (5, 0)

    target = tmp_path / "archive"
    asyncio.run(main())
    flows = sorted(flow for run, _, _, flow in rows_of(target) if run != "r")
    assert flows == [float(n) for n in range(30)]


def test_a_message_of_nobody_is_kept_and_holds_up_nothing(
    server: NatsServer, tmp_path: Path
) -> None:
    async def main() -> Archiver:
        await publish(server, tmp_path / "1", flow_batch(3))
        connection = await NatsConnection.connect("127.0.0.1", server.port, None, {}, 5)
        await connection.request("lab.other.x", b"hello", {}, 5)
        await connection.close()
        await publish(server, tmp_path / "1", flow_batch(2))
        return await archive_once(server, str(target))

    target = tmp_path / "archive"
    counts = asyncio.run(main()).counts
    assert (counts.rows, counts.refused) == (5, 1)
    [kept] = (target / "_archive" / "other" / "refused").iterdir()
    assert kept.read_bytes() == b"hello"


def test_a_stream_that_has_lost_its_end_brings_no_doubles(
    server: NatsServer, tmp_path: Path
) -> None:
    """As after a power cut: sequences are used again, and the sink sends what was lost."""

    async def main() -> None:
        async with NatsSink(server.url(), spool=tmp_path / "spool", **PATIENT) as sink:
            for first in range(0, 30, 10):
                await sink.write_batch(flow_batch(10, first))
                await sink.flush()
            await until(lambda: not sink.rows_waiting)
            await archive_once(server, str(target))
            server.empty()
            server.kill()
            server.start()
            await sink.write_batch(flow_batch(10, 30))
        await archive_once(server, str(target))

    target = tmp_path / "archive"
    asyncio.run(main())
    assert [row[2:] for row in rows_of(target)] == [(n, float(n)) for n in range(40)]


def test_purging_keeps_what_the_recorder_asks_for(server: NatsServer, tmp_path: Path) -> None:
    async def main() -> None:
        async with NatsSink(server.url(), spool=tmp_path / "spool", **PATIENT) as sink:
            for first in range(0, 30, 10):
                await sink.write_batch(flow_batch(10, first))
                await sink.flush()
            await until(lambda: not sink.rows_waiting)
            await archive_once(server, str(target), purge=True)
            # The last message of the device, and the schema.
            assert server.ask("STREAM.INFO.lab")["state"]["messages"] == 2
            server.kill()
            server.start()
            await sink.write_batch(flow_batch(10, 30))
        assert (await archive_once(server, str(target), purge=True)).counts.missing == 0
        # Of the schema there were two.
        assert server.ask("STREAM.INFO.lab")["state"]["messages"] == 2

    target = tmp_path / "archive"
    asyncio.run(main())
    assert [row[2] for row in rows_of(target)] == list(range(40))


def test_a_server_without_jetstream_is_told(tmp_path: Path) -> None:
    with nats_server(jetstream=False) as plain, pytest.raises(ArchiverRefused, match="JetStream"):
        asyncio.run(archive_once(plain, str(tmp_path / "a")))


def test_of_two_owners_one_is_refused(tmp_path: Path) -> None:
    store = store_at(str(tmp_path))
    first, second = (RunArchive(store, "r", RunOptions()) for _ in range(2))
    for each in (first, second):
        each.load()
        each.add(message(1, 1))
    first.write()
    with pytest.raises(Fenced):
        second.write()
    assert [row[2] for row in rows_of(tmp_path)] == [1]
    # Also when the version that it would make has been removed since.
    stale = RunArchive(store, "r", RunOptions())
    stale.load()
    for part in range(2, 15):
        first.add(message(part, part))
        first.write()
    stale.add(message(2, 2))
    with pytest.raises(Fenced):
        stale.write()
    assert len(rows_of(tmp_path)) == 14
    assert load_manifest(store, "r").devices["fuel"].part == 14
    assert len(list((tmp_path / "_archive" / "r").iterdir())) <= 9


def test_files_of_an_owner_that_was_stopped_are_not_removed_and_then_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped between its file and its manifest, for longer than files without one stay."""
    store: Any = store_at(str(tmp_path))
    first = RunArchive(store, "r", RunOptions())
    second = RunArchive(store_at(str(tmp_path)), "r", RunOptions())
    first.load()
    first.add(message(1, 1))
    first.write()
    first.add(message(2, 2))
    create = store.create

    def stopped(name: str, data: bytes) -> bool:
        for path in tmp_path.rglob("*.parquet"):
            os.utime(path, (0, 0))
        second.load()
        assert len(list(tmp_path.rglob("*.parquet"))) == 1
        return bool(create(name, data))

    monkeypatch.setattr(store, "create", stopped)
    with pytest.raises(Fenced):
        first.write()
    second.add(message(2, 2))
    second.write()
    assert [row[2] for row in rows_of(tmp_path)] == [1, 2]


def test_a_folder_that_cannot_be_listed_is_not_an_empty_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without its manifests, a run would seem to have no files, and those that it has would go."""
    run = RunArchive(store_at(str(tmp_path)), "r", RunOptions())
    run.load()
    run.add(message(1, 1))
    run.write()
    [path] = archive_files(tmp_path)
    os.utime(path, (0, 0))
    scandir = os.scandir

    def refuse(folder: Any) -> Any:
        if "_archive" in os.fspath(folder):
            raise OSError(errno.EMFILE, "Too many open files")
        return scandir(folder)

    again = RunArchive(store_at(str(tmp_path)), "r", RunOptions())
    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(ArchiveError, match="cannot be read: Too many open files"):
        again.load()
    monkeypatch.undo()
    assert archive_files(tmp_path) == [path]
    assert Path(path).exists()


def test_an_unclear_commit_is_found_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store has taken the manifest, and its answer was lost."""
    store: Any = store_at(str(tmp_path))
    archive = RunArchive(store, "r", RunOptions())
    archive.load()
    archive.add(message(1, 1))
    create = store.create

    def lost(name: str, data: bytes) -> bool:
        create(name, data)
        raise TimeoutError

    monkeypatch.setattr(store, "create", lost)
    with pytest.raises(TimeoutError):
        archive.write()
    monkeypatch.undo()
    assert archive.write().rows == 1
    archive.add(message(2, 2))
    assert archive.write().rows == 2
    assert [row[3] for row in rows_of(tmp_path)] == [10.0, 20.0]


def test_small_files_are_joined_and_the_old_ones_go(tmp_path: Path) -> None:
    store = store_at(str(tmp_path))
    archive = RunArchive(store, "r", RunOptions(join=4, grace=3600.0))
    archive.load()
    for part in range(1, 5):
        archive.add(message(part, part))
        archive.write()
    before = rows_of(tmp_path)
    assert len(archive_files(tmp_path)) == 4
    assert archive.tidy() and not archive.tidy()
    assert len(archive_files(tmp_path)) == 1
    assert rows_of(tmp_path) == before
    assert len(list(tmp_path.rglob("*.parquet"))) == 5
    later = RunArchive(store, "r", RunOptions(grace=0.0))
    later.load()
    assert later.tidy() and not later.tidy()
    assert len(list(tmp_path.rglob("*.parquet"))) == 1
    assert rows_of(tmp_path) == before


@pytest.mark.parametrize("devices", ["ab", "ba"])
def test_joined_files_have_the_rows_of_a_device_together(tmp_path: Path, devices: str) -> None:
    run = RunArchive(store_at(str(tmp_path)), "r", RunOptions(join=3, grace=0.0))
    run.load()
    for part in (1, 2, 3):
        for number, device in enumerate(devices):
            run.add(message(part, 2 * part + number, 2, device=device))
        run.write()
    while run.tidy():
        pass
    assert len(archive_files(tmp_path)) == 1
    found = [(device, row) for _, device, row, _ in rows_of(tmp_path)]
    assert found == [(device, row) for device in "ab" for row in range(2, 8)]


def test_files_of_another_order_are_sorted_when_they_are_joined(tmp_path: Path) -> None:
    """As of an archive that somebody has mended by hand."""
    run = RunArchive(store_at(str(tmp_path)), "r", RunOptions(join=2, grace=0.0))
    run.load()
    for part in (1, 2):
        run.add(message(part, part, 3))
        run.write()
    for name in archive_files(tmp_path):
        table = pyarrow.parquet.ParquetFile(name).read()
        pyarrow.parquet.write_table(table.take([2, 0, 1]), name)
    while run.tidy():
        pass
    assert [row[2] for row in rows_of(tmp_path)] == [3, 4, 5, 6, 7, 8]


def test_a_day_and_a_gap_show(tmp_path: Path) -> None:
    archive = RunArchive(store_at(str(tmp_path)), "r", RunOptions())
    archive.load()
    archive.add(message(1, 1))
    archive.add(message(4, 9))
    archive.add(message(3, 10))
    noon_to_noon = 24 * 3600 * 20 // 10  # of parts, each 10 rows of 50 ms after the one before
    archive.add(message(noon_to_noon, 11))
    manifest = archive.write()
    assert [each.day for each in manifest.files] == ["2026-11-21", "2026-11-22"]
    assert manifest.devices["fuel"].missing == 2 + noon_to_noon - 5
    assert Manifest.from_json(manifest.to_json(), "") == manifest


def test_archivers_that_are_killed_and_stopped_archive_each_row_once(
    server: NatsServer, tmp_path: Path
) -> None:
    target, chance = tmp_path / "archive", random.Random(5)
    members: list[subprocess.Popen[bytes]] = []

    def begin() -> None:
        command = [sys.executable, "-m", "penstock.cli", "archive", server.url(), str(target)]
        options = ["--part-seconds", "1", "--lease", "2"]
        with (tmp_path / "log").open("ab") as log:
            members.append(subprocess.Popen([*command, *options], stderr=log, stdout=log, env=ENV))

    async def record(number: int) -> list[int]:
        rows = 0
        async with NatsSink(server.url(), spool=tmp_path / str(number), **PATIENT) as sink:
            while not done.is_set():
                many = chance.randrange(1, 50)
                await sink.write_batch(flow_batch(many, rows))
                rows += many
                await asyncio.sleep(0.05)
        return list(range(rows))

    async def disturb() -> None:
        for _ in range(2):
            await asyncio.sleep(1.2)
            killed = members.pop(0)
            killed.kill()
            killed.wait()
            begin()
            await asyncio.sleep(0.5)
            stopped = members[-2]
            stopped.send_signal(signal.SIGSTOP)
            if chance.random() < 0.5:
                await asyncio.to_thread(server.kill)
                await asyncio.to_thread(server.start)
            await asyncio.sleep(2.5)  # longer than its lease
            stopped.send_signal(signal.SIGCONT)
        done.set()

    async def main() -> list[list[int]]:
        *rows, _ = await asyncio.gather(record(1), record(2), record(3), disturb())
        return rows

    done = asyncio.Event()
    begin()
    begin()
    try:
        recorded = asyncio.run(main())
    finally:
        for member in members:
            member.send_signal(signal.SIGCONT)
            member.terminate()
        codes = [member.wait(100) for member in members]
    # The last one may not have begun to listen for the signal.
    assert codes[0] == 143 and codes[1] in (143, -15), (tmp_path / "log").read_text()
    asyncio.run(archive_once(server, str(target), lease=2.0))
    by_run: dict[str, list[int]] = {}
    for run, _, number, flow in rows_of(target):
        assert number == flow
        by_run.setdefault(run, []).append(number)
    assert sorted(sorted(each) for each in by_run.values()) == sorted(recorded)


def test_query_reads_what_the_manifest_names(tmp_path: Path) -> None:
    store = store_at(str(tmp_path / "a"))
    for run in ("r", "s"):
        archive = RunArchive(store, run, RunOptions())
        archive.load()
        archive.add(message(1, 1, 3, run))
        archive.write()
    [first, _] = archive_files(tmp_path / "a")
    orphan = Path(first).with_name("000000000009-killed.parquet")
    orphan.write_bytes(Path(first).read_bytes())
    sql = "SELECT run, count(*) n, sum(Mass_Flow) s FROM samples GROUP BY run ORDER BY run"
    command = [sys.executable, "-m", "penstock.cli", "query", str(tmp_path / "a"), sql]
    done = subprocess.run([*command, "--format", "json"], capture_output=True, check=True, env=ENV)
    assert json.loads(done.stdout) == [
        {"run": "r", "n": 3, "s": 33.0},
        {"run": "s", "n": 3, "s": 33.0},
    ]
    assert [each.run for each in manifests(store)] == ["r", "s"]


def test_the_program_of_the_page(tmp_path: Path) -> None:
    archive = RunArchive(store_at(str(tmp_path)), "r", RunOptions())
    archive.load()
    archive.add(message(1, 1))
    archive.write()
    [code] = [each.text for each in blocks(DOCS / "archive.md") if each.language == "python"]
    names: dict[str, Any] = {}
    exec(compile(code.replace("/data/archive", str(tmp_path)), "docs/archive.md", "exec"), names)
    assert names["files"] == archive_files(tmp_path) != []


@pytest.mark.parametrize("number", ["²", "9" * 5000, "-1", "1e3", ""])
def test_an_identity_that_no_recorder_wrote_is_none(number: str) -> None:
    stranger = StreamMessage(1, "lab.r.fuel", f"r/fuel/{number}", 0, b"")
    assert identity_of(stranger) == ("", "", 0)


def test_runs_are_found_in_all_that_a_server_tells_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Servers name a hundred thousand subjects in one answer, and the rest if they are asked."""
    names = [f"lab.r{number}.fuel" for number in range(5)]

    async def answer(
        connection: object, timeout: float, what: str, asked: dict[str, Any]
    ) -> dict[str, Any]:
        assert what == "STREAM.INFO.lab"
        page = names[asked["offset"] :][:2]
        subjects = dict.fromkeys(page, 1)
        return {"total": len(names), "state": {"first_seq": 1, "subjects": subjects}}

    monkeypatch.setattr("penstock.record.archives.archiver.ask", answer)
    archiver = Archiver("nats://h/lab", store_at(str(tmp_path)))
    connection: Any = None
    found = asyncio.run(archiver._discover(connection))
    assert found == [f"r{number}" for number in range(5)]


def test_fields_that_are_called_like_columns_of_an_archive_do_not_hide_them(
    tmp_path: Path,
) -> None:
    rows = pyarrow.Table.from_batches([flow_batch(2).to_arrow()])
    for name in ("run", "day", "archive_row", "archive_run", "field_run"):
        rows = rows.append_column(name, pyarrow.array([len(name) + 0.5, 0.0]))
    sink = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_table(rows)
    archive = RunArchive(store_at(str(tmp_path)), "r", RunOptions())
    archive.load()
    data = sink.getvalue().to_pybytes()
    archive.add(StreamMessage(1, "lab.r.fuel", "r/fuel/1", 5, data))
    archive.write()
    [path] = archive_files(tmp_path)
    table = pyarrow.parquet.ParquetFile(path).read()
    assert table["archive_row"].to_pylist() == [5, 6]
    assert table.schema.field("Mass_Flow").metadata[b"unit"] == b"SCCM"
    assert table.schema.metadata.keys() >= rows.schema.metadata.keys()
    assert not {"run", "day", "archive_run"} & set(table.column_names)
    found = {name: table[name][0].as_py() for name in table.column_names if "field_" in name}
    assert found == {
        "field_run": 3.5,
        "field_day": 3.5,
        "field_archive_row": 11.5,
        "field_archive_run": 11.5,
        "field_field_run": 9.5,
    }


def discovered(
    folder: Path, monkeypatch: pytest.MonkeyPatch, page: Callable[[int], dict[str, Any]]
) -> list[str]:
    """The runs that an archiver finds where a server answers with ``page(offset)``."""
    asked_for = []

    async def answer(
        connection: object, timeout: float, what: str, asked: dict[str, Any]
    ) -> dict[str, Any]:
        asked_for.append(asked["offset"])
        assert len(asked_for) < 50, "asked for ever"
        return page(asked["offset"])

    monkeypatch.setattr("penstock.record.archives.archiver.ask", answer)
    archiver = Archiver("nats://h/lab", store_at(str(folder)))
    connection: Any = None
    return asyncio.run(archiver._discover(connection))


def page_of(total: Any, *runs: str) -> dict[str, Any]:
    subjects = {f"lab.{run}.fuel": 1 for run in runs}
    return {"total": total, "state": {"first_seq": 1, "subjects": subjects}}


def test_a_run_that_begins_between_two_pages_does_not_hold_the_survey_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It moves the others, so that the last page has nothing new."""

    def page(offset: int) -> dict[str, Any]:
        runs = ["a", "r0", "r1", "r2"] if offset else ["r0", "r1", "r2"]
        return page_of(4, *runs[offset : offset + 3])

    assert discovered(tmp_path, monkeypatch, page) == ["r0", "r1", "r2"]


@pytest.mark.parametrize(
    ("page", "reason"),
    [
        (lambda offset: page_of(5, "r0", "r1"), r"'lab\.r0\.fuel' again as its subject 2 of 5"),
        (lambda offset: page_of(offset + 9, f"r{offset}"), "9 subjects in 9 pages, .* has 17"),
        (lambda offset: page_of("many", "r0"), "the answer is not JetStream's: .*many"),
        (lambda offset: {"state": ["r0"]}, "the answer is not JetStream's: .*r0"),
    ],
)
def test_pages_of_subjects_that_do_not_end_are_told(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    page: Callable[[int], dict[str, Any]],
    reason: str,
) -> None:
    monkeypatch.setattr("penstock.record.archives.archiver._MOST_PAGES", 9, raising=False)
    with pytest.raises(Away, match=reason):
        discovered(tmp_path, monkeypatch, page)


def test_a_manifest_that_is_listed_and_never_there_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lists = 0

    def listed(folder: str) -> list[StoredObject]:
        nonlocal lists
        lists += 1
        assert lists < 50, "asked for ever"
        return [StoredObject(f"{folder}000000000007.json", 1, 0.0)]

    store = store_at(str(tmp_path))
    monkeypatch.setattr(store, "list", listed)
    with pytest.raises(ArchiveError, match=r"000000000007\.json is listed, and is not there"):
        load_manifest(store, "r")
