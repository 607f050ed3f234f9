"""The delivery of alarms to web hooks and MQTT brokers, with retries."""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import hashlib
import hmac
import json
import os
import random
import secrets
import time
from collections import deque
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

from penstock.record._mqtt.broker import Broker
from penstock.record._mqtt.broker_login import BROKER_SECRETS, BrokerLogin
from penstock.record._mqtt.mqtt_sink import topic_level
from penstock.record._mqtt.packets import Message
from penstock.record._network.http_post import HttpPost
from penstock.record._network.loop_thread import LoopThread
from penstock.record._network.protocol import Away
from penstock.record._network.server import BrokerAddress, Secret, Trust, split_url
from penstock.record.alarms.alarm_book import AlarmBook, AlarmBookError
from penstock.record.errors import SinkWriteError

__all__ = ["AlarmDelivery", "Destination", "MqttAlarms", "NeverTaken", "Webhook"]

_LONGEST_AGE_S = 86400.0
_LONGEST_PAUSE_S = 3600.0
_SHELVES_EVERY_S = 1.0
# The number of refusals of an event after which the next event is tried.
_MOST_REFUSALS = 3


class NeverTaken(Exception):
    """A destination will never take an event."""


class Refused(Away):
    """A destination refuses this event, or every event: AlarmDelivery finds out which."""


class Destination(Protocol):
    """Where events go. Its methods run on one loop, one at a time."""

    async def deliver(self, event: dict[str, Any]) -> None:
        """Return when the event was taken. Away: not now. NeverTaken."""

    async def close(self) -> None:
        """Close the connection."""


class AlarmDelivery:
    """Delivers the events of an alarm book in order, to each destination independently.

    An event is tried until the destination takes it: with a back-off of ``first_pause`` seconds
    that doubles up to an hour, and whenever there is a new event. It is given up after a day, if
    the destination does not exist any more, or if the destination refuses it but takes the next
    one; ``said`` then has a sentence about it. A thread of this object does the work, so a
    destination that hangs delays neither the recording nor another destination.

    Args:
        book: the alarm book.
        destinations: the destinations by their names in the book.
        first_pause: the first back-off, in seconds.

    Attributes:
        said: sentences for the recording about destinations that do not answer, answer again or
            are given up. Any thread may take them.
    """

    def __init__(
        self, book: AlarmBook, destinations: Mapping[str, Destination], first_pause: float = 5.0
    ) -> None:
        self.said: deque[str] = deque(maxlen=100)
        self._book = book
        self._destinations = dict(destinations)
        self._first_pause = first_pause
        self._began = time.monotonic()
        self._thread = LoopThread("alarms")
        self._wake: dict[str, asyncio.Event] = {}
        self._hurry: asyncio.Event | None = None
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begin, with what a former run has left. OSError: there can be no thread."""
        self._thread.start()
        self._thread.call(self._start)

    def look(self) -> None:
        """Look for new events. Any thread but the delivery's own."""
        self._thread.call(self._look)

    def close(self, patience: float = 5.0) -> int:
        """Try the queued events once more, at most ``patience`` seconds; return how many are left.

        They stay in the book, and the next run delivers them.
        """
        try:
            self._thread.call(self._finish, patience)
        finally:
            self._thread.stop()
        return sum(len(self._book.waiting(name)) for name in self._destinations)

    async def _start(self) -> None:
        self._hurry = asyncio.Event()
        for name, destination in self._destinations.items():
            self._wake[name] = asyncio.Event()
            self._tasks.append(asyncio.create_task(self._deliver_all(name, destination)))
        self._tasks.append(asyncio.create_task(self._end_shelves()))

    async def _look(self) -> None:
        for event in self._wake.values():
            event.set()

    async def _finish(self, patience: float) -> None:
        assert self._hurry is not None
        self._hurry.set()
        await self._look()
        if deliveries := self._tasks[:-1]:
            await asyncio.wait(deliveries, timeout=patience)
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)
        for destination in self._destinations.values():
            try:
                await destination.close()
            except Exception as error:  # the others are closed
                self._say_of(destination, "cannot be closed", error)

    async def _end_shelves(self) -> None:
        while True:
            await asyncio.sleep(_SHELVES_EVERY_S)
            with contextlib.suppress(AlarmBookError):  # said by whoever changes the book next
                if await asyncio.to_thread(self._book.end_shelves):
                    await self._look()

    async def _deliver_all(self, name: str, destination: Destination) -> None:
        """Deliver until there is nothing more and ``_finish`` has begun."""
        try:
            await self._deliver_in_order(name, destination)
        except Exception as error:
            self._say_of(destination, "gets no more alarms of this run", error)

    def _say_of(self, destination: Destination, what: str, error: Exception) -> None:
        """Tell of an error that nobody expects: its type says more than its text."""
        self.said.append(f"{destination} {what}: {type(error).__name__}: {error}")

    async def _deliver_in_order(self, name: str, destination: Destination) -> None:
        assert self._hurry is not None
        while True:
            self._wake[name].clear()
            hurried = self._hurry.is_set()
            while waiting := self._book.waiting(name):
                if not await self._deliver(name, destination, waiting[0]):
                    return
            if hurried:
                return
            if not self._book.waiting(name) and not self._hurry.is_set():
                await self._wake[name].wait()

    def _age_of(self, event: dict[str, Any]) -> float:
        """The age of an event in seconds, and no more than this delivery has tried.

        The wall clock may be set by years: of a machine without a clock of its own, just when it
        gets its network, and with that both the time and the receiver.
        """
        return min(time.time() - float(event["time"]), time.monotonic() - self._began)

    async def _deliver(self, name: str, destination: Destination, event: dict[str, Any]) -> bool:
        """Deliver one event, or give it up; False when the run ends before."""
        assert self._hurry is not None
        pause, told, refusals = self._first_pause, False, 0
        while True:
            hurried = self._hurry.is_set()
            self._wake[name].clear()
            try:
                await destination.deliver(event)
            except NeverTaken as error:
                self.said.append(f"{destination} will not take {event['id']}: {error}")
                break
            except Away as error:
                if self._age_of(event) > _LONGEST_AGE_S:
                    self.said.append(f"{destination} has not taken {event['id']} in a day: {error}")
                    break
                if not told:
                    told = True
                    self.said.append(f"{destination} takes no alarms ({error}): tried again")
                refusals += isinstance(error, Refused)
                if refusals >= _MOST_REFUSALS and await self._takes_the_next(name, destination):
                    self.said.append(
                        f"{destination} will not take {event['id']}, and takes others: {error}"
                    )
                    break
                if hurried:
                    return False
                wanted = min(max(pause, error.retry_after or 0.0), _LONGEST_PAUSE_S)
                with contextlib.suppress(TimeoutError):
                    # An alarm does not wait for the pause of one before it, but where the receiver
                    # has named a time.
                    wake = self._wake[name] if error.retry_after is None else self._hurry
                    async with asyncio.timeout(wanted * random.uniform(0.75, 1.25)):
                        await wake.wait()
                pause = min(2 * pause, _LONGEST_PAUSE_S)
            except Exception as error:
                # It concerns this event alone: those after it are delivered.
                self._say_of(destination, f"cannot be told of {event['id']}, which is lost", error)
                break
            else:
                if told:
                    self.said.append(f"{destination} takes alarms again")
                break
        await self._has_taken(name, event)
        return True

    async def _takes_the_next(self, name: str, destination: Destination) -> bool:
        """Deliver the event after the first one that waits; False if it is not taken."""
        behind = self._book.waiting(name)[1:2]
        try:
            for event in behind:
                await destination.deliver(event)
                await self._has_taken(name, event)
        except Exception:  # it is reported once that event is the first
            return False
        return bool(behind)

    async def _has_taken(self, name: str, event: dict[str, Any]) -> None:
        try:
            await asyncio.to_thread(self._book.taken, name, event["id"])
        except AlarmBookError as error:
            self.said.append(str(error))  # the next run may report it again


