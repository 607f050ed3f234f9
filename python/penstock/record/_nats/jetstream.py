"""JetStream's own requests, who makes them, and the leases of a group in its key-value store."""

from __future__ import annotations

import json
import os
import secrets
from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from penstock.record._nats.connection import NatsConnection, parsed_json
from penstock.record._network.protocol import Away, Misconfigured
from penstock.record._network.server import Secret
from penstock.record.errors import SinkWriteError

WRONG_LAST_SEQUENCE = 10071
NO_SUCH_STREAM = 10059
NO_SUCH_MESSAGE = 10037
NOBODY_LISTENS = 503


@dataclass(frozen=True, slots=True)
class Login:
    """How a client tells who it is: by a token, or a user with a password, or not at all."""

    token: Secret
    user: Secret
    password: Secret

    @classmethod
    def of(cls, token_file: str | os.PathLike[str] | None) -> Self:
        """By the file with a token, or the environment where there is none."""
        return cls(
            Secret(None if token_file is None else Path(token_file), "NATS_TOKEN"),
            Secret(None, "NATS_USER"),
            Secret(None, "NATS_PASSWORD"),
        )

    def read(self) -> dict[str, str]:
        """What CONNECT says of it. Misconfigured: a secret cannot be read."""
        try:
            token, user = self.token.read(), self.user.read()
            if token is not None:
                return {"auth_token": token}
            return {} if user is None else {"user": user, "pass": self.password.read() or ""}
        except SinkWriteError as error:
            raise Misconfigured(str(error)) from error


async def ask(
    connection: NatsConnection, timeout: float, what: str, question: Mapping[str, object]
) -> dict[str, Any]:
    """The answer of JetStream's API, which may have an ``error``.

    Raises:
        Misconfigured: the server has no JetStream.
        Away: it does not answer in ``timeout`` seconds.
    """
    text = json.dumps(question).encode() if question else b""
    reply = await connection.request(f"$JS.API.{what}", text, {}, timeout)
    if reply.status == NOBODY_LISTENS:
        raise Misconfigured("the server has no JetStream: start it with -js, or `jetstream {}`")
    return parsed_json(reply.payload)


def said(error: dict[str, Any]) -> str:
    """The error of an answer as a sentence."""
    return f"the stream refuses: {error.get('description')} ({error.get('err_code')})"


def header_of(headers: bytes, wanted: str) -> str:
    """The value of a header field; nothing where it is not there."""
    for line in headers.decode(errors="replace").split("\r\n"):
        name, _, value = line.partition(":")
        if name == wanted:
            return value.strip()
    return ""


