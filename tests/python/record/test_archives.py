"""The archiver: what recorders publish, as Parquet, with a real server and real kills."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

import penstock
from penstock.record import Field, NatsSink, RecordSchema
from penstock.record._nats.connection import NatsConnection
from penstock.record.archives import (
    Archiver,
    ArchiverOptions,
    ArchiverRefused,
    archive_files,
    store_at,
)
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


async def send(sink: NatsSink, *batches: Any) -> None:
    """Returns once the stream has them."""
    for batch in batches:
        await sink.write_batch(batch)
        await sink.flush()
    await until(lambda: not sink.rows_waiting)


def three_batches() -> list[Any]:
    """Rows 0 to 29."""
    return [flow_batch(10, first) for first in range(0, 30, 10)]


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
                await send(sink, flow_batch(5_000, first))
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
            for batch in three_batches():
                await send(sink, batch)
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
            await send(sink, *three_batches())
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
            await send(sink, *three_batches())
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
