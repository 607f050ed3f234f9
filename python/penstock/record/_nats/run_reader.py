"""The messages of one run in a stream, in order, from any place on."""

from __future__ import annotations

import json
from base64 import b64decode
from dataclasses import dataclass

from penstock.record._nats.arrow_messages import SCHEMA
from penstock.record._nats.connection import Delivered, Inbox, NatsConnection
from penstock.record._nats.jetstream import NO_SUCH_MESSAGE, ask, header_of, number_in, said
from penstock.record._network.protocol import Away

_AT_ONCE = 32
_BYTES_AT_ONCE = 16 << 20
_FORGOTTEN_AFTER_NS = 60_000_000_000


@dataclass(frozen=True, slots=True)
class StreamMessage:
    """A message of a stream.

    Attributes:
        sequence: its place in the stream.
        subject: under which it was published.
        id: the header Nats-Msg-Id, ``RUN/DEVICE/PART``.
        row: the number of its first row among those of the device in the run.
        payload: an Arrow IPC stream, with its schema.
        is_schema: it has no rows, and the schema of others.
    """

    sequence: int
    subject: str
    id: str
    row: int
    payload: bytes
    is_schema: bool = False


class RunReader:
    """Reads the messages of a run by a consumer without acknowledgements.

    The server forgets the consumer soon after its reader; where reading goes on is the reader's
    own business. A message that was lost on the way shows as a gap in the consumer's count, and
    ends the reader with Away.

    Args:
        connection: to the server; it may have other users.
        stream: the name of the stream.
        subjects: what is read, such as ``lab.RUN.>``.
        timeout: seconds for an answer.
    """

    def __init__(
        self, connection: NatsConnection, stream: str, subjects: str, timeout: float
    ) -> None:
        self._connection = connection
        self._stream = stream
        self._subjects = subjects
        self._timeout = timeout
        self._inbox: Inbox | None = None
        self._consumer = ""
        self._count = 0
        self._schemas: dict[str, bytes] = {}

    async def begin(self, after: int) -> None:
        """Let the next message be the first one after the place ``after``."""
        wanted = {
            "stream_name": self._stream,
            "config": {
                "deliver_policy": "by_start_sequence",
                "opt_start_seq": after + 1,
                "ack_policy": "none",
                "filter_subject": self._subjects,
                "replay_policy": "instant",
                "inactive_threshold": _FORGOTTEN_AFTER_NS,
                "mem_storage": True,
            },
        }
        answer = await ask(
            self._connection, self._timeout, f"CONSUMER.CREATE.{self._stream}", wanted
        )
        if (error := answer.get("error")) is not None:
            raise Away(said(error))
        self._consumer = answer["name"]
        self._count = 0
        self._inbox = self._connection.open_inbox()

    async def id_at(self, sequence: int) -> str:
        """The identity of the message at a place of the stream; empty where none is."""
        what = f"STREAM.MSG.GET.{self._stream}"
        answer = await ask(self._connection, self._timeout, what, {"seq": sequence})
        if "error" in answer:
            return ""
        return header_of(b64decode(answer["message"].get("hdrs", "")), "Nats-Msg-Id")

    async def is_last(self, sequence: int) -> bool:
        """Whether no message of the run is after a place of the stream."""
        what = f"STREAM.MSG.GET.{self._stream}"
        asked = {"seq": sequence + 1, "next_by_subj": self._subjects}
        answer = await ask(self._connection, self._timeout, what, asked)
        error = answer.get("error")
        if error is not None and error.get("err_code") != NO_SUCH_MESSAGE:
            raise Away(said(error))
        return error is not None

    async def read(self, wait: float) -> list[StreamMessage]:
        """The next messages; none if none comes within ``wait`` seconds.

        Raises:
            Away: the connection or the consumer is lost, or a message was.
        """
        inbox = self._inbox
        assert inbox is not None
        question = {
            "batch": _AT_ONCE,
            "max_bytes": _BYTES_AT_ONCE,
            "expires": max(1, int(wait * 1e9)),
        }
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{self._stream}.{self._consumer}"
        self._connection.post(subject, inbox.subject, json.dumps(question).encode())
        found: list[StreamMessage] = []
        patience = wait + self._timeout
        while len(found) < _AT_ONCE:
            message = await inbox.next(patience)
            if message is None:
                raise Away(f"no answer of the consumer within {patience:g} s")
            if message.status == 503:
                raise Away("the server has lost the consumer")
            if message.status:
                if message.status == 100:
                    continue
                if message.status not in (404, 408, 409):
                    raise Away(f"the consumer answers with the status {message.status}")
                if message.status == 409 and b"MaxBytes" not in message.headers:
                    raise Away(f"the consumer ends: {message.headers[:100]!r}")
                break
            found.append(await self._message(message))
        return found

    def end(self) -> None:
        """Read no more."""
        if self._inbox is not None:
            self._connection.close_inbox(self._inbox)

    async def _schema(self, name: str) -> bytes:
        """The beginning of a stream; empty where the server has it no more."""
        if name not in self._schemas:
            what = f"STREAM.MSG.GET.{self._stream}"
            asked = {"last_by_subj": f"{self._subjects.removesuffix('>')}{SCHEMA}{name}"}
            answer = await ask(self._connection, self._timeout, what, asked)
            error = answer.get("error")
            if error is not None and error.get("err_code") != NO_SUCH_MESSAGE:
                raise Away(said(error))
            self._schemas[name] = b"" if error else b64decode(answer["message"]["data"])
        return self._schemas[name]

    async def _message(self, delivered: Delivered) -> StreamMessage:
        # $JS.ACK.STREAM.CONSUMER.DELIVERIES.SEQUENCE.COUNT.TIME.PENDING, from 2.11 on with a domain
        # and an account hash in front: counted from the end both are alike.
        words = delivered.reply.split(".")
        place = words[5:7] if len(words) == 9 else words[7:9]
        try:
            sequence, count = map(int, place)
        except ValueError as error:
            raise Away(f"the server names no place in its stream: {delivered.reply!r}") from error
        self._count += 1
        if count != self._count:
            raise Away(f"{count - self._count} messages were lost between the server and here")
        identity = header_of(delivered.headers, "Nats-Msg-Id")
        _, _, name = identity.partition(f"/{SCHEMA}")
        if name:
            self._schemas[name.partition("/")[0]] = delivered.payload
        schema = header_of(delivered.headers, "Penstock-Schema")
        beginning = await self._schema(schema) if schema else b""
        return StreamMessage(
            sequence,
            delivered.subject,
            identity,
            number_in(header_of(delivered.headers, "Penstock-Row")),
            beginning + delivered.payload,
            bool(name),
        )
