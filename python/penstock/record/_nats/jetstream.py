"""JetStream's own requests, and who makes them."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from penstock.record._nats.connection import NatsConnection, parsed_json
from penstock.record._network.protocol import Misconfigured
from penstock.record._network.server import Secret
from penstock.record.errors import SinkWriteError

__all__ = ["Login", "ask", "header_of", "said"]

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
