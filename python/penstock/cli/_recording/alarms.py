"""The alarms of a run: events in the recording, words in the table, and a command.

The command is run by a worker thread, one at a time, for a bounded time, and few wait: an alarm
that flutters must neither delay a poll nor fill the machine with processes.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from penstock.alicat import AlicatManager, DeviceResult, Reading
from penstock.cli._errors import CommandError, ExitCode, one_line
from penstock.cli._limits import Alarm, LimitPlan, LimitWatch
from penstock.cli._recording.plan import AlarmPlan
from penstock.cli._recording.progress import Progress
from penstock.record import Recording, SinkError
from penstock.record.alarms import AlarmBook, AlarmBookError, AlarmDelivery, MqttAlarms, Webhook
from penstock.record.alarms.delivery import Destination

_MOST_WAITING = 16


class Alarms:
    """Judges the answers of a run. For one event loop.

    ``demand`` is called with each device that an alarm wants in its safe state.
    """

    def __init__(
        self,
        manager: AlicatManager,
        progress: Progress,
        limits: Mapping[str, Sequence[LimitPlan]],
        command: AlarmPlan | None,
        demand: Callable[[str], None],
        states: AlarmStates | None = None,
    ) -> None:
        self._manager = manager
        self._progress = progress
        self._command = command
        self._demand = demand
        self._states = states
        self._watches = {
            name: [LimitWatch(name, plan) for plan in plans]
            for name, plans in limits.items()
            if plans
        }
        self._units: dict[str, dict[str, str | None]] = {}
        self._revision = -1
        self._recording: Recording | None = None
        self._waiting: deque[Alarm] = deque()
        self._arrived = anyio.Event()

    def judge(self, name: str, result: DeviceResult[Reading]) -> None:
        """Judge an answer by the limits of its device."""
        watches = self._watches.get(name)
        if not watches or result.value is None:
            return
        if self._manager.revision != self._revision:
            self._revision = self._manager.revision
            self._units = {
                device: {field.name: field.unit for field in fields}
                for device, fields in self._manager.field_schemas().items()
            }
        units = self._units.get(name, {})
        for number, watch in enumerate(watches, 1):
            alarm = watch.judge(result.value.values, units, result.received_monotonic_ns)
            if self._states is not None:
                self._states.judged(f"{name}/{watch.plan.field}/{number}", alarm, watch)
            if alarm is not None:
                self._raise(alarm)
                if alarm.begins:
                    for device_name in (name,) if watch.plan.safe is None else watch.plan.safe:
                        self._demand(device_name)
        device = self._progress.devices[name]
        device.alarms = sum(watch.active for watch in watches)

    def _raise(self, alarm: Alarm) -> None:
        self._progress.alarms += alarm.begins
        self._note(alarm.device, "alarm" if alarm.begins else "alarm_ended", alarm.message)
        if self._command is None or not self._command.command:
            return
        if len(self._waiting) >= _MOST_WAITING:
            text = f"not run for this: {_MOST_WAITING} alarms are already waiting for it"
            self._note(alarm.device, "alarm_command", text)
            return
        self._waiting.append(alarm)
        self._arrived.set()

    def _note(self, device: str, kind: str, message: str) -> None:
        if self._recording is not None:
            self._recording.note(message, device=device, kind=kind)

    def attach(self, recording: Recording) -> None:
        """Note alarms in ``recording`` from here on."""
        self._recording = recording

    async def run_commands(self) -> None:
        """Run the command for each alarm, in order, until cancelled.

        A command that is running then is waited for, as long as it may take.
        """
        while True:
            while not self._waiting:
                self._arrived = anyio.Event()
                await self._arrived.wait()
            alarm = self._waiting.popleft()
            assert self._command is not None
            with anyio.CancelScope(shield=True):
                outcome = await anyio.to_thread.run_sync(_run, self._command, alarm)
            self._note(alarm.device, "alarm_command", outcome)


def _run(command: AlarmPlan, alarm: Alarm) -> str:
    """Run the command for an alarm; what became of it. In a worker thread."""
    environment = {
        **os.environ,
        "PENSTOCK_ALARM": "begin" if alarm.begins else "end",
        "PENSTOCK_ALARM_DEVICE": alarm.device,
        "PENSTOCK_ALARM_FIELD": alarm.field,
        "PENSTOCK_ALARM_VALUE": "" if alarm.value is None else repr(alarm.value),
        "PENSTOCK_ALARM_MESSAGE": alarm.message,
    }
    program = command.command[0]
    began = time.monotonic()
    try:
        # A session of its own: Ctrl-C on the terminal is for the run, and all that the command has
        # started is ended with it.
        process = subprocess.Popen(
            command.command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        return f"{program} cannot be run: {error}"
    try:
        code = process.wait(command.timeout)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return f"{program} did not end within {command.timeout:g} s, and was killed"
    how = f"was ended by signal {-code}" if code < 0 else f"ended with code {code}"
    return f"{program} {how} after {time.monotonic() - began:.1f} s"


# The alarm book of a run: changes in order, away from the loop, and requests of people.

ACTIONS = {
    "acknowledge": "alarm_acknowledged",
    "reset": "alarm_reset",
    "shelve": "alarm_shelved",
    "unshelve": "alarm_unshelved",
}
"""What a person does with an alarm, and the event of it in the recording."""

_LOOKED_AT_EVERY_S = 0.5
_MOST_SECONDS = 1e12
_BOOK = "alarms.json"


def destinations_of(plan: AlarmPlan) -> dict[str, Destination]:
    """Who is told, by name. CommandError: a URL or a secret cannot be used."""
    found: dict[str, Destination] = {}
    try:
        if plan.webhook is not None:
            found["webhook"] = Webhook(
                plan.webhook, secret_file=plan.secret_file, ca_file=plan.ca_file
            )
        if plan.mqtt is not None:
            found["mqtt"] = MqttAlarms(
                plan.mqtt, password_file=plan.password_file, ca_file=plan.ca_file
            )
    except (ValueError, SinkError) as error:
        raise CommandError(f"[alarm]: {one_line(error)}", ExitCode.CONFIG) from error
    return found


class AlarmStates:
    """The book of ``plan``, and the delivery of its events. For one event loop.

    Whether a value raises an alarm is decided by :class:`penstock.cli._limits.LimitWatch`.

    Raises:
        CommandError: the book, a URL or a secret cannot be used.
    """

    def __init__(self, plan: AlarmPlan, folder: Path) -> None:
        destinations = destinations_of(plan)
        try:
            self._book = AlarmBook(plan.book or folder / _BOOK, destinations, latch=plan.latch)
        except AlarmBookError as error:
            raise CommandError(f"[alarm] book: {one_line(error)}", ExitCode.OUTPUT) from error
        self._delivery = AlarmDelivery(self._book, destinations)
        try:
            self._delivery.start()
        except OSError as error:
            self._book.close()
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
        if not isinstance(action, str) or action not in ACTIONS or not isinstance(key, str):
            raise AlarmBookError(f"the request must name an alarm and one of {', '.join(ACTIONS)}")
        arguments: list[Any] = [key]
        text = f"{author}: {key}"
        if action == "shelve":
            seconds = request.get("seconds")
            if isinstance(seconds, bool) or not isinstance(seconds, int | float):
                raise AlarmBookError("to shelve an alarm, the request must name a time in seconds")
            if not abs(seconds) < _MOST_SECONDS:  # JSON has integers that no float holds
                raise AlarmBookError("to shelve an alarm, the request must name a time in seconds")
            arguments.append(float(seconds))
            text += f" for {seconds:g} s"
        arguments.append(author)
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(getattr(self._book, action), *arguments)
            device = _device_of(key)
            known = device if device in recording.summary.devices else ""
            recording.note(text, device=known, kind=ACTIONS[action])
            await anyio.to_thread.run_sync(self._delivery.look)
        return text

    def acknowledge_all(self, device: str, author: str) -> None:
        """Acknowledge the alarms of a device that nobody has acknowledged."""
        for entry in self._book.entries():
            if _device_of(entry.key) == device and not entry.acknowledged:
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

    def close(self) -> list[str]:
        """Write what has changed last, and try once more to deliver what waits. It blocks.

        Returns sentences about what could not be done.
        """
        told: list[str] = []
        for change in self._changes:
            try:
                change()
            except AlarmBookError as error:
                told.append(one_line(error))
        self._changes.clear()
        try:
            if left := self._delivery.close():
                told += self._delivery.said
                told.append(
                    f"{left} events of alarms were not delivered; they are in {self._book.path}, "
                    "and the next run with this book delivers them"
                )
        finally:
            self._book.close()
        return told


def _device_of(key: str) -> str:
    """The device of an alarm ``DEVICE/FIELD/NUMBER``; its name may have a slash itself."""
    return key.rsplit("/", 2)[0]
