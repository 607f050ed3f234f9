"""The NATS sink against a real server, which is killed, paused and started again."""

from __future__ import annotations

import asyncio
import gc
import json
import random
import struct
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pyarrow
import pytest
import trustme

from penstock.files import SegmentedLog
from penstock.record import ColumnBuffer, NatsSink, SampleBatch, SinkWriteError
from penstock.record._nats.arrow_messages import DeviceMessage, subject_token
from penstock.record._nats.connection import NatsConnection, Reply
from penstock.record._nats.jetstream import Login
from penstock.record._nats.nats_sink import NatsTransport, nats_address
from penstock.record._network import spool_sender
from penstock.record._network.protocol import Away, Misconfigured
from tests.python.conftest import BACKENDS
from tests.python.integration.daemons import PATIENT, until
from tests.python.integration.nats import NatsServer, nats_server
from tests.python.record.batches import MASS_FLOW, NOON_NS, flow_batch, typed_batch, write_at_random

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


@pytest.fixture(scope="module", params=BACKENDS[-2:])
def anyio_backend(request: pytest.FixtureRequest) -> Any:
    """Two loops: the sinks have a loop of their own."""
    return request.param


@pytest.fixture(scope="module")
def running() -> Iterator[NatsServer]:
    with nats_server() as server:
        yield server


@pytest.fixture
def server(running: NatsServer) -> NatsServer:
    running.empty()
    return running


@pytest.fixture
def sink(server: NatsServer, tmp_path: Path) -> Any:
    def make(**options: Any) -> NatsSink:
        return NatsSink(server.url(), spool=tmp_path / "spool", **{**PATIENT, **options})

    return make


def flows(server: NatsServer) -> list[float]:
    return [
        value
        for _, _, table in server.messages()
        if "Mass_Flow" in table.column_names
        for value in table["Mass_Flow"].to_pylist()
    ]


async def test_a_device_has_a_subject_with_arrow_batches(
    server: NatsServer, sink: Any, tmp_path: Path
) -> None:
    async with sink() as opened:
        await opened.write_batch(flow_batch(3))
        await opened.write_batch(flow_batch(2, 3))
        await opened.flush()
        await opened.write_batch(flow_batch(2, 5))
        await opened.write_batch(typed_batch())
    assert not (tmp_path / "spool").exists()
    messages = await anyio.to_thread.run_sync(server.messages)
    run = messages[0][0].split(".")[1]
    assert [subject for subject, _, _ in messages] == [
        f"lab.{run}.fuel",
        f"lab.{run}.fuel",
        f"lab.{run}.a",
    ]
    assert f"Nats-Msg-Id: {run}/fuel/2\r\n" in messages[1][1]
    assert "Penstock-Row: 5\r\n" in messages[1][1]
    assert pyarrow.concat_tables([messages[0][2], messages[1][2]])["Mass_Flow"].to_pylist() == [
        float(n) for n in range(7)
    ]
    assert messages[0][2].schema.field("Mass_Flow").metadata[b"unit"] == b"SCCM"
    assert messages[2][2]["Count"].to_pylist() == [2**53 + 1, None, 2]
    config = server.ask("STREAM.INFO.lab")["config"]
    assert (config["subjects"], config["discard"]) == (["lab.>"], "new")


async def test_messages_fit_the_server(server: NatsServer, sink: Any) -> None:
    chance = random.Random(1)
    buffer = ColumnBuffer(MASS_FLOW)
    for number in range(20_000):
        value = {"Mass_Flow": chance.random()}
        buffer.append_row(
            f"d{number % 2}", None, 1, NOON_NS + number, 1, 5 + number, value, "", None
        )
    async with sink() as opened:
        await opened.write_batch(SampleBatch.from_buffer(buffer))
    messages = await anyio.to_thread.run_sync(server.messages)
    assert len(messages) > 2
    assert sum(table.num_rows for _, _, table in messages) == 20_000