def number_in(text: str) -> int:
    """The number that a header has; 0 for what is none, which strangers may write."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else 0


# Leases of a group: who of its members works at what, for a time.
#
# A lease is the last message of a subject in a stream that forgets its messages after the lease's
# length. It is made on the condition that there is none, and prolonged on the condition that it is
# still the member's own, so two members never hold one by the stream's account. A member that was
# stopped meanwhile may believe that it does; what it then writes must be fenced by other means.

_MEMBERS = "member."
_WORK = "work."


class Leases:
    """The leases of one member.

    Args:
        stream: the stream of the work; that of the leases is ``STREAM-archive``.
        seconds: the length of a lease.
    """

    def __init__(self, stream: str, seconds: float) -> None:
        self.member = secrets.token_hex(8)
        self.seconds = seconds
        self._stream = f"{stream}-archive"
        self._subjects = f"penstock-archive.{stream}"
        # The place in the stream of each lease that is held.
        self._held: dict[str, int] = {}

    @property
    def held(self) -> list[str]:
        """The work that this member holds, by its own account."""
        return [key.removeprefix(_WORK) for key in self._held if key.startswith(_WORK)]

    async def prepare(self, connection: NatsConnection, timeout: float) -> None:
        """See that there is a stream for leases. Misconfigured: there can be none."""
        found = await ask(connection, timeout, f"STREAM.INFO.{self._stream}", {})
        if found.get("error", {}).get("err_code") == NO_SUCH_STREAM:
            length = int(self.seconds * 1e9)
            wanted = {
                "name": self._stream,
                "subjects": [f"{self._subjects}.>"],
                "storage": "file",
                "retention": "limits",
                "max_age": length,
                "max_msgs_per_subject": 1,
                "duplicate_window": min(length, 2_000_000_000),
                "discard": "old",
            }
            found = await ask(connection, timeout, f"STREAM.CREATE.{self._stream}", wanted)
        if (error := found.get("error")) is not None:
            raise Misconfigured(f"the stream {self._stream} cannot be used: {said(error)}")
        # Another member may have chosen another length first; all use that one.
        self.seconds = found["config"]["max_age"] / 1e9

    async def announce(self, connection: NatsConnection, timeout: float) -> None:
        """Be a member for the length of a lease."""
        await self._take(connection, timeout, f"{_MEMBERS}{self.member}")

    async def take(self, connection: NatsConnection, timeout: float, work: str) -> bool:
        """Take a lease, or prolong it; False if another member holds it."""
        return await self._take(connection, timeout, f"{_WORK}{work}")

    async def _take(self, connection: NatsConnection, timeout: float, key: str) -> bool:
        subject = f"{self._subjects}.{key}"
        headers = {"Nats-Expected-Last-Subject-Sequence": str(self._held.get(key, 0))}
        data = json.dumps({"member": self.member}).encode()
        reply = await connection.request(subject, data, headers, timeout)
        answer = parsed_json(reply.payload)
        error = answer.get("error")
        if error is None:
            self._held[key] = int(answer["seq"])
            return True
        if error.get("err_code") != WRONG_LAST_SEQUENCE:
            raise Away(said(error))
        if self._held.pop(key, None) is not None:
            # It has run out, and nobody may have taken it.
            return await self._take(connection, timeout, key)
        return await self._is_mine(connection, timeout, key)

    async def _is_mine(self, connection: NatsConnection, timeout: float, key: str) -> bool:
        """Whether the lease is one whose answer this member has missed."""
        asked = {"last_by_subj": f"{self._subjects}.{key}"}
        answer = await ask(connection, timeout, f"STREAM.MSG.GET.{self._stream}", asked)
        if "error" in answer:
            return False
        stored = answer["message"]
        data = parsed_json(b64decode(stored.get("data", "")))
        if data.get("member") != self.member:
            return False
        self._held[key] = int(stored["seq"])
        return True

    async def give_back(self, connection: NatsConnection, timeout: float, work: str) -> None:
        """End a lease before its time."""
        await self._give_back(connection, timeout, f"{_WORK}{work}")

    async def leave(self, connection: NatsConnection, timeout: float) -> None:
        """Be no member any more, and hold nothing."""
        for key in list(self._held):
            await self._give_back(connection, timeout, key)

    async def _give_back(self, connection: NatsConnection, timeout: float, key: str) -> None:
        sequence = self._held.pop(key, None)
        if sequence is not None:
            asked = {"seq": sequence, "no_erase": True}
            await ask(connection, timeout, f"STREAM.MSG.DELETE.{self._stream}", asked)

    async def survey(self, connection: NatsConnection, timeout: float) -> tuple[int, set[str]]:
        """The number of members, and the work that somebody holds."""
        asked = {"subjects_filter": f"{self._subjects}.>"}
        found = await ask(connection, timeout, f"STREAM.INFO.{self._stream}", asked)
        if (error := found.get("error")) is not None:
            raise Away(said(error))
        subjects = found["state"].get("subjects") or {}
        keys = [subject.removeprefix(f"{self._subjects}.") for subject in subjects]
        members = sum(key.startswith(_MEMBERS) for key in keys)
        work = {key.removeprefix(_WORK) for key in keys if key.startswith(_WORK)}
        return max(1, members), work
