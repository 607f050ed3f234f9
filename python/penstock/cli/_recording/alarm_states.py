"""The alarm book of a run: changes in order, away from the loop, and requests of people."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from penstock.cli._errors import CommandError, ExitCode, one_line
from penstock.cli._limits import Alarm, LimitWatch
from penstock.cli._recording.plan import AlarmPlan
from penstock.record import Recording, SinkError
from penstock.record.alarms import (
    AlarmBook,
    AlarmBookError,
    AlarmDelivery,
    MqttAlarms,
    Webhook,
)
from penstock.record.alarms.delivery import Destination

__all__ = ["ACTIONS", "AlarmStates"]

ACTIONS = {
    "acknowledge": "alarm_acknowledged",
    "reset": "alarm_reset",
    "shelve": "alarm_shelved",
    "unshelve": "alarm_unshelved",
}
"""What a person does with an alarm, and the event of it in the recording."""

_LOOKED_AT_EVERY_S = 0.5
_BOOK = "alarms.json"


class AlarmStates:
    """The book of ``plan``, and the delivery of its events. For one event loop.

    Raises:
        CommandError: the book, a URL or a secret cannot be used.
    """

    def __init__(self, plan: AlarmPlan, folder: Path) -> None:
        destinations: dict[str, Destination] = {}
        try:
            if plan.webhook is not None:
                destinations["webhook"] = Webhook(
                    plan.webhook, secret_file=plan.secret_file, ca_file=plan.ca_file
                )
            if plan.mqtt is not None:
                destinations["mqtt"] = MqttAlarms(
                    plan.mqtt, password_file=plan.password_file, ca_file=plan.ca_file
                )
        except (ValueError, SinkError) as error:
            raise CommandError(f"[alarm]: {one_line(error)}", ExitCode.CONFIG) from error
        try:
            self._book = AlarmBook(plan.book or folder / _BOOK, destinations, latch=plan.latch)
            self._delivery = AlarmDelivery(self._book, destinations)
            self._delivery.start()
        except (AlarmBookError, OSError) as error:
            raise CommandError(one_line(error), ExitCode.OUTPUT) from error
        # Alarms that have begun in a former run: what ends them may have happened meanwhile.
        self._former = {entry.key for entry in self._book.entries() if entry.active}
        self._changes: deque[Callable[[], object]] = deque()
        self._arrived = anyio.Event()

    def judged(self, key: str, alarm: Alarm | None, watch: LimitWatch) -> None:
        """Take what an answer has changed, or not."""
        if alarm is not None:
            self._former.discard(key)
            change = self._book.begin if alarm.begins else self._book.end
            self._change(partial(change, key, alarm.message, alarm.value))
        elif key in self._former and watch.is_inside:
            self._former.discard(key)
            text = f"{watch.plan.field} is within its limits again, since the recorder was away"
            self._change(partial(self._book.end, key, text, None))

    def _change(self, change: Callable[[], object]) -> None:
        self._changes.append(change)
        self._arrived.set()

    async def act(self, request: dict[str, Any], author: str, recording: Recording) -> str:
        """Do what a person asks for; a sentence about it. AlarmBookError: it cannot be."""
        action, key = request.get("do"), request.get("alarm")
        if action not in ACTIONS or not isinstance(key, str):
            raise AlarmBookError(f"the request names no alarm, or none of {', '.join(ACTIONS)}")
        arguments: list[Any] = [key]
        text = f"{author}: {key}"
        if action == "shelve":
            seconds = request.get("seconds")
            if isinstance(seconds, bool) or not isinstance(seconds, int | float):
                raise AlarmBookError("an alarm is shelved for a time in seconds")
            arguments.append(float(seconds))
            text += f" for {seconds:g} s"
        arguments.append(author)
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(getattr(self._book, action), *arguments)
            device = key.partition("/")[0]
            known = device if device in recording.summary.devices else ""
            recording.note(text, device=known, kind=ACTIONS[action])
            await anyio.to_thread.run_sync(self._delivery.look)
        return text

    def acknowledge_all(self, device: str, author: str) -> None:
        """Acknowledge the alarms of a device that nobody has acknowledged."""
        for entry in self._book.entries():
            if entry.key.startswith(f"{device}/") and not entry.acknowledged:
                self._change(partial(self._book.acknowledge, entry.key, author))

    def listed(self) -> list[dict[str, Any]]:
        """All alarms and their states, for the answer to a person."""
        return [
            {
                "alarm": entry.key,
                "state": entry.state,
                "shelved_until": entry.shelved_until,
                "activation": entry.activation,
                "since": entry.since,
                "message": entry.message,
            }
            for entry in self._book.entries()
        ]

    async def run(self, recording: Recording) -> None:
        """Bring changes into the book, and tell of receivers, until cancelled."""
        while True:
            while self._changes:
                await self._take_change(recording)
            while self._delivery.said:
                recording.note(self._delivery.said.popleft(), kind="alarm_delivery")
            self._arrived = anyio.Event()
            with anyio.move_on_after(_LOOKED_AT_EVERY_S):
                await self._arrived.wait()

    async def _take_change(self, recording: Recording) -> None:
        change = self._changes.popleft()
        with anyio.CancelScope(shield=True):
            try:
                await anyio.to_thread.run_sync(change)
            except AlarmBookError as error:
                recording.note(one_line(error), kind="alarm_delivery")
            await anyio.to_thread.run_sync(self._delivery.look)

    def close(self) -> None:
        """Write what has changed last, and try once more to deliver what waits. It blocks."""
        for change in self._changes:
            with suppress(AlarmBookError):
                change()
        self._changes.clear()
        self._delivery.close()