async def test_a_server_that_is_killed_at_random_has_each_row_once(
    server: NatsServer, sink: Any
) -> None:
    chance = random.Random(3)
    rows = 0
    async with sink(loss_interval=0.02) as opened:
        for _ in range(5):
            rows = await write_at_random(
                opened, chance, rows, times=6, many=200, pauses=(0, 0.01, 0.03)
            )
            if chance.random() < 0.3:
                server.pause()
                await opened.write_batch(flow_batch(5, rows))
                rows += 5
                await anyio.sleep(0.05)
                server.resume()
            else:
                await anyio.to_thread.run_sync(server.kill)
                await opened.write_batch(flow_batch(5, rows))
                rows += 5
                await opened.flush()
                await anyio.to_thread.run_sync(server.start)
    assert await anyio.to_thread.run_sync(flows, server) == [float(n) for n in range(rows)]


async def test_what_a_stream_has_lost_is_sent_again(server: NatsServer, sink: Any) -> None:
    """As after a power cut: the stream's end was acknowledged, and is gone."""
    async with sink() as opened:
        for first in range(0, 50, 10):
            await opened.write_batch(flow_batch(10, first))
            await opened.flush()
        await until(lambda: not opened.rows_waiting)
        last = server.ask("STREAM.INFO.lab")["state"]["last_seq"]
        for number in (last - 1, last):
            assert server.ask("STREAM.MSG.DELETE.lab", {"seq": number})["success"]
        await anyio.to_thread.run_sync(server.kill)
        await anyio.to_thread.run_sync(server.start)
        await opened.write_batch(flow_batch(10, 50))
    assert await anyio.to_thread.run_sync(flows, server) == [float(n) for n in range(60)]


async def test_a_schema_is_before_the_rows_of_a_run_and_behind_them(
    server: NatsServer, sink: Any
) -> None:
    """So a stream that removes what is old by its age has it as long as the rows."""
    async with sink() as opened:
        for first in range(0, 50, 10):
            await opened.write_batch(flow_batch(10, first))
            await opened.flush()
    stored = [
        server.ask("STREAM.MSG.GET.lab", {"seq": number})["message"]
        for number in range(1, server.ask("STREAM.INFO.lab")["state"]["last_seq"] + 1)
    ]
    expected = [True, *[False] * 5, True]
    assert [".schema." in each["subject"] for each in stored] == expected
    of_schema = b"rate_hz"  # the recording's metadata
    assert [of_schema in b64decode(each["data"]) for each in stored] == expected
    assert stored[0]["data"] == stored[-1]["data"]


async def test_a_schema_that_the_stream_has_lost_is_told_again(
    server: NatsServer, sink: Any
) -> None:
    async with sink(lag=0) as opened:
        await opened.write_batch(flow_batch(10))
        await opened.flush()
        await until(lambda: not opened.rows_waiting)
        assert server.ask("STREAM.PURGE.lab", {"filter": "lab.*.schema.*"})["purged"] == 1
        await anyio.to_thread.run_sync(server.kill)
        await anyio.to_thread.run_sync(server.start)
        await opened.write_batch(flow_batch(10, 10))
        await opened.flush()
        await until(lambda: not opened.rows_waiting)
        subjects = server.ask("STREAM.INFO.lab", {"subjects_filter": ">"})["state"]["subjects"]
        assert sum(count for name, count in subjects.items() if ".schema." in name) == 1


async def test_a_schema_that_was_purged_is_there_before_the_next_rows(
    server: NatsServer, sink: Any
) -> None:
    """The server still knows its identity, for two minutes, and would drop the same one."""
    async with sink(lag=0) as opened:
        for first in (0, 10, 20):
            await opened.write_batch(flow_batch(10, first))
            await opened.flush()
            await until(lambda: not opened.rows_waiting)
            if first < 20:  # a second time too
                assert server.ask("STREAM.PURGE.lab")["purged"] == 2
        # Before the end, which tells the schema once more.
        assert await anyio.to_thread.run_sync(flows, server) == [float(n) for n in range(20, 30)]


