"""Messages of a spool to a JetStream.

How a message comes exactly once into the stream: each device of a run has a subject of its own,
with one writer, and each message the next part number. A message is published on the condition that
the last one of its subject has the sequence that this writer knows of
(Nats-Expected-Last-Subject-Sequence), so it can be stored at one place only. After an end that
tells nothing (no answer, a lost connection, a kill of this process) the last message of the subject
is asked for: its identity says which parts are there, and those are not sent again. No window of
time is in that, unlike in the server's own search for doubles by Nats-Msg-Id. *Rejected:* the
sequence of the whole stream, which the next recorder changes.
"""

from __future__ import annotations

import ssl
from base64 import b64decode

from penstock.record._nats.arrow_messages import DeviceMessage
from penstock.record._nats.connection import NatsConnection, header_bytes, parsed_json
from penstock.record._nats.jetstream import (
    NO_SUCH_MESSAGE,
    NO_SUCH_STREAM,
    NOBODY_LISTENS,
    WRONG_LAST_SEQUENCE,
    Login,
    ask,
    header_of,
    said,
)
from penstock.record._network.protocol import Away, Misconfigured
from penstock.record._network.server import BrokerAddress

__all__ = ["NatsTransport"]


class NatsTransport:
    """A :class:`~penstock.record._network.protocol.Transport` of Arrow batches.

    What it has acknowledged, a server that is killed has; only a power cut takes it. No run waits
    for that at its end.
    """

    grace = 0.0

    def __init__(
        self,
        address: BrokerAddress,
        tls: ssl.SSLContext | None,
        stream: str,
        login: Login,
        *,
        lag: float,
        timeout: float,
    ) -> None:
        self.lag = lag
        self._address = address
        self._tls = tls
        self._stream = stream
        self._login = login
        self._timeout = timeout
        self._connection: NatsConnection | None = None
        # Of each subject, the last message in the stream: its sequence and part. Known within one
        # connection only.
        self._last: dict[str, tuple[int, int]] = {}
        # The newest message of each schema that came by, for a stream that has lost it since.
        self._schemas: dict[str, DeviceMessage] = {}

    def __str__(self) -> str:
        return str(self._address)

    async def check(self) -> None:
        await self._connected()

    async def probe(self) -> None:
        connection = await NatsConnection.connect(
            self._address.host, self._address.port, self._tls, self._login.read(), self._timeout
        )
        try:
            await self._find_stream(connection, create=False)
        finally:
            await connection.close()

    async def send(self, payload: bytes) -> int:
        connection = await self._connected()
        message = DeviceMessage.read(payload)
        if message.is_schema:
            self._schemas[message.subject] = message
        schema = self._schemas.get(message.schema_subject)
        if schema is not None and not (await self._last_of(connection, schema))[1]:
            await self._publish(connection, schema)
        await self._publish(connection, message)
        return 0

    async def _publish(self, connection: NatsConnection, message: DeviceMessage) -> None:
        sequence, part = await self._last_of(connection, message)
        if part >= message.part:
            return  # it was stored, and the answer was lost
        headers = {
            "Nats-Msg-Id": message.id,
            "Nats-Expected-Last-Subject-Sequence": str(sequence),
            "Penstock-Row": str(message.row),
            "Content-Type": "application/vnd.apache.arrow.stream",
        }
        if message.schema:
            headers["Penstock-Schema"] = message.schema
        size = len(header_bytes(headers)) + len(message.data)
        if size > connection.max_payload:
            raise Misconfigured(
                f"a message of {size} bytes is larger than the server's max_payload "
                f"{connection.max_payload}: raise that to 1MB"
            )
        reply = await connection.request(message.subject, message.data, headers, self._timeout)
        if reply.status == NOBODY_LISTENS:
            raise Misconfigured(f"no stream takes the subject {message.subject}")
        answer = parsed_json(reply.payload)
        if (error := answer.get("error")) is not None:
            self._last.clear()
            if error.get("err_code") == WRONG_LAST_SEQUENCE:
                # Something of ours came in meanwhile: it is asked what, with the next attempt.
                raise Away("the stream has another last message than was known", 0)
            raise Away(said(error))
        self._last[message.subject] = int(answer["seq"]), message.part

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        self._last.clear()
        if connection is not None:
            await connection.close()

    async def _connected(self) -> NatsConnection:
        """The server; a connection that was lost is told once, before there is another."""
        connection = self._connection
        if connection is not None and connection.lost_at is not None:
            lost_at = connection.lost_at
            await self.close()
            raise Away("the connection was lost", lost_at=lost_at)
        if connection is None:
            connection = await NatsConnection.connect(
                self._address.host, self._address.port, self._tls, self._login.read(), self._timeout
            )
            try:
                await self._find_stream(connection)
            except BaseException:
                await connection.close()
                raise
            self._connection = connection
            self._last.clear()
        return connection

    async def _find_stream(self, connection: NatsConnection, *, create: bool = True) -> None:
        """See that the stream is there, or could be; create it where it is not."""
        found = await ask(connection, self._timeout, f"STREAM.INFO.{self._stream}", {})
        error = found.get("error")
        if error is not None and error.get("err_code") == NO_SUCH_STREAM:
            if not create:
                return
            wanted = {
                "name": self._stream,
                "subjects": [f"{self._address.name}.>"],
                "storage": "file",
                "retention": "limits",
                # A full stream refuses what is new, which then waits in the spool. The default is
                # to remove what is old, read or not.
                "discard": "new",
            }
            found = await ask(connection, self._timeout, f"STREAM.CREATE.{self._stream}", wanted)
            error = found.get("error")
        if error is not None:
            raise Misconfigured(f"the stream {self._stream} cannot be used: {said(error)}")

    async def _last_of(self, connection: NatsConnection, message: DeviceMessage) -> tuple[int, int]:
        """The sequence and the part of the last message of a subject; zeros without one."""
        known = self._last.get(message.subject)
        if known is not None:
            return known
        asked = {"last_by_subj": message.subject}
        answer = await ask(connection, self._timeout, f"STREAM.MSG.GET.{self._stream}", asked)
        error = answer.get("error")
        last = 0, 0
        if error is None:
            stored = answer["message"]
            last = int(stored["seq"]), _part_of(b64decode(stored.get("hdrs", "")))
        elif error.get("err_code") != NO_SUCH_MESSAGE:
            raise Away(said(error))
        self._last[message.subject] = last
        return last


def _part_of(headers: bytes) -> int:
    """The part number in the headers of a message of ours."""
    part = header_of(headers, "Nats-Msg-Id").rpartition("/")[2]
    return int(part) if part.isdigit() else 0
