"""Recording into a stream of NATS JetStream."""

from __future__ import annotations

import os
import re
import secrets
from base64 import b64decode
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from penstock._renamed import renamed
from penstock.record._nats.arrow_messages import ArrowMessages, DeviceMessage
from penstock.record._nats.connection import NatsConnection, header_bytes, parsed_json
from penstock.record._nats.jetstream import (
    NO_SUCH_MESSAGE,
    NO_SUCH_STREAM,
    NOBODY_LISTENS,
    WRONG_LAST_SEQUENCE,
    Login,
    ask,
    header_of,
    number_in,
    said,
)
from penstock.record._network.kept_connection import KeptConnection
from penstock.record._network.network_sink import NetworkSink, SpooledFile
from penstock.record._network.protocol import Away, Misconfigured
from penstock.record._network.server import BrokerAddress, Trust
from penstock.record.addresses import scheme_of
from penstock.record.arrow import load_pyarrow
from penstock.record.sink import LossWindow

_PORTS = {"nats": 4222, "natss": 4222}
_SECRETS = (
    "set NATS_TOKEN, or NATS_USER and NATS_PASSWORD, in the environment, or name a file with "
    "token_file"
)
_PREFIX = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")


def is_nats(target: str) -> bool:
    """Whether ``target`` is a URL of a NATS server."""
    return scheme_of(target) in _PORTS


def nats_address(url: str) -> BrokerAddress:
    """The server and the prefix of subjects. ValueError."""
    address = BrokerAddress.parse(url, _PORTS, name="penstock", secrets=_SECRETS)
    if not _PREFIX.fullmatch(address.name):
        raise ValueError(
            f"the prefix {address.name!r} is not a subject: write letters, digits, - and _, with "
            "full stops between them"
        )
    return address


class NatsSink(NetworkSink):
    """Publishes rows as Arrow record batches to a stream of JetStream.

    A message has rows of one device, as an Arrow IPC stream, and the subject ``PREFIX.RUN.DEVICE``;
    ``RUN`` is a random name. Its identity is in the header Nats-Msg-Id, ``RUN/DEVICE/PART``.

    Every row is first written to ``spool``, a folder on this machine, and sent from there to the
    server in order. Each message is in the stream exactly once, whichever process is killed: it is
    published on the condition that the previous message is the last one of its subject. JetStream
    acknowledges a message before it syncs it, by default up to two minutes before. So the spool
    keeps the rows that were acknowledged in the last ``lag`` seconds, and after a lost connection
    the sink sends those that the stream lacks.

    Args:
        url: ``nats://HOST[:4222]/PREFIX``, or ``natss://`` for TLS. Without a path the prefix is
            ``penstock``.
        stream: the name of the stream; by default the prefix with ``_`` for each full stop. A
            stream that does not exist is created with the subjects ``PREFIX.>``.
        token_file: a file with the token. By default the environment: NATS_TOKEN, or NATS_USER and
            NATS_PASSWORD.
        ca_file: a file with the certificates (PEM) of a private certificate authority.
        spool: the folder; by default ``samples.nats-spool`` in the current folder.
        spool_bytes: the largest size of the spool. Beyond it, writing raises SinkWriteError.
        lag: seconds for which acknowledged rows stay in the spool; choose more than the server's
            ``sync_interval``.
        timeout: seconds to wait for an answer.
        close_timeout: seconds that ``close`` waits until the server has taken the last rows.
        loss_interval: see :class:`~penstock.record.LossWindow`.
        loss_rows: see :class:`~penstock.record.LossWindow`.

    Without pyarrow the constructor raises SinkDependencyError. ``open`` raises SinkWriteError if
    the server refuses for good: no JetStream, no permission. If the server does not answer,
    ``open`` succeeds, and the sink goes on trying.

    Raises:
        ValueError: the URL is malformed, or holds a password.
    """

    @renamed(loss_seconds="loss_interval")
    def __init__(
        self,
        url: str,
        *,
        stream: str | None = None,
        token_file: str | os.PathLike[str] | None = None,
        ca_file: str | os.PathLike[str] | None = None,
        spool: str | os.PathLike[str] | None = None,
        spool_bytes: int = 16 << 30,
        lag: float = 150.0,
        timeout: float = 10.0,
        close_timeout: float = 10.0,
        loss_interval: float | None = 1.0,
        loss_rows: int | None = None,
    ) -> None:
        load_pyarrow()
        address = nats_address(url)
        stream = address.name.replace(".", "_") if stream is None else stream
        if not _PREFIX.fullmatch(stream) or "." in stream:
            raise ValueError(f"a stream cannot be named {stream!r}: write letters, digits, - and _")
        tls = Trust(ca_file) if address.scheme == "natss" else None
        transport = NatsTransport(
            address,
            tls,
            stream,
            Login.of(token_file),
            lag=lag,
            timeout=timeout,
        )
        file = _SpooledMessages(
            ArrowMessages(address.name),
            transport,
            Path("samples.nats-spool" if spool is None else spool),
            most_bytes=spool_bytes,
            patience=close_timeout,
        )
        super().__init__(file, LossWindow(loss_interval, loss_rows))


