"""A connection to an MQTT 5 broker: messages in, acknowledgements out. It does not reconnect.

The sender decides what a lost connection means, so each connection has one object, and nothing is
sent again unless the sender does it. aiomqtt was not taken for this reason: paho-mqtt, on which it
stands, keeps unacknowledged messages in memory and sends them again after a reconnect. Here the
spool does that, from the disk; with both, each of those rows would be sent twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import time
from collections.abc import Callable, Iterable

from penstock.record._mqtt.packets import (
    CONNACK,
    DISCONNECT,
    LONGEST_TOPIC,
    PING_REQUEST,
    PINGRESP,
    PUBACK,
    PUBLISH,
    Malformed,
    Message,
    Packet,
    PacketParser,
    acknowledged,
    connect_packet,
    disconnect_packet,
    publish_packet,
    published,
    subscribe_packet,
    welcomed,
)
from penstock.record._network.protocol import Away, Misconfigured, as_away

_KEEP_ALIVE_S = 30
# Reason codes (2.4) that another attempt does not change: credentials, rights, names; and one that
# it makes worse: of two clients with one id, each attempt ends the session of the other.
_NEVER = frozenset({0x84, 0x85, 0x86, 0x87, 0x8A, 0x8C, 0x8E, 0x90, 0x9A, 0x9B, 0x9D})
_RETAIN_REFUSED = 0x9A
_NAMES = {
    0x80: "unspecified error",
    0x81: "malformed packet",
    0x82: "protocol error",
    0x84: "it does not speak MQTT 5",
    0x85: "client id not valid",
    0x86: "bad user name or password",
    0x87: "not authorized",
    0x88: "server unavailable",
    0x89: "server busy",
    0x8A: "banned",
    0x8B: "server shutting down",
    0x8D: "keep alive timeout",
    0x8E: "session taken over by another client with this id: give one of the two another name",
    0x90: "topic name invalid",
    0x93: "receive maximum exceeded",
    0x95: "packet too large",
    0x97: "quota exceeded",
    0x9A: "retain not supported",
    0x9B: "QoS not supported",
}
_MOST_IN_FLIGHT = 1000


class RetainRefused(Misconfigured):
    """The broker keeps no messages for later subscribers, and takes no will that it should keep."""


class Broker:
    """One connection. Used by one task at a time.

    Attributes:
        maximum_size: the largest packet that the broker takes.
        retains: whether the broker keeps messages for later subscribers.
        lost_at: when the connection has ended, by the monotonic clock; None while it has not.
    """

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        on_message: Callable[[Message], None] | None,
    ) -> None:
        self.maximum_size = 1 << 28
        self.retains = True
        self.lost_at: float | None = None
        self._reader = reader
        self._writer = writer
        self._on_message = on_message
        self._parser = PacketParser()
        self._window = 1
        self._next_id = 0
        self._waiting: dict[int, None] = {}
        self._pings = self._pongs = 0
        self._keep_alive_s: float = _KEEP_ALIVE_S
        self._refusal: int | None = None
        self._changed = asyncio.Event()
        self._reason = "the connection was closed"
        self._tasks: list[asyncio.Task[None]] = []

    @classmethod
    async def connect(
        cls,
        host: str,
        port: int,
        tls: ssl.SSLContext | None,
        *,
        client: str,
        will: Message | None,
        user: str | None,
        password: str | None,
        timeout: float,
        on_message: Callable[[Message], None] | None = None,
    ) -> Broker:
        """Connect, and return once the broker has welcomed this client.

        Raises:
            Misconfigured: the broker refuses who connects.
            Away: it does not answer, or not now.
        """
        writer: asyncio.StreamWriter | None = None
        try:
            async with asyncio.timeout(timeout):
                reader, writer = await asyncio.open_connection(host, port, ssl=tls)
                broker = cls(reader, writer, on_message)
                writer.write(connect_packet(client, _KEEP_ALIVE_S, will, user, password))
                await broker._welcome()
        except BaseException as error:
            if writer is not None:
                writer.transport.abort()
            if (away := as_away(error, timeout, (Malformed,))) is not None:
                raise away from error
            raise
        broker._tasks = [
            asyncio.create_task(broker._receive()),
            asyncio.create_task(broker._ping()),
        ]
        return broker

    async def _welcome(self) -> None:
        while True:
            data = await self._reader.read(1 << 16)
            if not data:
                raise EOFError
            for packet in self._parser.feed(data):
                welcome = welcomed(packet)
                if welcome.reason >= 0x80:
                    raise _refused(welcome.reason, welcome.text)
                if welcome.maximum_qos < 1:
                    raise Misconfigured("the broker takes messages of QoS 0 only")
                self.maximum_size = welcome.maximum_size
                self.retains = welcome.retains
                if welcome.keep_alive is not None:
                    self._keep_alive_s = welcome.keep_alive
                self._window = min(welcome.receive_maximum, _MOST_IN_FLIGHT)
                return

    async def publish(self, messages: Iterable[tuple[bytes, bytes]], timeout: float) -> None:
        """Send messages (topic, payload) of QoS 1; return when the broker has acknowledged all.

        Raises:
            Misconfigured: the broker refuses a message for good.
            Away: the connection is lost, or the broker does not answer within ``timeout`` seconds
                from the last acknowledgement. Any of the messages may have arrived.
        """
        batch: list[bytes] = []
        for topic, payload in messages:
            while len(self._waiting) >= self._window:
                await self._flush(batch)
                await self._acknowledgement(timeout)
            self._next_id = self._next_id % 0xFFFF + 1
            self._waiting[self._next_id] = None
            batch.append(publish_packet(topic, payload, self._next_id))
        await self._flush(batch)
        while self._waiting:
            await self._acknowledgement(timeout)
        self._check()

    async def hand_over(self, messages: Iterable[tuple[bytes, bytes]], timeout: float) -> None:
        """Send messages of QoS 0, which nobody acknowledges; see :meth:`wait_until_read`.

        Raises:
            Misconfigured: a message is larger than the broker takes, or its topic longer than a
                topic can be. None has left.
            Away: the connection is lost, or none leaves within ``timeout`` seconds.
        """
        batch: list[bytes] = []
        for topic, payload in messages:
            if len(topic) > LONGEST_TOPIC:
                raise Misconfigured(
                    f"a topic of {len(topic)} bytes is longer than MQTT's {LONGEST_TOPIC}: give "
                    "the device a shorter name"
                )
            batch.append(publish_packet(topic, payload, 0))
        largest = max(map(len, batch), default=0)
        if largest > self.maximum_size:
            raise Misconfigured(
                f"a message of {largest} bytes is larger than the {self.maximum_size} bytes that "
                "the broker takes: raise its limit"
            )
        await self._hand_over(batch, timeout)

    async def wait_until_read(self, timeout: float) -> None:
        """Return when the broker has read what was handed over: it answers in order, even a ping.

        Without that, a connection that is dead and tells nobody takes messages for many minutes.

        Raises:
            Away: the connection is lost, or the broker does not answer within ``timeout`` seconds.
                Any of the messages may have arrived.
        """
        self._pings += 1
        last = self._pings
        await self._hand_over([PING_REQUEST], timeout)
        await self._until(lambda: self._pongs >= last, timeout)

    async def _hand_over(self, batch: list[bytes], timeout: float) -> None:
        try:
            async with asyncio.timeout(timeout):
                await self._flush(batch)
        except TimeoutError:
            self._lose(f"nothing was taken within {timeout:g} s")
            self._check()

    async def announce(self, message: Message) -> None:
        """Send one message of QoS 0 or 1, without waiting for its acknowledgement. Away.

        To a broker that keeps nothing it is sent as one that need not be kept.
        """
        packet_id = 0
        if message.qos:
            self._next_id = self._next_id % 0xFFFF + 1
            self._waiting[self._next_id] = None
            packet_id = self._next_id
        topic, retain = message.topic.encode(), message.retain and self.retains
        await self._flush([publish_packet(topic, message.payload, packet_id, retain=retain)])

    async def subscribe(self, topic_filter: str) -> None:
        """Ask for messages, which ``on_message`` gets. Away."""
        await self._flush([subscribe_packet(1, topic_filter)])

    async def close(self, farewell: Message | None = None, reason: int = 0) -> None:
        """Say a last message and good-bye, as far as that is possible, and close."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        if self.lost_at is None:
            with contextlib.suppress(OSError, TimeoutError):
                if farewell is not None:
                    topic, payload = farewell.topic.encode(), farewell.payload
                    retain = farewell.retain and self.retains
                    self._writer.write(publish_packet(topic, payload, 0, retain=retain))
                self._writer.write(disconnect_packet(reason))
                self._writer.close()
                async with asyncio.timeout(1):
                    await self._writer.wait_closed()
        self._writer.transport.abort()
        self.lost_at = self.lost_at or time.monotonic()

    async def _flush(self, batch: list[bytes]) -> None:
        self._check()
        if batch:
            data = b"".join(batch)
            batch.clear()
            try:
                self._writer.write(data)
                await self._writer.drain()
            except OSError as error:
                self._lose(" ".join(str(error).split()))
                self._check()

    async def _acknowledgement(self, timeout: float) -> None:
        """Return when the broker has acknowledged one more of those that wait."""
        waiting = len(self._waiting)
        await self._until(lambda: len(self._waiting) < waiting, timeout)

    async def _until(self, is_done: Callable[[], bool], timeout: float) -> None:
        """Return when ``is_done``; other words of the broker, such as answers to pings, are none.

        Raises:
            Away: the connection is lost, or that takes longer.
        """
        self._check()  # the loss may have come before this waits for it
        try:
            async with asyncio.timeout(timeout):
                while not is_done():
                    self._changed.clear()
                    await self._changed.wait()
                    self._check()
        except TimeoutError:
            self._lose(f"no acknowledgement within {timeout:g} s")
        self._check()

    @property
    def loss(self) -> Away | None:
        """Why and when the connection was lost, as an error; None while it is not."""
        if self._refusal is not None:
            return _refused(self._refusal, "", self.lost_at)
        if self.lost_at is not None:
            return Away(self._reason, lost_at=self.lost_at)
        return None

    def _check(self) -> None:
        if (loss := self.loss) is not None:
            raise loss

    def _lose(self, reason: str) -> None:
        if self.lost_at is None:
            self.lost_at = time.monotonic()
            self._reason = reason
            self._writer.transport.abort()
        self._changed.set()

    async def _receive(self) -> None:
        try:
            while data := await self._reader.read(1 << 16):
                for packet in self._parser.feed(data):
                    self._take(packet)
            self._lose("the broker closed the connection")
        except (OSError, Malformed) as error:
            self._lose(" ".join(str(error).split()) or type(error).__name__)

    def _take(self, packet: Packet) -> None:
        if packet.kind == PUBACK:
            answer = acknowledged(packet)
            self._waiting.pop(answer.packet_id, None)
            # 0x10: nobody has subscribed, which is not ours to judge.
            if answer.reason >= 0x80:
                self._refusal = answer.reason
                self._lose("a message was refused")
            self._changed.set()
        elif packet.kind == PUBLISH:
            message, packet_id = published(packet)
            if packet_id:
                self._writer.write(b"\x40\x02" + packet_id.to_bytes(2, "big"))
            if self._on_message is not None:
                self._on_message(message)
        elif packet.kind == DISCONNECT:
            reason = packet.body[0] if packet.body else 0
            if reason in _NEVER:
                self._refusal = reason
            self._lose(f"the broker ended the connection: {_name(reason)}")
        elif packet.kind == PINGRESP:
            self._pongs += 1
            self._changed.set()
        elif packet.kind == CONNACK:
            raise Malformed("a second CONNACK")

    async def _ping(self) -> None:
        # The time may be the broker's (3.2.2.3.14), and 0 is none.
        while self._keep_alive_s:
            await asyncio.sleep(self._keep_alive_s / 2)
            self._pings += 1
            self._writer.write(PING_REQUEST)


def _name(reason: int) -> str:
    return f"{_NAMES.get(reason, 'reason')} (0x{reason:02x})"


def _refused(reason: int, text: str, lost_at: float | None = None) -> Away:
    said = f"the broker refuses: {_name(reason)}" + (f", {text}" if text else "")
    if reason == _RETAIN_REFUSED:
        return RetainRefused(said, lost_at=lost_at)
    if reason in _NEVER:
        return Misconfigured(said, lost_at=lost_at)
    return Away(said, lost_at=lost_at)
