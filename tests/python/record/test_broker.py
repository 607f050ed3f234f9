"""A connection to a broker that follows a script: what it announces, and what it never answers."""

from __future__ import annotations

import asyncio
import errno
import json
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.record import ColumnBuffer, Field, RecordSchema, SampleBatch
from penstock.record._mqtt import broker as broker_module
from penstock.record._mqtt.broker import Broker
from penstock.record._mqtt.broker_login import BrokerLogin
from penstock.record._mqtt.mqtt_sink import (
    JsonMessages,
    MqttTransport,
    messages_of,
    mqtt_address,
    topic_level,
)
from penstock.record._mqtt.packets import PUBLISH, Message, Packet, PacketParser, published
from penstock.record._mqtt.sparkplug_payload import SparkplugRows, fields_of, rows_of
from penstock.record._mqtt.sparkplug_sink import SparkplugTransport
from penstock.record._network.kept_connection import KeptConnection
from penstock.record._network.protocol import Away, Misconfigured
from penstock.record._network.rows import RefusedRows
from penstock.record._network.server import Secret
from tests.python.record.batches import NOON_NS

CONNECT, PINGREQ = 1, 12
PINGRESP = b"\xd0\x00"
TAKEN_OVER = b"\xe0\x02\x8e\x00"
MESSAGES = [(b"a/b", b"%d" % number) for number in range(3)]


def welcome(properties: bytes = b"") -> bytes:
    return bytes([0x20, 3 + len(properties), 0, 0, len(properties)]) + properties


def patient(packet: Packet) -> bytes:
    """What a broker answers that does all that it is asked for."""
    return {CONNECT: welcome(), PINGREQ: PINGRESP}.get(packet.kind, b"")


