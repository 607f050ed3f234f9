"""Messages of a spool to an MQTT broker."""

from __future__ import annotations

import asyncio
import json
import secrets
import ssl
import time

from penstock.record._mqtt.broker import Broker
from penstock.record._mqtt.json_messages import messages_of
from penstock.record._mqtt.packets import Message
from penstock.record._network.protocol import Away, Misconfigured
from penstock.record._network.rows import RefusedRows
from penstock.record._network.server import BrokerAddress, Secret
from penstock.record.errors import SinkWriteError

__all__ = ["MqttTransport"]


class MqttTransport:
    """A :class:`~penstock.record._network.protocol.Transport` of JSON messages of QoS 1.

    While it is connected, the retained message ``PREFIX/status`` says ``online``; the broker itself
    says ``offline`` when the connection ends in whatever way.
    """

    def __init__(
        self,
        address: BrokerAddress,
        tls: ssl.SSLContext | None,
        user: Secret,
        password: Secret,
        refused: RefusedRows,
        *,
        lag: float,
        timeout: float,
    ) -> None:
        self.lag = self.grace = lag
        self._address = address
        self._tls = tls
        self._user = user
        self._password = password
        self._refused = refused
        self._timeout = timeout
        self._client = f"penstock-{secrets.token_hex(6)}"
        self._broker: Broker | None = None

    def __str__(self) -> str:
        return str(self._address)

    def refusals(self) -> str:
        """Where the refused rows are, and why they were refused."""
        return f"those are in {self._refused.path} ({self._refused.reason})"

    async def check(self) -> None:
        await self._connected()

    async def probe(self) -> None:
        broker = await self._connection(will=None)
        await broker.close()

    async def send(self, payload: bytes) -> int:
        broker = await self._connected()
        messages = await asyncio.to_thread(messages_of, payload)
        # The head of a packet, its topic and its id take at most so much more.
        most = broker.maximum_size - 16
        large = [pair for pair in messages if len(pair[0]) + len(pair[1]) > most]
        if large:
            messages = [pair for pair in messages if len(pair[0]) + len(pair[1]) <= most]
        await broker.publish(messages, self._timeout)
        if large:
            reason = f"larger than the {broker.maximum_size} bytes that the broker takes"
            await asyncio.to_thread(self._refused.add, [text for _, text in large], reason)
        return len(large)

    async def close(self) -> None:
        broker, self._broker = self._broker, None
        if broker is not None:
            await broker.close(self._status("offline"))

    def _status(self, state: str) -> Message:
        text = json.dumps({"status": state, "client": self._client, "time": round(time.time(), 3)})
        return Message(f"{self._address.name}/status", text.encode(), 1, retain=True)

    async def _connected(self) -> Broker:
        """The broker; a connection that was lost is told once, before there is another."""
        broker = self._broker
        if broker is not None and broker.lost_at is not None:
            self._broker = None
            await broker.close()
            raise Away("the connection was lost", lost_at=broker.lost_at)
        if broker is None:
            broker = self._broker = await self._connection(self._status("offline"))
            await broker.announce(self._status("online"))
        return broker

    async def _connection(self, will: Message | None) -> Broker:
        try:
            user, password = self._user.read(), self._password.read()
        except SinkWriteError as error:
            raise Misconfigured(str(error)) from error
        return await Broker.connect(
            self._address.host,
            self._address.port,
            self._tls,
            client=self._client,
            will=will,
            user=user,
            password=password,
            timeout=self._timeout,
        )