class _SpooledMessages(SpooledFile):
    """A spool that tells the schemas of a run after its rows."""

    def __init__(
        self,
        encoder: ArrowMessages,
        transport: NatsTransport,
        folder: Path,
        *,
        most_bytes: int,
        patience: float,
    ) -> None:
        super().__init__(encoder, transport, folder, most_bytes=most_bytes, patience=patience)
        self._messages = encoder

    def close(self, facts: Mapping[str, Any]) -> None:
        self._messages.end()
        super().close(facts)


# Messages of a spool to a JetStream.
#
# How a message comes exactly once into the stream: each device of a run has a subject of its own,
# with one writer, and each message the next part number. A message is published on the condition
# that the last one of its subject has the sequence that this writer knows of (Nats-Expected-Last-
# Subject-Sequence), so it can be stored at one place only. After an end that tells nothing (no
# answer, a lost connection, a kill of this process) the last message of the subject is asked for:
# its identity says which parts are there, and those are not sent again. No window of time is in
# that, unlike in the server's own search for doubles by Nats-Msg-Id. *Rejected:* the sequence of
# the whole stream, which the next recorder changes.


class NatsTransport:
    """A :class:`~penstock.record._network.protocol.Transport` of Arrow batches.

    What it has acknowledged, a server that is killed has; only a power cut takes it. No run waits
    for that at its end.
    """

    grace = 0.0

    def __init__(
        self,
        address: BrokerAddress,
        tls: Trust | None,
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
        self._kept = KeptConnection(self._begin)
        # The sequence and the part of each subject's last message in the stream. Known within one
        # connection only.
        self._last: dict[str, tuple[int, int]] = {}
        # The newest message of each schema that came by, for a stream that has lost it since.
        self._schemas: dict[str, DeviceMessage] = {}

    def __str__(self) -> str:
        return str(self._address)

    async def check(self) -> None:
        await self._kept.get()

    async def probe(self) -> None:
        connection = await self._connect()
        try:
            await self._find_stream(connection, create=False)
        finally:
            await connection.close()

    async def send(self, payload: bytes) -> int:
        connection = await self._kept.get()
        message = DeviceMessage.read(payload)
        if message.is_schema:
            self._schemas[message.subject] = message
        schema = self._schemas.get(message.schema_subject)
        if schema is not None and not (await self._last_of(connection, schema))[1]:
            await self._publish(connection, schema)
        await self._publish(connection, message)
        return 0

    async def _publish(
        self, connection: NatsConnection, message: DeviceMessage, generation: str = ""
    ) -> None:
        """See that a message is in the stream; ``generation`` is in its identity, if there is one.

        Raises:
            Away: it may not be there.
        """
        sequence, part = await self._last_of(connection, message)
        if part >= message.part:
            return  # it was stored, and the answer was lost
        headers = {
            "Nats-Msg-Id": message.identity(generation),
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
            await self.close()  # the stream was removed, maybe: the next connection looks for it
            raise Misconfigured(
                f"no stream accepts the subject {message.subject}; one that is called "
                f"{self._stream} is made at the next attempt, if there is none"
            )
        answer = parsed_json(reply.payload)
        if (error := answer.get("error")) is not None:
            self._last.clear()
            if error.get("err_code") == WRONG_LAST_SEQUENCE:
                # Something of ours came in meanwhile, or was purged: the next attempt asks.
                raise Away("the last message of the stream is not the expected one", 0)
            raise Away(said(error))
        stored_in, place = answer.get("stream"), answer.get("seq")
        if not isinstance(stored_in, str) or not isinstance(place, int):
            # Of somebody who has subscribed, and answers to what is published.
            del self._last[message.subject]
            raise Away(
                f"the answer to {message.subject} is not JetStream's: {reply.payload[:60]!r}; "
                "let nobody else answer to messages below this prefix"
            )
        if stored_in != self._stream:
            self._last.clear()
            raise Misconfigured(
                f"the subject {message.subject} is one of the stream {stored_in}, not of "
                f"{self._stream}: name that one with stream, or use another prefix"
            )
        if answer.get("duplicate"):
            # The server remembers an identity for minutes, even if its message was purged since,
            # and says where it was: so the subject's last message is asked for. Nobody needs rows
            # that were purged, but the rows that come now need their schema.
            del self._last[message.subject]
            if message.is_schema and not generation:
                await self._publish(connection, message, secrets.token_hex(4))
            return
        self._last[message.subject] = place, message.part

    async def close(self) -> None:
        connection = self._kept.release()
        self._last.clear()
        if connection is not None:
            await connection.close()

    async def _connect(self) -> NatsConnection:
        tls = None if self._tls is None else self._tls.context()
        address = self._address
        return await NatsConnection.connect(
            address.host, address.port, tls, self._login.read(), self._timeout
        )

    async def _begin(self) -> NatsConnection:
        connection = await self._connect()
        try:
            await self._find_stream(connection)
        except BaseException:
            await connection.close()
            raise
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
        elif error.get("err_code") == NO_SUCH_STREAM:
            await self.close()  # the next connection makes it
            raise Away(said(error))
        elif error.get("err_code") != NO_SUCH_MESSAGE:
            raise Away(said(error))
        self._last[message.subject] = last
        return last


def _part_of(headers: bytes) -> int:
    """The part number in the headers of a message of ours."""
    return number_in(header_of(headers, "Nats-Msg-Id").rpartition("/")[2])