@asynccontextmanager
async def scripted(answer: Callable[[Packet], bytes]) -> AsyncIterator[BrokerLogin]:
    """A broker that answers each packet by ``answer``; who connects to it."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        parser = PacketParser()
        try:
            while data := await reader.read(1 << 16):
                for packet in parser.feed(data):
                    writer.write(answer(packet))
        except OSError:
            pass
        finally:
            writer.transport.abort()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with listening:
        port = listening.sockets[0].getsockname()[1]
        yield BrokerLogin("127.0.0.1", port, None, Secret(), Secret(), 60)


def test_a_time_of_the_brokers_own_for_pings_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_module, "_KEEP_ALIVE_S", 3600)
    pinged = asyncio.Event()

    def answer(packet: Packet) -> bytes:
        if packet.kind == PINGREQ:
            pinged.set()
        return welcome(b"\x13\x00\x01") if packet.kind == CONNECT else patient(packet)

    async def main() -> None:
        async with scripted(answer) as login:
            connection = await login.connect("c")
            async with asyncio.timeout(60):
                await pinged.wait()
            await connection.close()

    penstock.run(main())


def test_messages_that_nobody_acknowledges_are_handed_over_once_they_were_read() -> None:
    read: list[bytes] = []

    def answer(packet: Packet) -> bytes:
        if packet.kind == PUBLISH:
            read.append(published(packet)[0].payload)
        return patient(packet)

    async def main() -> None:
        async with scripted(answer) as login:
            connection = await login.connect("c")
            await connection.hand_over(MESSAGES, 60)
            await connection.wait_until_read(60)
            assert read == [payload for _, payload in MESSAGES]
            await connection.close()

    penstock.run(main())


def test_a_connection_that_is_dead_without_a_word_takes_no_messages() -> None:
    def answer(packet: Packet) -> bytes:
        return welcome() if packet.kind == CONNECT else b""

    async def main() -> None:
        async with scripted(answer) as login:
            connection = await login.connect("c")
            await connection.hand_over(MESSAGES, 60)
            with pytest.raises(Away, match=r"no acknowledgement within 0\.05 s"):
                await connection.wait_until_read(0.05)
            await connection.close()

    penstock.run(main())


def test_a_broker_that_answers_pings_and_acknowledges_nothing_is_away() -> None:
    """By its own time for pings, each answer would begin the wait for an acknowledgement anew."""

    def answer(packet: Packet) -> bytes:
        return welcome(b"\x13\x00\x01") if packet.kind == CONNECT else patient(packet)

    async def main() -> None:
        async with scripted(answer) as login:
            connection = await login.connect("c")
            async with asyncio.timeout(60):
                with pytest.raises(Away, match=r"no acknowledgement within 1\.2 s"):
                    await connection.publish(MESSAGES, 1.2)
            await connection.close()

    penstock.run(main())


def test_a_message_larger_than_the_broker_takes_is_told_and_not_sent() -> None:
    def answer(packet: Packet) -> bytes:
        assert packet.kind != PUBLISH
        return welcome(b"\x27\x00\x00\x00\x10") if packet.kind == CONNECT else patient(packet)

    async def main() -> None:
        async with scripted(answer) as login:
            connection = await login.connect("c")
            with pytest.raises(Misconfigured, match="is larger than the 16 bytes that"):
                await connection.hand_over([(b"a", bytes(20))], 60)
            assert connection.loss is None
            await connection.close()

    penstock.run(main())


def test_a_session_that_another_client_takes_over_is_told_before_it_is_taken_back() -> None:
    def answer(packet: Packet) -> bytes:
        if packet.kind == CONNECT:
            return welcome()
        return TAKEN_OVER if packet.kind == PINGREQ else b""

    async def main() -> None:
        async with scripted(answer) as login:
            made: list[Broker] = []

            async def begin() -> Broker:
                made.append(await login.connect("c"))
                return made[-1]

            kept = KeptConnection(begin)
            connection = await kept.get()
            assert await kept.get() is connection
            with pytest.raises(Misconfigured, match="give one of the two another name"):
                await connection.wait_until_read(60)
            with pytest.raises(Misconfigured, match="give one of the two another name") as told:
                await kept.get()
            assert told.value.lost_at == connection.lost_at
            another = await kept.get()
            assert made == [connection, another]
            assert kept.release() is another
            assert kept.release() is None
            await another.close()

    penstock.run(main())


def test_what_a_broker_cannot_keep_is_sent_to_those_who_listen() -> None:
    retained: list[bool] = []

    def answer(packet: Packet) -> bytes:
        if packet.kind == PUBLISH:
            retained.append(published(packet)[0].retain)
        return welcome(b"\x25\x00") if packet.kind == CONNECT else patient(packet)

    async def main() -> None:
        async with scripted(answer) as login:
            connection = await login.connect("c")
            await connection.announce(Message("a", b"", 0, retain=True))
            await connection.wait_until_read(60)
            await connection.close()

    penstock.run(main())
    assert retained == [False]


@pytest.mark.parametrize(
    ("name", "level"),
    [
        ("fuel 1,ü", "fuel 1,ü"),
        ("a/b+c#d$e%f", "a%2Fb%2Bc%23d%24e%25f"),
        ("a\x01\t\x7f\x85\ufffe", "a%01%09%7F%C2%85%EF%BF%BE"),
        ("", "-"),
        ("-", "%2D"),
    ],
)
def test_a_name_is_one_level_of_a_topic_that_every_broker_takes(name: str, level: str) -> None:
    assert topic_level(name) == level


def test_fields_that_are_called_like_the_identity_of_a_row_do_not_hide_it() -> None:
    """Nor those that are called as they are renamed."""
    fields = (Field("run", "text"), Field("row", "int"), Field("t_utc_ns", "float"))
    renamed = (Field("field_run", "text"), Field("field_row", "int"), Field("field_status", "int"))
    buffer = ColumnBuffer(RecordSchema(fields + renamed))
    values: dict[str, Any] = {"run": "A7", "row": 40, "t_utc_ns": 1.5}
    values |= {"field_run": "B", "field_row": 2, "status": 3}
    buffer.append_row("fuel", None, NOON_NS, NOON_NS, 1, 1, values, "", None)
    batch = SampleBatch.from_buffer(buffer)
    messages = JsonMessages("lab")
    messages.add(batch)
    [(_, payload)] = messages.take()
    [(_, text)] = messages_of(payload)
    pairs: list[tuple[str, Any]] = json.loads(text, object_pairs_hook=list)
    assert len(dict(pairs)) == len(pairs)
    assert (dict(pairs)["row"], dict(pairs)["field_row"], dict(pairs)["field_run"]) == (0, 40, "A7")
    assert (dict(pairs)["field_field_row"], dict(pairs)["field_field_run"]) == (2, "B")
    rows = SparkplugRows()
    rows.add(batch)
    [(_, payload)] = rows.take()
    [row] = rows_of(payload)
    assert (row.metrics["row"][2], row.metrics["field_row"][2]) == (0, 40)
    assert (row.metrics["t_utc_ns"][2], row.metrics["field_t_utc_ns"][2]) == (NOON_NS, 1.5)
    assert (row.metrics["field_field_row"][2], row.metrics["field_status"][2]) == (2, 3)


def test_a_name_that_no_topic_can_have_holds_nobody_up(tmp_path: Path) -> None:
    """Its rows are kept; a sink that fails of them would send no others."""
    seen: list[str] = []

    def answer(packet: Packet) -> bytes:
        if packet.kind != PUBLISH:
            return patient(packet)
        message, number = published(packet)
        seen.append(message.topic.partition("/")[2])
        return b"\x40\x02" + number.to_bytes(2, "big")

    buffer = ColumnBuffer(RecordSchema((Field("Flow", "float"),)))
    for device in ("a", "x" * 70_000, "b"):
        buffer.append_row(device, None, NOON_NS, NOON_NS, 1, 1, {"Flow": 1.0}, "", None)
    rows = SampleBatch.from_buffer(buffer)

    async def main() -> None:
        async with scripted(answer) as login:
            messages = JsonMessages("lab")
            messages.add(rows)
            [(_, payload)] = messages.take()
            address = mqtt_address("mqtt://h/lab")
            transport = MqttTransport(address, login, RefusedRows(tmp_path / "refused"), lag=0)
            assert await transport.send(payload) == 1
            await transport.close()
            assert seen == ["status", "samples/a", "samples/b", "status"][: len(seen)]
            assert len(seen) >= 3
            node = node_of(login, tmp_path)
            metrics = SparkplugRows()
            metrics.add(rows)
            with pytest.raises(Misconfigured, match=r"topic of 700.. bytes is longer than MQTT's"):
                await node.send(metrics.take()[0][1])
            await node.close()

    penstock.run(main())
    assert (tmp_path / "refused").read_text().count("xxx") >= 1


def node_of(login: BrokerLogin, folder: Path) -> SparkplugTransport:
    return SparkplugTransport("sparkplug://h", "plant", "lab", login, folder / "bdseq", lag=0)


def test_births_that_another_client_cuts_off_are_told_and_counted(tmp_path: Path) -> None:
    """A node that only begins, and never gets as far as its data, would do so for ever."""

    def answer(packet: Packet) -> bytes:
        if packet.kind == CONNECT:
            return welcome()
        return TAKEN_OVER if packet.kind == PINGREQ else b""

    async def main() -> None:
        async with scripted(answer) as login:
            node = node_of(login, tmp_path)
            for _ in range(3):
                with pytest.raises(Misconfigured, match="session taken over") as told:
                    await node.check()
                assert told.value.lost_at is not None
            with pytest.raises(Misconfigured, match="3 connections in a row have ended within"):
                await node.check()
            await node.close()

    penstock.run(main())


def test_a_disk_that_the_spool_has_filled_keeps_no_node_from_sending(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only what is sent makes room. The numbers of the connections go on."""
    numbers: list[int] = []
    error = errno.ENOSPC

    def answer(packet: Packet) -> bytes:
        if packet.kind == PUBLISH:
            message, _ = published(packet)
            for tag, metric in fields_of(message.payload):
                found = dict(fields_of(metric)) if tag == 2 and isinstance(metric, bytes) else {}
                if found.get(1) == b"bdSeq":
                    number = found[11]
                    assert isinstance(number, int)
                    numbers.append(number)
        return patient(packet)

    def refuse(*_: object, **__: object) -> int:
        raise OSError(error, os.strerror(error))

    async def main() -> None:
        nonlocal error
        async with scripted(answer) as login:
            node = node_of(login, tmp_path)
            for _ in range(3):
                await node.check()
                await node.close()
            error = errno.EACCES
            with pytest.raises(Misconfigured, match="Permission denied"):
                await node.check()

    (tmp_path / "bdseq").write_text("254\n")
    monkeypatch.setattr("penstock.record._mqtt.sparkplug_sink.put_file", refuse)
    penstock.run(main())
    assert numbers == [255, 0, 1]


