"""Random programs of a controller whose units somebody changes at any moment, each number judged.

The units of the setpoint (``LS``), of the flow and of the data frame's table are three settings
here, which the panel changes together or one alone, before or after any command. Some answers have
a damaged unit, and another task chooses units too. A number is wrong if it reaches the instrument
although what the instrument last told contradicts the unit that the program means, or if a call
reports success for a number that the instrument counts in another unit.

    python -m tests.python.alicat.unit_programs --programs 1000 --seed 1
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import sys
import traceback
from collections.abc import Awaitable, Callable

from penstock.alicat import (
    AlicatConfig,
    AlicatError,
    Commands,
    FlowController,
    SetpointState,
    TimeUnit,
    open_device,
)
from penstock.alicat.commands import SetpointRequest

from .captures import FORMAT_5V12, FORMAT_10V20
from .random_programs import main
from .scripted_bus import ScriptedBus, controller, middle_controller, old_controller

STEPS = 12
#: Numbers and labels on the wire, and what one of each is in SCCM.
UNITS = {"SCCM": (12, 1.0), "SLPM": (7, 1000.0), "NLPM": (37, 1073.0)}
_MAKERS = (controller, controller, middle_controller, old_controller)


class Panel:
    """A scripted controller with three units, and a record of what it told and was sent."""

    def __init__(self, chance: random.Random) -> None:
        make = chance.choice(_MAKERS)
        self.modern = make is controller
        self.unit = make()
        self.bus = ScriptedBus(self.unit)
        self.chance = chance
        self.setpoint_unit = self.flow_unit = self.table_unit = "SCCM"
        self.told_unit: str | None = None
        self.told_table = "SCCM"
        self.commanded = True
        """Whether a command has changed a unit since the unit was told."""
        self.restless = self.damages = False
        self.meant: str | None = None
        self.limit_sccm: float | None = None
        self.wrong: list[str] = []
        self.counted_in: str | None = None
        self._held = 5.0
        replies = self.unit.replies
        self._frame = replies[b""] if isinstance(replies[b""], bytes) else None
        self._rows = FORMAT_5V12 if make is old_controller else FORMAT_10V20
        replies[b"??D*"] = self._table
        replies[b"FPF 5"] = lambda command: b"A +50000.00 %02d %s" % self._code(self.flow_unit)
        replies[b"DCU*"] = self._choose
        replies[b"SR*"] = self._ramp
        replies[b"LCDB*"] = self._deadband
        if self.modern:
            replies[b"LS*"] = self._setpoint
            replies[b"LSS"] = b"A S"
        else:
            legacy = replies[b"S*"]
            assert callable(legacy)

            def set_it(command: bytes) -> object:
                self._take(float(command[1:]))
                return self._moved(legacy(command))

            replies[b"S*"] = set_it  # type: ignore[assignment]
            del replies[b"SR*"], replies[b"LCDB*"]

    @staticmethod
    def _code(label: str) -> tuple[int, bytes]:
        return UNITS[label][0], label.encode()

    def turn(self) -> None:
        """Choose another unit: for everything, or for one of the three alone."""
        label = self.chance.choice(list(UNITS))
        which = self.chance.randrange(6)
        if which in (0, 1, 2, 3):
            self.setpoint_unit = label
        if which in (0, 1, 2, 4):
            self.table_unit = label
        if which in (0, 1, 2, 5):
            self.flow_unit = label

    def _moved(self, reply: object) -> object:
        if self.restless and self.chance.random() < 0.1:
            self.turn()
        return reply

    def _with_unit(self, text: bytes, label: str, tail: bytes = b"") -> bytes:
        code, name = self._code(label)
        if self.damages and self.chance.random() < 0.1:
            name = self.chance.choice((b"SCCS", b"S\x0fCM", b"XLPM", b"SL/h"))
        return text + b" %02d " % code + name + tail

    def _setpoint(self, command: bytes) -> bytes:
        self._moved(None)
        argument = command[2:].strip()
        if argument:
            self._take(float(argument))
            self._held = float(argument)
        else:
            self.told_unit, self.commanded = self.setpoint_unit, False
        reply = self._with_unit(b"A +000.00 %+07.2f" % self._held, self.setpoint_unit)
        self._moved(None)
        return reply

    def _ramp(self, command: bytes) -> bytes:
        argument = command[2:].split()
        if argument:
            self._take(float(argument[0]), limited=False)
        label = self.setpoint_unit.encode()
        return b"A 5.0 %d 4 %s/s" % (self._code(self.setpoint_unit)[0], label)

    def _deadband(self, command: bytes) -> bytes:
        argument = command[4:].split()
        if argument:
            self._take(float(argument[1]), limited=False)
        return self._with_unit(b"A 5.0", self.setpoint_unit)

    def _choose(self, command: bytes) -> bytes:
        words = command.split()
        if len(words) > 2:
            code = int(words[2])
            label = next(name for name, (number, _) in UNITS.items() if number == code)
            self.setpoint_unit = self.table_unit = self.flow_unit = label
            self.commanded = True
        return self._with_unit(b"A", self.flow_unit)

    def _table(self, command: bytes) -> list[bytes]:
        self._moved(None)
        rows = [self._row(row) for row in self._rows]
        self.told_table = self.table_unit
        if not self.modern:
            self.told_unit, self.commanded = self.table_unit, False
            self.setpoint_unit = self.table_unit  # it has no other
        self._moved(None)
        return rows

    def _row(self, row: bytes) -> bytes:
        is_setpoint = b"setp" in row.lower()
        code, label = self._code(self.table_unit if is_setpoint else self.flow_unit)
        row = row.replace(b"012 02 SCCM", b"%03d 02 %s" % (code, label))
        return row.replace(b"SCCM", label).replace(b"0500.0", b"9999.9")

    def _take(self, value: float, *, limited: bool = True) -> None:
        """Judge a number that has reached the instrument."""
        self.counted_in = self.setpoint_unit if self.modern else self.table_unit
        if not value:
            return
        facts = {"told": self.told_unit, "table": self.told_table, "meant": self.meant}
        if self.commanded or len(set(facts.values())) > 1:
            self.wrong.append(f"{value} was sent with {facts}, commanded {self.commanded}")
        if limited and self.limit_sccm is not None and self.meant is not None:
            sccm = value * UNITS[self.meant][1]
            if sccm > self.limit_sccm * 1.000001:
                self.wrong.append(f"{value} {self.meant} exceeds the limit {self.limit_sccm} SCCM")


async def _run(seed: int) -> list[str]:
    chance = random.Random(f"units/{seed}")
    panel = Panel(chance)
    config = AlicatConfig(unit_check_s=chance.choice((0.0, 1e-9, 10.0)))
    device = await open_device(panel.bus, timeout=20, config=config)
    assert isinstance(device, FlowController)
    program_unit = "SCCM"
    panel.restless, panel.damages = chance.random() < 0.6, chance.random() < 0.3

    async def accept() -> None:
        nonlocal program_unit
        format_now = await device.refresh_data_frame_format()
        field = format_now.setpoint_field
        assert field is not None and field.unit_label is not None
        program_unit = field.unit_label

    async def number(call: Callable[[], Awaitable[object]], stated: str | None) -> None:
        panel.meant, panel.counted_in = stated or program_unit, None
        state = await call()
        if panel.counted_in not in (None, panel.meant) and panel.modern:
            panel.wrong.append(f"{state} is reported, and counts in {panel.counted_in}")
        if isinstance(state, SetpointState) and state.unit_label != panel.meant:
            panel.wrong.append(f"{state} bears another unit than {panel.meant}")

    async def attempt(call: Callable[[], Awaitable[object]]) -> None:
        with contextlib.suppress(AlicatError):
            await call()

    def step() -> Callable[[], Awaitable[object]]:
        value = chance.choice((0.25, 0.5, 2.0, 90.0))
        stated = chance.choice((None, *UNITS))
        kinds = 9 if panel.modern else 6
        match chance.randrange(kinds):
            case 0 | 1:
                return lambda: number(lambda: device.setpoint(value, stated), stated)
            case 2:
                return device.poll
            case 3:
                return accept
            case 4:
                label = chance.choice(list(UNITS))
                high = chance.choice((1.0, 50.0))
                device.limit_setpoint(0, high, label)
                panel.limit_sccm = high * UNITS[label][1]
                return device.poll
            case 5:
                device.limit_setpoint()
                panel.limit_sccm = None
                return device.poll
            case 6:
                rate = lambda: device.ramp_rate(value, TimeUnit.SECOND, unit=stated)  # noqa: E731
                return lambda: number(rate, stated)
            case 7:
                return lambda: number(lambda: device.deadband_limit(value, unit=stated), stated)
            case _:
                bare = SetpointRequest(0.2)
                return lambda: number(lambda: device.execute(Commands.SETPOINT, bare), None)

    for _ in range(STEPS):
        if panel.restless and chance.random() < 0.5:
            panel.turn()
        first = step()
        if panel.modern and chance.random() < 0.3:
            code = UNITS[chance.choice(list(UNITS))][0]
            raw = f"ADCU 5 {code}\r".encode()

            async def choose(code: int = code) -> None:
                nonlocal program_unit
                setting = await device.engineering_units("mass_flow", code)
                assert device.session.meant_label in (program_unit, setting.label)
                program_unit = device.session.meant_label

            other = chance.choice(
                (
                    choose,
                    lambda: device.client.query_line(raw),  # noqa: B023
                    device.poll,
                )
            )
            await asyncio.gather(attempt(first), attempt(other))
        else:
            await attempt(first)

    # A change that is over is put right by one call that states the unit.
    panel.restless = panel.damages = False
    device.limit_setpoint()
    panel.limit_sccm = None
    label = chance.choice(list(UNITS))
    panel.setpoint_unit = panel.table_unit = panel.flow_unit = label
    try:
        await number(lambda: device.setpoint(0.5, label), label)
    except AlicatError as error:
        panel.wrong.append(f"the unit {label} is stated and refused: {error}")
    return panel.wrong


def run_program(seed: int) -> str | None:
    """Run one program; what was wrong, or None."""
    try:
        wrong = asyncio.run(asyncio.wait_for(_run(seed), 60))
    except Exception:
        return f"program {seed}: {traceback.format_exc()}"
    return f"program {seed}: {'; '.join(wrong)}" if wrong else None


if __name__ == "__main__":
    sys.exit(main(run_program, __doc__ or ""))