# Who gets alarms: web hooks and MQTT brokers.

_WEBHOOK_SECRETS = "write the secret into a file, or into PENSTOCK_WEBHOOK_SECRET"
_GONE = 410
_REFUSED = frozenset({400, 413, 415, 422})
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
        parts = split_url(url, _WEBHOOK_SECRETS)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("this is not the address of a web hook: write https://HOST/PATH")
        self._secret = Secret(
            None if secret_file is None else Path(secret_file), "PENSTOCK_WEBHOOK_SECRET"
        )
        self._key()
        tls = Trust(ca_file) if parts.scheme == "https" else None
        port = parts.port or (443 if tls else 80)
        self._http = HttpPost(parts.hostname, port, tls, timeout)
        # As it was written, but for blanks and letters that a request line cannot have.
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self._target = quote(target, safe="/?%:@!$&'()*+,;=~[]")
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
            raise NeverTaken("it answered 410: it wants no more events")
        if answer.status in _REFUSED:
            raise Refused(f"it answered {answer.status}")
        if not 200 <= answer.status < 300:
            raise Away(f"it answered {answer.status}", answer.retry_after())

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
            raise SinkWriteError(f"the web hook has no secret: {_WEBHOOK_SECRETS}")
        if text.startswith(_PREFIX):
            try:
                return base64.b64decode(text.removeprefix(_PREFIX), validate=True)
            except binascii.Error as error:
                raise SinkWriteError(
                    f"the web hook's secret begins with {_PREFIX} but is not base64: copy it again"
                ) from error
        return text.encode()


# Alarms to an MQTT broker.

_PORTS = {"mqtt": 1883, "mqtts": 8883}
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
        self._address = BrokerAddress.parse(url, _PORTS, name="penstock", secrets=BROKER_SECRETS)
        if any(each in self._address.name for each in "+#\0"):
            raise ValueError(f"the prefix {self._address.name!r} is not a topic: leave out + and #")
        self._login = BrokerLogin.of(self._address, password_file, ca_file, _TIMEOUT_S)
        self._client = f"penstock-alarms-{secrets.token_hex(6)}"
        self._broker: Broker | None = None

    def __str__(self) -> str:
        return str(self._address)

    async def deliver(self, event: dict[str, Any]) -> None:
        """Publish an event, and return when the broker has acknowledged it. Away: it has not."""
        payload = json.dumps(event).encode()
        try:
            broker = await self._connected()
            # DEVICE/FIELD/NUMBER; a device's name may have a slash itself.
            levels = "/".join(map(topic_level, event["alarm"].rsplit("/", 2)))
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
            self._broker = await self._login.connect(self._client)
        return self._broker
