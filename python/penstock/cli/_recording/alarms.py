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

import anyio
import anyio.to_thread

from penstock.alicat import AlicatManager, DeviceResult, Reading
from penstock.cli._limits import Alarm, LimitPlan, LimitWatch
from penstock.cli._recording.alarm_states import AlarmStates
from penstock.cli._recording.plan import AlarmPlan
from penstock.cli._recording.progress import Progress
from penstock.record import Recording

__all__ = ["Alarms"]

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
            text = f"not run for this: {_MOST_WAITING} alarms wait for it already"
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