@pytest.mark.parametrize(
    ("answer", "error", "reason"),
    [
        (b"{}", Away, r"to lab\.r\.fuel is not JetStream's: b'{}'"),
        (b'{"stream": "lab", "seq": "1"}', Away, "is not JetStream's"),
        (b"thanks", Away, "is not JetStream's: b'thanks'"),
        (b'{"stream": "other", "seq": 7}', Misconfigured, "is one of the stream other, not of lab"),
    ],
)
def test_an_answer_that_is_not_the_streams_is_no_acknowledgement(
    answer: bytes, error: type[Away], reason: str
) -> None:
    """Whoever has subscribed may answer too, and first."""

    class Answering:
        max_payload = 1 << 20

        async def request(self, subject: str, *_: Any) -> Reply:
            if subject.startswith("$JS.API.STREAM.MSG.GET."):
                return Reply(0, b'{"error": {"err_code": 10037}}')
            return Reply(0, answer)

    connection: Any = Answering()
    login = Login.of(None)
    address = nats_address("nats://h/lab")
    transport = NatsTransport(address, None, "lab", login, lag=0, timeout=60)
    message = DeviceMessage("lab.r.fuel", "r", "fuel", 1, 0, b"rows")
    for _ in range(2):
        with pytest.raises(Away, match=reason) as told:
            asyncio.run(transport._publish(connection, message))
        assert type(told.value) is error


@pytest.mark.parametrize("lag", [0.0, 150.0])
async def test_a_device_whose_rows_were_purged_by_hand_goes_on(
    server: NatsServer, sink: Any, lag: float
) -> None:
    """The stream has another last message than the recorder knows: none."""
    async with sink(lag=lag) as opened:
        for first in (0, 10, 20, 30):
            await opened.write_batch(flow_batch(10, first))
            await opened.flush()
            await until(lambda: not opened.rows_waiting)
            if first == 10:
                assert server.ask("STREAM.PURGE.lab", {"filter": "lab.*.fuel"})["purged"] == 2
    found = await anyio.to_thread.run_sync(flows, server)
    assert found == [float(n) for n in range(20, 40)]


async def test_a_stream_that_was_removed_by_hand_is_made_again(
    server: NatsServer, sink: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spool_sender, "_RARELY_S", 0.05)
    async with sink() as opened:
        for first in (0, 10):
            await opened.write_batch(flow_batch(10, first))
            await opened.flush()
            await until(lambda: not opened.rows_waiting)
            if first == 0:
                await anyio.to_thread.run_sync(server.empty)
    # What it may have lost, by what the recorder knows, it gets again.
    assert await anyio.to_thread.run_sync(flows, server) == [float(n) for n in range(20)]


async def test_a_spool_of_an_earlier_version_is_sent(server: NatsServer, tmp_path: Path) -> None:
    """There each message has its schema."""
    stream = pyarrow.BufferOutputStream()
    table = pyarrow.Table.from_batches([flow_batch(3).to_arrow()])
    with pyarrow.ipc.new_stream(stream, table.schema) as writer:
        writer.write_table(table)
    facts = ["lab.r1.fuel", "r1", "fuel", 1, 0]
    payload = json.dumps(facts).encode() + b"\n" + stream.getvalue().to_pybytes()
    async with SegmentedLog(tmp_path / "spool") as log:
        await log.append(struct.pack("<4sI", b"NTA1", 3) + payload)
    async with NatsSink(server.url(), spool=tmp_path / "spool", **PATIENT) as opened:
        await opened.write_batch(flow_batch(2, 3))
    found = await anyio.to_thread.run_sync(flows, server)
    assert found == [float(n) for n in range(5)]


async def test_a_spool_that_is_left_is_sent_by_the_next_sink(server: NatsServer, sink: Any) -> None:
    server.kill()
    opened = sink()
    await opened.open()
    await opened.write_batch(flow_batch(5))
    with pytest.raises(SinkWriteError, match="they wait in"):
        await opened.close()
    await anyio.to_thread.run_sync(server.start)
    async with sink() as again:
        await again.write_batch(flow_batch(5, 5))
    assert await anyio.to_thread.run_sync(flows, server) == [float(n) for n in range(10)]


