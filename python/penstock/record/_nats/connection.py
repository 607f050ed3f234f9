"""A connection to a NATS server: requests with their answers, and inboxes. It is not mended.

The protocol is lines and counted bytes
(https://docs.nats.io/reference/reference-protocols/nats-protocol). Whoever sends decides what a
lost connection means, so there is one object a connection, and nothing is sent twice by itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock.record._network.protocol import Away, Misconfigured, as_away

_LONGEST_LINE = 1 << 16
_LONGEST_PAYLOAD = 1 << 26
_REFUSALS = ("authorization", "authentication", "permissions", "account")


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to a request: the status of its headers (503: nobody listens), and its bytes."""

    status: int
    payload: bytes


@dataclass(frozen=True, slots=True)
class Delivered:
    """A message that came to an inbox.

    Attributes:
        subject: under which it was published.
        reply: where an answer would go; of a message of a stream, its place there.
        status: of its headers; 0 without one.
        headers: as they came.
        payload: its bytes.
    """

    subject: str
    reply: str
    status: int
    headers: bytes
    payload: bytes


class Inbox:
    """A subject of this client's own, and what came to it. For one task at a time."""

    def __init__(self, subject: str, sid: str) -> None:
        self.subject = subject
        self.sid = sid
        self._messages: asyncio.Queue[Delivered | Away] = asyncio.Queue()

    def put(self, message: Delivered | Away) -> None:
        """Called by the connection, which puts the reason of its end last."""
        self._messages.put_nowait(message)

    async def next(self, timeout: float) -> Delivered | None:
        """The next message; None where none comes in time.

        Raises:
            Away: the connection is lost.
        """
        try:
            async with asyncio.timeout(timeout):
                message = await self._messages.get()
        except TimeoutError:
            return None
        if isinstance(message, Away):
            self._messages.put_nowait(message)
            raise message
        return message


class _Broken(Exception):
    """The server says what no server of NATS says."""


