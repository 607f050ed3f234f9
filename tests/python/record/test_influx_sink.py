"""The InfluxDB sink against real servers, which are killed, paused and started again."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from penstock.record import (
    ColumnBuffer,
    Field,
    InfluxSink,
    RecordSchema,
    SampleBatch,
    SinkWriteError,
)
from tests.python.conftest import BACKENDS
from tests.python.integration.daemons import PATIENT, until
from tests.python.integration.influx import InfluxServer, influx_server, victoria_server
from tests.python.record.batches import NOON_NS, flow_batch, typed_batch, write_at_random

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


@pytest.fixture(scope="module", params=BACKENDS[-2:])
def anyio_backend(request: pytest.FixtureRequest) -> Any:
    """Two loops: the sinks have a loop of their own."""
    return request.param


@pytest.fixture(scope="module")
def running() -> Iterator[InfluxServer]:
    with influx_server() as server:
        yield server


@pytest.fixture
def server(running: InfluxServer) -> InfluxServer:
    running.empty()
    return running


@pytest.fixture
def sink(server: InfluxServer, tmp_path: Path) -> Any:
    def make(url: str | None = None, **options: Any) -> InfluxSink:
        options = {"spool": tmp_path / "spool", **PATIENT, **options}
        return InfluxSink(url or server.url(), **options)

    return make


def flows(server: InfluxServer) -> list[float]:
    return [row["Mass_Flow"] for row in server.query("SELECT Mass_Flow FROM samples")]


async def test_each_row_is_a_point(server: InfluxServer, sink: Any, tmp_path: Path) -> None:
    async with sink() as opened:
        await opened.write_batch(typed_batch())
        await opened.write_batch(flow_batch(2))
    assert not (tmp_path / "spool").exists()
    rows = server.query("SELECT * FROM samples WHERE device = 'a'")
    assert [row["time"] - rows[0]["time"] for row in rows] == [0, 1, 2]
    assert (rows[0]["Count"], rows[0]["Flow"], rows[0]["Open"]) == (2**53 + 1, 1.5, True)
    assert (rows[0]["Gas"], rows[0]["Calibrated"]) == ("N2", 1_795_262_400_250_000_000)
    assert (rows[2]["Open_text"], rows[2]["Count"]) == ("ajar", 2)
    [first, second] = server.query("SELECT * FROM samples WHERE device = 'fuel'")
    assert (first["time"], second["time"]) == (NOON_NS + 4_123_000, NOON_NS + 54_123_000)
    assert (first["unit_id"], first["t_mono_ns"], first["latency_s"]) == ("A", 4_123_456, 0.004123)


async def test_integers_at_the_ends_of_64_bits(server: InfluxServer, sink: Any) -> None:
    buffer = ColumnBuffer(RecordSchema((Field("Count", "int"),)))
    for place, value in enumerate((2**63 - 1, -(2**63), 2**63, -(2**63) - 1)):
        stamp = NOON_NS + place
        buffer.append_row("a", None, stamp, stamp, 5, 5, {"Count": value}, None, None)
    async with sink() as opened:
        await opened.write_batch(SampleBatch.from_buffer(buffer))
    assert opened.rows_refused == 0
    rows = server.query("SELECT * FROM samples")
    assert [(row["Count"], row["Count_text"]) for row in rows] == [
        (2**63 - 1, None),
        (-(2**63), None),
        (None, str(2**63)),
        (None, str(-(2**63) - 1)),
    ]


async def test_events_have_a_measurement_of_their_own(server: InfluxServer, sink: Any) -> None:
    buffer = ColumnBuffer(RecordSchema((Field("Mass_Flow", "float"),)))
    for device, values in (
        ("fuel", {"Mass_Flow": 1.0}),
        ("fuel", {}),
        ("", {}),
    ):
        buffer.append_row(device, None, NOON_NS, NOON_NS, 5, 5, values, None, None)
    buffer.fields["event"] = _texts(None, "alarm", "gap")
    buffer.fields["message"] = _texts(None, 'high "flow"\nagain', "two slots")
    buffer.schema = buffer.schema.with_field(Field("event", "text"))
    buffer.schema = buffer.schema.with_field(Field("message", "text"))
    async with sink() as opened:
        await opened.write_batch(SampleBatch.from_buffer(buffer))
    assert [row["time"] for row in server.query("SELECT * FROM samples")] == [NOON_NS]
    events = server.query("SELECT * FROM events")
    assert {(row["device"], row["event"], row["message"], row["time"]) for row in events} == {
        ("fuel", "alarm", 'high "flow"\\nagain', NOON_NS),
        (None, "gap", "two slots", NOON_NS),
    }


def _texts(*texts: str | None) -> Any:
    from penstock.record._columns.columns import TextColumn

    column = TextColumn()
    column.extend(texts)
    return column


async def test_names_that_the_protocol_escapes_come_back(server: InfluxServer, sink: Any) -> None:
    names = [
        "a b",
        "a,b=c",
        'say "x"',
        "back\\slash",
        "end\\",
        "two\nlines",
        "Δp ü",
        "a\\ b",
        "time",
    ]
    buffer = ColumnBuffer(RecordSchema(tuple(Field(name, "float") for name in names)))
    for number, device in enumerate(names):
        buffer.append_row(
            device, None, 1, NOON_NS + number, 0, 5, dict.fromkeys(names, number + 0.5), "", None
        )
    async with sink() as opened:
        await opened.write_batch(SampleBatch.from_buffer(buffer))
    rows = server.query("SELECT * FROM samples")
    written = [*names[:4], "end\\.", "two\\nlines", "Δp ü", "a\\. b"]
    assert [row["device"] for row in rows] == [*written, "time"]
    for number, row in enumerate(rows):
        assert [row[name] for name in (*written, "field_time")] == [number + 0.5] * len(names)


async def test_rows_wait_while_the_server_is_away(
    server: InfluxServer, sink: Any, tmp_path: Path
) -> None:
    opened = sink()
    async with opened:
        await opened.write_batch(flow_batch(10))
        await opened.flush()
        server.kill()
        for first in range(10, 60, 10):
            await opened.write_batch(flow_batch(10, first))
            await opened.flush()  # durable, though nobody answers
        assert opened.rows_at_risk == 0
        await until(lambda: opened.trouble)
        assert opened.rows_waiting >= 50
        assert (tmp_path / "spool").is_dir()
        await anyio.to_thread.run_sync(server.start)
    assert flows(server) == [float(n) for n in range(60)]
    assert (opened.trouble, opened.rows_waiting) == (None, 0)


async def test_a_spool_that_is_left_is_sent_by_the_next_sink(
    server: InfluxServer, sink: Any, tmp_path: Path
) -> None:
    server.kill()
    opened = sink()
    await opened.open()  # a recorder begins without its data base
    await opened.write_batch(flow_batch(5))
    with pytest.raises(SinkWriteError, match=r"did not accept the last rows \(.*\): they wait in"):
        await opened.close()
    await anyio.to_thread.run_sync(server.start)
    async with sink() as again:
        await again.write_batch(flow_batch(5, 5))
    assert flows(server) == [float(n) for n in range(10)]
    assert not (tmp_path / "spool").exists()


async def test_a_server_that_hangs_delays_nobody(server: InfluxServer, sink: Any) -> None:
    opened = sink(timeout=0.2)
    await opened.open()
    await opened.write_batch(flow_batch(5))
    await opened.flush()
    server.pause()
    try:
        await opened.write_batch(flow_batch(5, 5))
        await opened.flush()
        await until(lambda: opened.trouble)
        with pytest.raises(SinkWriteError, match=r"no answer within 0\.2 s\): they wait in"):
            await opened.close()
    finally:
        server.resume()
    async with sink():
        pass
    assert flows(server) == [float(n) for n in range(10)]


@pytest.mark.parametrize("seed", range(2))
async def test_a_server_that_is_killed_at_random_has_each_row_once(
    server: InfluxServer, sink: Any, seed: int
) -> None:
    chance = random.Random(seed)
    rows = 0
    async with sink(loss_interval=0.02) as opened:
        for _ in range(6):
            rows = await write_at_random(opened, chance, rows)
            await anyio.to_thread.run_sync(server.kill)
            await opened.write_batch(flow_batch(3, rows))
            rows += 3
            await anyio.sleep(chance.choice([0, 0.05]))
            await anyio.to_thread.run_sync(server.start)
    assert flows(server) == [float(n) for n in range(rows)]


async def test_a_field_of_another_type_costs_that_field_alone(
    server: InfluxServer, sink: Any
) -> None:
    server.write(f"samples Mass_Flow=3i {NOON_NS}")
    opened = sink()
    await opened.open()
    await opened.write_batch(flow_batch(4))
    with pytest.raises(SinkWriteError, match=r"refused 4 rows.*Mass_Flow was left out"):
        await opened.close()
    assert [row["Gas"] for row in server.query("SELECT Gas FROM samples")] == ["N2"] * 4
    text = opened.refused_lines.read_text()
    assert text.count("Mass_Flow=") == 4
    assert 'field type conflict: input field "Mass_Flow"' in text


async def test_a_line_that_is_refused_costs_that_line_alone(
    server: InfluxServer, sink: Any
) -> None:
    buffer = ColumnBuffer(RecordSchema((Field("Mass_Flow", "float"),)))
    for number in range(20):
        device = "x" * 70_000 if number == 7 else "fuel"  # longer than a key may be
        buffer.append_row(
            device, None, 0, NOON_NS + number, 0, 5, {"Mass_Flow": float(number)}, "", None
        )
    opened = sink()
    await opened.open()
    await opened.write_batch(SampleBatch.from_buffer(buffer))
    await opened.write_batch(flow_batch(3, 20))
    with pytest.raises(SinkWriteError, match="refused 1 rows"):
        await opened.close()
    assert flows(server) == [float(n) for n in range(23) if n != 7]
    [comment, line] = opened.refused_lines.read_text().splitlines()
    assert comment.startswith("# ")
    assert "Mass_Flow=7 " in line


async def test_a_database_that_is_not_there_is_told_at_once(
    server: InfluxServer, sink: Any, tmp_path: Path
) -> None:
    with pytest.raises(SinkWriteError, match=r"database not found.*create nowhere there"):
        await sink(server.url("nowhere")).open()
    assert not (tmp_path / "spool").exists()


async def test_a_password_comes_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with influx_server(auth=True) as server:
        server.query("CREATE USER admin WITH PASSWORD 'secret' WITH ALL PRIVILEGES")
        server.login = ("admin", "secret")
        server.query("CREATE DATABASE lab")

        def sink() -> InfluxSink:
            return InfluxSink(server.url(), spool=tmp_path / "spool", **PATIENT)

        with pytest.raises(SinkWriteError, match=r"answered 40[13].*INFLUX_TOKEN"):
            await sink().open()
        monkeypatch.setenv("INFLUX_USERNAME", "admin")
        monkeypatch.setenv("INFLUX_PASSWORD", "secret")
        async with sink() as opened:
            await opened.write_batch(flow_batch(2))
        assert "secret" not in repr(opened)
        assert len(server.query("SELECT Mass_Flow FROM samples")) == 2


async def test_victoriametrics_drops_what_comes_twice(tmp_path: Path) -> None:
    with victoria_server("-dedup.minScrapeInterval=1ms") as server:
        for _ in range(2):  # as after a kill before the answer was noted
            async with InfluxSink(server.url(), spool=tmp_path / "spool", **PATIENT) as opened:
                await opened.write_batch(flow_batch(20))
        [found] = [
            each for each in server.exported() if each["metric"]["__name__"].endswith("_Flow")
        ]
        assert found["metric"]["device"] == "fuel"
        assert found["values"] == list(range(20))


async def test_a_recorder_that_is_killed_keeps_all_that_was_durable(
    server: InfluxServer, sink: Any, tmp_path: Path
) -> None:
    """Killed while the server is away, and its spool sent by the next one."""
    server.kill()
    reader, writer = os.pipe()
    child = os.fork()
    if not child:

        async def record() -> None:
            opened = sink()
            await opened.open()
            rows = 0
            while True:
                await opened.write_batch(flow_batch(10, rows))
                await opened.flush()
                rows += 10
                os.write(writer, rows.to_bytes(8, "little"))

        try:
            anyio.run(record)
        finally:
            os._exit(1)
    os.close(writer)
    with open(reader, "rb") as told:
        for _ in range(20):
            durable = int.from_bytes(told.read(8), "little")
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        while more := told.read(8):
            durable = int.from_bytes(more, "little")
    await anyio.to_thread.run_sync(server.start)
    async with sink():
        pass
    found = flows(server)
    assert found == [float(n) for n in range(len(found))]
    assert len(found) >= durable