async def test_a_full_stream_lets_rows_wait(server: NatsServer, sink: Any) -> None:
    config = {"name": "lab", "subjects": ["lab.>"], "discard": "new", "max_msgs": 1}
    assert "error" not in server.ask("STREAM.CREATE.lab", config)
    async with sink() as opened:
        for first in (0, 5):
            await opened.write_batch(flow_batch(5, first))
            await opened.flush()
        await until(lambda: opened.trouble is not None)
        assert "maximum messages exceeded" in opened.trouble
        server.ask("STREAM.UPDATE.lab", {**config, "max_msgs": 100})
    assert await anyio.to_thread.run_sync(flows, server) == [float(n) for n in range(10)]


async def test_a_check_makes_no_stream(server: NatsServer, sink: Any) -> None:
    await sink().check()
    assert "error" in server.ask("STREAM.INFO.lab")


async def test_a_server_without_jetstream_is_told_at_once(tmp_path: Path) -> None:
    with nats_server(jetstream=False) as server:
        made = NatsSink(server.url(), spool=tmp_path / "spool")
        with pytest.raises(SinkWriteError, match="has no JetStream"):
            await made.open()


async def test_who_may_not_connect_is_told_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with nats_server("authorization { user: me, password: secret }") as server:
        made = NatsSink(server.url(), spool=tmp_path / "spool")
        with pytest.raises(SinkWriteError, match="Authorization Violation"):
            await made.open()
        monkeypatch.setenv("NATS_USER", "me")
        monkeypatch.setenv("NATS_PASSWORD", "secret")
        async with NatsSink(server.url(), spool=tmp_path / "spool", **PATIENT) as opened:
            await opened.write_batch(flow_batch(1))
        assert "secret" not in repr(opened)


async def test_the_connection_is_encrypted(tmp_path: Path) -> None:
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1")
    certificate.private_key_pem.write_to_path(tmp_path / "key")
    certificate.cert_chain_pems[0].write_to_path(tmp_path / "cert")
    authority.cert_pem.write_to_path(tmp_path / "ca")
    settings = f'tls {{ cert_file: "{tmp_path}/cert", key_file: "{tmp_path}/key" }}'
    with nats_server(settings) as server:
        encrypted = server.url().replace("nats://", "natss://")
        with pytest.raises(SinkWriteError, match="write natss:// instead of nats://"):
            await NatsSink(server.url(), spool=tmp_path / "spool").open()
        with pytest.raises(SinkWriteError, match="certificate is not trusted"):
            await NatsSink(encrypted, spool=tmp_path / "spool").open()
        made = NatsSink(encrypted, spool=tmp_path / "spool", ca_file=tmp_path / "ca", **PATIENT)
        async with made as opened:
            await opened.write_batch(flow_batch(3))
            await opened.flush()
    assert opened.rows_waiting == 0


def test_a_connection_that_is_lost_while_a_request_is_sent_leaves_no_error_behind(
    server: NatsServer,
) -> None:
    unretrieved: list[dict[str, Any]] = []

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, each: unretrieved.append(each))
        connection = await NatsConnection.connect("127.0.0.1", server.port, None, {}, 60)

        async def drain() -> None:
            connection._lose("the server closed the connection")
            raise ConnectionResetError("reset")

        connection._writer.drain = drain  # type: ignore[method-assign]
        with pytest.raises(Away):
            await connection.request("lab.x", b"", {}, 60)
        await connection.close()
        gc.collect()

    asyncio.run(main())
    assert unretrieved == []


def test_names_become_tokens() -> None:
    assert subject_token("fuel_1-A") == "fuel_1-A"
    assert subject_token("a b.c*>ü") == "a%20b%2Ec%2A%3E%C3%BC"
    assert (subject_token(""), subject_token("-")) == ("-", "%2D")
    stored = DeviceMessage("s", "r", 'de"v\n', 3, 7, b"\n{}").stored()
    assert DeviceMessage.read(stored).data == b"\n{}"
    assert DeviceMessage.read(stored).device == 'de"v\n'


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("nats://me:secret@host/x", r"must not contain a user or a password.*NATS_TOKEN"),
        ("nats://host/a.*", "is not a subject"),
        ("nats://host/a b", "is not a subject"),
    ],
)
def test_a_wrong_address_is_refused_without_its_secret(url: str, message: str) -> None:
    with pytest.raises(ValueError, match=message) as refused:
        NatsSink(url)
    assert "secret" not in str(refused.value)
