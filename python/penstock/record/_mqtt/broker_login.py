"""How a client reaches its broker, and tells who it is."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from penstock.record._mqtt.broker import Broker
from penstock.record._mqtt.packets import Message
from penstock.record._network.protocol import Misconfigured
from penstock.record._network.server import BrokerAddress, Secret, Trust
from penstock.record.errors import SinkWriteError

BROKER_SECRETS = (
    "set MQTT_USERNAME and MQTT_PASSWORD in the environment, or name a file with password_file"
)
"""Where user and password belong, for an error."""

_ENCRYPTED = ("mqtts", "sparkplugs")


@dataclass(frozen=True, slots=True)
class BrokerLogin:
    """A broker, and where user and password are. The secrets are read anew for each connection.

    Attributes:
        host: a name or an address.
        port: TCP port.
        tls: whom the client trusts; None without TLS.
        user: where the user's name is.
        password: where the password is.
        timeout: seconds to connect.
    """

    host: str
    port: int
    tls: Trust | None
    user: Secret
    password: Secret
    timeout: float

    @classmethod
    def of(
        cls,
        address: BrokerAddress,
        password_file: str | os.PathLike[str] | None,
        ca_file: str | os.PathLike[str] | None,
        timeout: float,
    ) -> Self:
        """The login at an address. ValueError: there are no certificates in ``ca_file``."""
        return cls(
            address.host,
            address.port,
            Trust(ca_file) if address.scheme in _ENCRYPTED else None,
            Secret(None, "MQTT_USERNAME"),
            Secret(None if password_file is None else Path(password_file), "MQTT_PASSWORD"),
            timeout,
        )

    async def connect(
        self,
        client: str,
        will: Message | None = None,
        on_message: Callable[[Message], None] | None = None,
    ) -> Broker:
        """Connect under the name ``client``.

        Raises:
            Misconfigured: the broker refuses who connects, or a secret cannot be read.
            Away: it does not answer, or not now.
        """
        try:
            user, password = self.user.read(), self.password.read()
        except SinkWriteError as error:
            raise Misconfigured(str(error)) from error
        return await Broker.connect(
            self.host,
            self.port,
            None if self.tls is None else self.tls.context(),
            client=client,
            will=will,
            user=user,
            password=password,
            timeout=self.timeout,
            on_message=on_message,
        )
