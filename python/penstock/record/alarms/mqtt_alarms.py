"""Alarms to an MQTT broker."""

from __future__ import annotations

import json
import os
import secrets
from pathlib import Path
from typing import Any

from penstock.record._mqtt.broker import Broker
from penstock.record._mqtt.json_messages import topic_level
from penstock.record._mqtt.packets import Message
from penstock.record._network.protocol import Away
from penstock.record._network.server import BrokerAddress, Secret, trusting
from penstock.record.errors import SinkWriteError

__all__ = ["MqttAlarms"]

_PORTS = {"mqtt": 1883, "mqtts": 8883}
_SECRETS = "set MQTT_USERNAME and MQTT_PASSWORD in the environment, or name a password_file"
_TIMEOUT_S = 10.0


class MqttAlarms:
    """Publishes events with QoS 1.

    Each goes to ``PREFIX/alarm_events``, and is retained as the alarm's state in
    ``PREFIX/alarms/DEVICE/FIELD/NUMBER``. An event has its identity in ``id``: whoever gets one
    twice drops the second.

    Args:
        url: ``mqtt://HOST[:1883]/PREFIX``, or ``mqtts://`` for TLS.
        password_file: a file with the password; else the environment's MQTT_PASSWORD.
        ca_file: certificates (PEM) of an authority of your own.

    Raises:
        ValueError: the URL is malformed, or holds a password.
    """

    def __init__(
        self,
        url: str,
        *,
        password_file: str | os.PathLike[str] | None = None,
        ca_file: str | os.PathLike[str] | None = None,
    ) -> None:
        self._address = BrokerAddress.parse(url, _PORTS, name="penstock", secrets=_SECRETS)
        if any(each in self._address.name for each in "+#\0"):
            raise ValueError(f"the prefix {self._address.name!r} is no topic: leave out + and #")
        self._tls = trusting(ca_file) if self._address.scheme == "mqtts" else None
        self._user = Secret(None, "MQTT_USERNAME")
        self._password = Secret(
            None if password_file is None else Path(password_file), "MQTT_PASSWORD"
        )
        self._client = f"penstock-alarms-{secrets.token_hex(6)}"
        self._broker: Broker | None = None

    def __str__(self) -> str:
        return str(self._address)

    async def deliver(self, event: dict[str, Any]) -> None:
        """Publish an event, and return when the broker has acknowledged it. Away: it has not."""
        payload = json.dumps(event).encode()
        try:
            broker = await self._connected()
            levels = "/".join(map(topic_level, event["alarm"].split("/")))
            state = f"{self._address.name}/alarms/{levels}"
            await broker.announce(Message(state, payload, 1, retain=True))
            topic = f"{self._address.name}/alarm_events"
            await broker.publish([(topic.encode(), payload)], _TIMEOUT_S)
        except Away:
            await self.close()
            raise

    async def close(self) -> None:
        """Close the connection."""
        broker, self._broker = self._broker, None
        if broker is not None:
            await broker.close()

    async def _connected(self) -> Broker:
        if self._broker is not None and self._broker.lost_at is not None:
            await self.close()
        if self._broker is None:
            try:
                user, password = self._user.read(), self._password.read()
            except SinkWriteError as error:
                raise Away(str(error)) from error
            self._broker = await Broker.connect(
                self._address.host,
                self._address.port,
                self._tls,
                client=self._client,
                will=None,
                user=user,
                password=password,
                timeout=_TIMEOUT_S,
            )
        return self._broker
