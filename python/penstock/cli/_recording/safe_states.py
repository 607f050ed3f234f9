"""The safe states of a run: what its controllers are left doing after an alarm, and at its end.

They take the way of every setpoint: a number with its unit, which the instrument confirms before it
is sent. A unit that the instrument does not have is refused when the run begins, and not at the
moment of the alarm.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import anyio

from penstock.alicat import (
    AlicatError,
    AlicatManager,
    AlicatUnitChangedError,
    FlowController,
    PressureController,
    TimeUnit,
)
from penstock.cli._errors import CommandError, ExitCode, one_line
from penstock.cli._recording.plan import DevicePlan, SafeStatePlan
from penstock.record import Recording

_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 10.0
_AT_THE_END_S = 15.0
"""So long the end of a run waits for instruments that do not take their safe state."""


@dataclass(frozen=True, slots=True)
class Reached:
    """What became of one device at the end of a run."""

    device: str
    safe: bool
    message: str


class SafeStates:
    """Brings the devices of a run into their safe states. For one event loop.

    ``entered`` are the devices that an alarm has brought there, or is bringing there: the run sends
    them no setpoint any more.
    """

    def __init__(
        self,
        manager: AlicatManager,
        devices: Iterable[DevicePlan],
    ) -> None:
        self.entered: set[str] = set()
        self._manager = manager
        self._devices = {each.name: each for each in devices if each.safe_state is not None}
        self._recording: Recording | None = None
        self._wanted: list[str] = []
        self._arrived = anyio.Event()

    def attach(self, recording: Recording) -> None:
        """Note what happens in ``recording`` from here on."""
        self._recording = recording

    def _note(self, device: str, kind: str, message: str) -> None:
        if self._recording is not None:
            self._recording.note(message, device=device, kind=kind)

    def demand(self, device: str) -> None:
        """An alarm wants ``device`` in its safe state, if it has one for alarms."""
        plan = self._devices.get(device)
        if plan is None or plan.safe_state is None or not plan.safe_state.on_alarm:
            return
        if device not in self.entered:
            self.entered.add(device)
            self._wanted.append(device)
            self._arrived.set()

    async def run(self) -> None:
        """Carry out demands until cancelled. One that fails is tried again until it succeeds."""
        async with anyio.create_task_group() as tasks:
            while True:
                while not self._wanted:
                    self._arrived = anyio.Event()
                    await self._arrived.wait()
                tasks.start_soon(self._enter, self._devices[self._wanted.pop(0)])

    async def _enter(self, device: DevicePlan) -> None:
        pause = _FIRST_PAUSE_S
        told = ""
        while True:
            try:
                # To its end: a run that is stopped here leaves no command cut in two.
                with anyio.CancelScope(shield=True):
                    message = await bring_to_safe_state(self._manager, device)
            except (AlicatError, OSError) as error:
                kind = type(error).__name__
                if kind != told:
                    told = kind
                    text = f"{one_line(error)}; it is tried again until it is reached"
                    self._note(device.name, "safe_state_failed", text)
                await anyio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE_S)
            else:
                self._note(device.name, "safe_state", message)
                return

    def wanted_at_the_end(self) -> list[DevicePlan]:
        """The devices that the end of the run brings into their safe states."""
        return [
            each
            for each in self._devices.values()
            if each.safe_state is not None
            and (each.safe_state.on_exit or each.name in self.entered)
        ]

    async def at_the_end(self) -> list[Reached]:
        """Bring all devices with a safe state for the end there, in a bounded time."""
        reached: list[Reached] = []

        async def end(device: DevicePlan) -> None:
            reason = f"it was not reached within {_AT_THE_END_S:g} s"
            if device.name not in self._manager.names:
                reached.append(Reached(device.name, False, "it has not answered during the run"))
                return
            with anyio.move_on_after(_AT_THE_END_S):
                pause = _FIRST_PAUSE_S
                while True:
                    try:
                        message = await bring_to_safe_state(self._manager, device)
                    except (AlicatError, OSError) as error:
                        reason = one_line(error)
                        await anyio.sleep(pause)
                        pause *= 2
                    else:
                        reached.append(Reached(device.name, True, message))
                        return
            reached.append(Reached(device.name, False, reason))

        await _together([partial(end, device) for device in self.wanted_at_the_end()])
        return reached


async def _together(calls: Iterable[Callable[[], Coroutine[Any, Any, None]]]) -> None:
    async with anyio.create_task_group() as tasks:
        for call in calls:
            tasks.start_soon(call)


async def check_safe_state(manager: AlicatManager, device: DevicePlan) -> None:
    """Refuse a safe state that ``device`` cannot take; nothing is changed.

    Raises:
        CommandError: (exit code DEVICE).
        AlicatError: it does not answer.
    """
    plan = device.safe_state
    if plan is None:
        return
    controller = manager.get(device.name)
    if not isinstance(controller, FlowController | PressureController):
        raise _refusal(device, "the instrument is a meter, which takes no setpoint")
    if plan.setpoint is None:
        return
    try:
        await controller.check_setpoint(plan.setpoint, plan.unit)
        if plan.ramp is not None:
            await controller.ramp_rate()
    except (TimeoutError, ConnectionError):
        raise
    except AlicatError as error:
        raise _refusal(device, one_line(error)) from error


async def bring_to_safe_state(manager: AlicatManager, device: DevicePlan) -> str:
    """Send ``device`` its safe state; what it has done, as a sentence.

    Raises:
        AlicatError: it does not answer, or has not taken it.
    """
    plan = device.safe_state
    assert plan is not None
    controller = manager.get(device.name)
    assert isinstance(controller, FlowController | PressureController)
    if plan.setpoint is None:
        await controller.hold_valves()
        return "its valves are held where they are"
    how = await _ramp(controller, plan)
    try:
        state = await controller.setpoint(plan.setpoint, plan.unit)
    except AlicatUnitChangedError:
        if plan.setpoint != 0:
            raise
        # Its unit was changed since the start. Zero is zero in each.
        await controller.zero_setpoint()
        return "its setpoint is 0, in a different unit than before"
    if not state.accepted:
        raise AlicatError(
            f"it ignores setpoints and keeps {state.requested:g}: its setpoint source is probably "
            "its analogue input"
        )
    unit = f" {state.unit_label}" if state.unit_label else ""
    return f"its setpoint is {state.requested:g}{unit}{how}"


async def _ramp(controller: FlowController | PressureController, plan: SafeStatePlan) -> str:
    if plan.ramp is None:
        return ""
    try:
        await controller.ramp_rate(plan.ramp, TimeUnit.SECOND, unit=plan.unit)
    except (TimeoutError, ConnectionError):
        raise
    except AlicatError as error:
        # Rather at once than not at all.
        return f", at once and not by its ramp: {one_line(error)}"
    return f", reached by {plan.ramp:g} {plan.unit} a second"


def _refusal(device: DevicePlan, reason: str) -> CommandError:
    return CommandError(f'device "{device.name}": its safe_state: {reason}', ExitCode.DEVICE)