class NatsConnection:
    """One connection, for the tasks of one loop.

    Attributes:
        max_payload: the largest message that the server takes, headers included.
        lost_at: when the connection has ended, by the monotonic clock; None while it has not.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.max_payload = 1 << 20
        self.lost_at: float | None = None
        self._reader = reader
        self._writer = writer
        self._reason = "the connection was closed"
        self._refused = False
        self._inbox = f"_INBOX.{secrets.token_hex(11)}"
        self._number = 0
        self._replies: dict[str, asyncio.Future[Reply]] = {}
        self._inboxes: dict[str, Inbox] = {}
        self._task: asyncio.Task[None] | None = None

    @classmethod
    async def connect(
        cls,
        host: str,
        port: int,
        tls: ssl.SSLContext | None,
        login: Mapping[str, str],
        timeout: float,
    ) -> NatsConnection:
        """Connect, and return once the server has accepted this client.

        Args:
            host: a name or an address.
            port: TCP port.
            tls: encrypt, and check the server; None for a server without.
            login: ``user`` and ``pass``, or ``auth_token``, or nothing.
            timeout: seconds.

        Raises:
            Misconfigured: the server refuses who connects.
            Away: it does not answer.
        """
        writer: asyncio.StreamWriter | None = None
        try:
            async with asyncio.timeout(timeout):
                reader, writer = await asyncio.open_connection(host, port, limit=_LONGEST_LINE)
                connection = cls(reader, writer)
                await connection._greet(host, tls, login)
        except BaseException as error:
            if writer is not None:
                writer.transport.abort()
            if (away := as_away(error, timeout, (ValueError, _Broken))) is not None:
                raise away from error
            raise
        connection._task = asyncio.create_task(connection._receive())
        return connection

    async def _greet(self, host: str, tls: ssl.SSLContext | None, login: Mapping[str, str]) -> None:
        verb, _, rest = (await self._line()).partition(" ")
        if verb != "INFO":
            raise _Broken("the server does not answer like a NATS server")
        info = json.loads(rest)
        if info.get("tls_required") and tls is None:
            raise Misconfigured("the server requires TLS: write natss:// instead of nats://")
        if tls is not None:
            if not (info.get("tls_required") or info.get("tls_available")):
                raise Misconfigured(
                    "the server does not support TLS: write nats:// instead of natss://"
                )
            await self._writer.start_tls(tls, server_hostname=host)
        self.max_payload = int(info.get("max_payload", self.max_payload))
        options = {
            "verbose": False,
            "pedantic": False,
            "lang": "penstock",
            "version": "1",
            "protocol": 1,
            "headers": True,
            "no_responders": True,
            **login,
        }
        self._writer.write(f"CONNECT {json.dumps(options)}\r\nPING\r\n".encode())
        while (line := await self._line()) != "PONG":
            if line.startswith("-ERR"):
                raise self._refusal(line)
            if line == "PING":
                self._writer.write(b"PONG\r\n")
        self._writer.write(f"SUB {self._inbox}.* 1\r\n".encode())

    async def request(
        self, subject: str, payload: bytes, headers: Mapping[str, str], timeout: float
    ) -> Reply:
        """Send a message, and return the answer to it.

        Cancellation, and Away: the message may have arrived.

        Raises:
            Away: the connection is lost, or there is no answer in time.
        """
        self._check()
        self._number += 1
        inbox = f"{self._inbox}.{self._number}"
        future: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._replies[inbox] = future
        try:
            self._writer.write(message(subject, inbox, payload, headers))
            async with asyncio.timeout(timeout):
                await self._writer.drain()
                return await future
        except TimeoutError as error:
            # What comes later would be taken for the answer to something else, were it waited for.
            self._lose(f"no answer within {timeout:g} s")
            raise Away(self._reason, lost_at=self.lost_at) from error
        except OSError as error:
            self._lose(" ".join(str(error).split()))
            raise Away(self._reason, lost_at=self.lost_at) from error
        finally:
            del self._replies[inbox]
            if future.done() and not future.cancelled():
                future.exception()  # what ended the request is in another error, or is this one

    def open_inbox(self) -> Inbox:
        """An inbox, for messages that are not a single answer. Away: the connection is lost."""
        self._check()
        self._number += 1
        sid = str(self._number + 1)
        inbox = self._inboxes[sid] = Inbox(f"{self._inbox}-{sid}", sid)
        self._writer.write(f"SUB {inbox.subject} {sid}\r\n".encode())
        return inbox

    def close_inbox(self, inbox: Inbox) -> None:
        """Get nothing more into an inbox."""
        if self._inboxes.pop(inbox.sid, None) is not None and self.lost_at is None:
            self._writer.write(f"UNSUB {inbox.sid}\r\n".encode())

    def post(self, subject: str, reply: str, payload: bytes) -> None:
        """Send a message whose answers go to ``reply``. Away: the connection is lost."""
        self._check()
        self._writer.write(message(subject, reply, payload, {}))

    async def close(self) -> None:
        """Close the connection."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        self._lose("the connection was closed")
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()

    @property
    def loss(self) -> Away | None:
        """Why and when the connection was lost, as an error; None while it is not."""
        if self.lost_at is None:
            return None
        kind = Misconfigured if self._refused else Away
        return kind(self._reason, lost_at=self.lost_at)

    def _check(self) -> None:
        if (loss := self.loss) is not None:
            raise loss

    def _refusal(self, line: str) -> Away:
        text = line.removeprefix("-ERR").strip().strip("'")
        self._refused = any(word in text.lower() for word in _REFUSALS)
        kind = Misconfigured if self._refused else Away
        return kind(f"the server refuses: {text}", lost_at=self.lost_at)

    def _lose(self, reason: str) -> None:
        if self.lost_at is None:
            self.lost_at = time.monotonic()
            self._reason = reason
            self._writer.transport.abort()
        for future in self._replies.values():
            if not future.done():
                future.set_exception(Away(self._reason, lost_at=self.lost_at))
        for inbox in self._inboxes.values():
            inbox.put(Away(self._reason, lost_at=self.lost_at))

    async def _receive(self) -> None:
        try:
            while True:
                await self._take(await self._line())
        except EOFError:
            self._lose("the server closed the connection")
        except (OSError, ValueError, IndexError, _Broken) as error:
            self._lose(" ".join(str(error).split()) or type(error).__name__)

    async def _take(self, line: str) -> None:
        verb, *words = line.split(" ")
        if verb == "PING":
            self._writer.write(b"PONG\r\n")
        elif verb == "-ERR":
            self._lose(str(self._refusal(line)))
        elif verb in ("MSG", "HMSG"):
            sizes = [int(word) for word in words[-1 if verb == "MSG" else -2 :]]
            total = sizes[-1]
            if not 0 <= sizes[0] <= total <= _LONGEST_PAYLOAD:
                raise _Broken(f"a message of {total} bytes")
            data = (await self._reader.readexactly(total + 2))[:total]
            status, headers = 0, b""
            if verb == "HMSG":
                headers, data = data[: sizes[0]], data[sizes[0] :]
                first = headers.split(b"\r\n", 1)[0].split()
                status = int(first[1]) if len(first) > 1 and first[1].isdigit() else 0
            if (inbox := self._inboxes.get(words[1])) is not None:
                reply = words[2] if len(words) > (3 if verb == "MSG" else 4) else ""
                inbox.put(Delivered(words[0], reply, status, headers, data))
                return
            future = self._replies.get(words[0])
            if future is not None and not future.done():
                future.set_result(Reply(status, data))

    async def _line(self) -> str:
        line = await self._reader.readline()
        if not line.endswith(b"\n"):
            raise EOFError
        return line.decode(errors="replace").rstrip("\r\n")


def header_bytes(headers: Mapping[str, str]) -> bytes:
    """The headers of a message."""
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"NATS/1.0\r\n{lines}\r\n".encode()


def message(subject: str, inbox: str, payload: bytes, headers: Mapping[str, str]) -> bytes:
    """A message as the protocol has it: PUB, or HPUB with headers."""
    if not headers:
        return f"PUB {subject} {inbox} {len(payload)}\r\n".encode() + payload + b"\r\n"
    head = header_bytes(headers)
    sizes = f"{len(head)} {len(head) + len(payload)}"
    return f"HPUB {subject} {inbox} {sizes}\r\n".encode() + head + payload + b"\r\n"


def parsed_json(payload: bytes) -> dict[str, Any]:
    """An answer of JetStream's; Away for what is none."""
    try:
        answer = json.loads(payload)
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise Away(f"the answer is not JetStream's: {payload[:60]!r}")
    return answer
