"""Alarms to a web hook, signed (Standard Webhooks 1.0, https://www.standardwebhooks.com)."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import os
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from penstock.record._network.http_post import HttpPost
from penstock.record._network.protocol import Away
from penstock.record._network.server import Secret, split_url, trusting
from penstock.record.alarms.delivery import NeverTaken
from penstock.record.errors import SinkWriteError

__all__ = ["Webhook"]

_SECRETS = "write the secret into a file, or into PENSTOCK_WEBHOOK_SECRET"
_GONE = 410
_PREFIX = "whsec_"


class Webhook:
    """Posts events to a URL, each with its identity and a signature.

    The header ``webhook-id`` is the event's identity and the same in all attempts: whoever gets one
    twice drops the second. ``webhook-signature`` is ``v1,`` and the base64 of HMAC-SHA256 over
    ``id.timestamp.body`` with the secret. 2xx is success, and nothing else: redirects are not
    followed. 410 ends the attempts.

    Args:
        url: ``https://HOST[:PORT]/PATH``.
        secret_file: a file with the secret, ``whsec_`` and base64, or any text. Without it the
            environment's PENSTOCK_WEBHOOK_SECRET.
        ca_file: certificates (PEM) of an authority of your own.
        timeout: seconds for an attempt.

    Raises:
        ValueError: the URL is malformed, or holds a password.
        SinkWriteError: there is no secret.
    """

    def __init__(
        self,
        url: str,
        *,
        secret_file: str | os.PathLike[str] | None = None,
        ca_file: str | os.PathLike[str] | None = None,
        timeout: float = 20.0,
    ) -> None:
        parts = split_url(url, _SECRETS)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("a web hook is https://HOST/PATH")
        self._secret = Secret(
            None if secret_file is None else Path(secret_file), "PENSTOCK_WEBHOOK_SECRET"
        )
        self._key()
        tls = trusting(ca_file) if parts.scheme == "https" else None
        port = parts.port or (443 if tls else 80)
        self._http = HttpPost(parts.hostname, port, tls, timeout)
        self._target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self._shown = f"{parts.scheme}://{parts.hostname}:{port}"

    def __str__(self) -> str:
        """Without the path, which is a secret with some services."""
        return self._shown

    async def deliver(self, event: dict[str, Any]) -> None:
        """Send an event once.

        Raises:
            NeverTaken: the receiver is gone for good.
            Away: it has not taken the event now.
        """
        data = {name: value for name, value in event.items() if name not in ("type", "time")}
        moment = datetime.fromtimestamp(event["time"], UTC).isoformat()
        body = json.dumps({"type": event["type"], "timestamp": moment, "data": data}).encode()
        stamp = str(int(time.time()))
        fields = {
            "Content-Type": "application/json",
            "webhook-id": event["id"],
            "webhook-timestamp": stamp,
            "webhook-signature": self._signature(event["id"], stamp, body),
        }
        answer = await self._http.post(self._target, fields, body)
        if answer.status == _GONE:
            raise NeverTaken("it answers 410: it wants no more events")
        if not 200 <= answer.status < 300:
            raise Away(f"it answers {answer.status}", answer.retry_after())

    async def close(self) -> None:
        """Close the connection."""
        await self._http.close()

    def _signature(self, identity: str, stamp: str, body: bytes) -> str:
        signed = f"{identity}.{stamp}.".encode() + body
        try:
            key = self._key()
        except SinkWriteError as error:
            raise Away(str(error)) from error
        return "v1," + base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()

    def _key(self) -> bytes:
        text = self._secret.read()
        if text is None:
            raise SinkWriteError(f"the web hook has no secret: {_SECRETS}")
        if text.startswith(_PREFIX):
            try:
                return base64.b64decode(text.removeprefix(_PREFIX), validate=True)
            except binascii.Error as error:
                raise SinkWriteError(
                    f"the web hook's secret begins with {_PREFIX} and is no base64: copy it again"
                ) from error
        return text.encode()