def test_no_number_is_missing_behind_messages_that_could_not_leave(tmp_path: Path) -> None:
    """A host would ask for a rebirth, and have no name for a metric whose birth did not leave."""
    seen: list[tuple[str, int]] = []

    def answer(packet: Packet) -> bytes:
        if packet.kind == PUBLISH:
            message, _ = published(packet)
            [seq] = [value for tag, value in fields_of(message.payload) if tag == 3]
            assert isinstance(seq, int)
            seen.append((message.topic.split("/")[2], seq))
        return welcome(b"\x27\x00\x00\x02\x00") if packet.kind == CONNECT else patient(packet)

    buffer = ColumnBuffer(RecordSchema((Field("Gas", "text"),)))
    for row in range(300):
        gas = "x" * 600 if row == 299 else "N2"
        buffer.append_row("fuel", None, NOON_NS, NOON_NS + row, 1, 1, {"Gas": gas}, "", None)
    rows = SparkplugRows()
    rows.add(SampleBatch.from_buffer(buffer))
    [(_, payload)] = rows.take()

    async def main() -> None:
        async with scripted(answer) as login:
            node = node_of(login, tmp_path)
            for _ in range(2):
                with pytest.raises(Misconfigured, match="larger than the 512 bytes"):
                    await node.send(payload)
            await node.close()

    penstock.run(main())
    assert [kind for kind, _ in seen].count("DDATA") == 512
    expected = 0
    for kind, seq in seen:
        assert seq == (0 if kind == "NBIRTH" else expected)
        expected = (seq + 1) % 256
