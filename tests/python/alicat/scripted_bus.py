"""The far end of a wire that does exactly what a test says, with no clock of its own.

Every unit is a table from commands to replies. A test can make the next reply of a unit get
lost, stay away until later, be damaged, or be another unit's. Late replies are handed over by
the test or just before the unit's next reply, never by time: so the tests need no sleeps, and an
order of events is an order and no race.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence

import anyio
from anyio.abc import ByteStream

from .captures import (
    FORMAT_5V12,
    FORMAT_10V04_METER,
    FORMAT_10V20,
    FRAME_5V12,
    FRAME_10V04_METER,
    MADE_5V12,
    MADE_8V17,
    MADE_10V04_METER,
    MADE_10V20,
    VERSION_5V12,
    VERSION_8V17,
    VERSION_10V20,
)

Lines = Sequence[bytes]
Reply = bytes | Lines | Callable[[bytes], bytes | Lines | None] | None
Fault = Callable[[bytes], bytes]


class Unit:
    """One instrument: what it answers to a command (without unit id and carriage return)."""

    def __init__(self, unit_id: str, replies: Mapping[bytes, Reply]) -> None:
        self.unit_id = unit_id.encode()
        self.replies = dict(replies)
        self.faults: deque[Fault] = deque()
        self.held: deque[bytes] = deque()
        self.polls = 0

    def answer(self, command: bytes) -> bytes:
        """Everything that comes back for one command."""
        reply: Reply = None
        if command in self.replies:
            reply = self.replies[command]
        else:
            for prefix, candidate in self.replies.items():
                if prefix.endswith(b"*") and command.startswith(prefix[:-1]):
                    reply = candidate
        if callable(reply):
            reply = reply(command)
        if reply is None:
            return b""
        lines = [reply] if isinstance(reply, bytes) else reply
        return b"".join(self._mine(line) + b"\r" for line in lines)

    def _mine(self, line: bytes) -> bytes:
        return self.unit_id + line[1:] if line[:1] == b"A" else line

    def counting_poll(self, command: bytes) -> bytes:
        """A frame whose mass flow is the number of the poll that it answers."""
        self.polls += 1
        return b"A +014.62 +021.89 +000.00 +%06.2f +078.95     N2" % self.polls


class ScriptedBus(ByteStream):
    """The host's end of the wire."""

    def __init__(self, *units: Unit, knows_waiting: bool = True) -> None:
        self.units = {unit.unit_id: unit for unit in units}
        self.commands: list[bytes] = []
        self.closed = False
        self.lost: BaseException | None = None
        self.echo = False
        self._partial = b""
        self._arrived = bytearray()
        self._news = anyio.Event()
        if knows_waiting:
            self.input_waiting = lambda: len(self._arrived)

    async def send(self, item: bytes) -> None:
        await anyio.lowlevel.checkpoint()
        self.put(item)

    def put(self, item: bytes) -> None:
        """Take bytes of commands."""
        if self.lost is not None:
            raise self.lost
        *commands, self._partial = (self._partial + item).split(b"\r")
        for command in commands:
            self._execute(command)

    def _execute(self, command: bytes) -> None:
        self.commands.append(command)
        if self.echo:
            self.arrive(command + b"\r")
        unit = self.units.get(command[:1])
        if unit is None:
            return
        reply = unit.answer(command[1:])
        if not reply:
            return
        owed = len(unit.held)
        if unit.faults:
            reply = unit.faults.popleft()(reply)
        for _ in range(owed if reply else 0):
            # What the unit still owed goes out first: instruments answer in order.
            self.arrive(unit.held.popleft())
        self.arrive(reply)

    def arrive(self, data: bytes) -> None:
        """Let bytes reach the host now."""
        if data:
            self._arrived += data
            self._news.set()

    async def receive(self, max_bytes: int = 65536) -> bytes:
        if self._arrived:
            # What is there is received although a deadline has passed meanwhile: a machine that
            # stands still is no silence of the wire.
            await anyio.lowlevel.cancel_shielded_checkpoint()
        else:
            await anyio.lowlevel.checkpoint()
        while not self._arrived:
            if self.lost is not None:
                raise self.lost
            if self.closed:
                raise anyio.ClosedResourceError
            self._news = anyio.Event()
            await self._news.wait()
        data = bytes(self._arrived[:max_bytes])
        del self._arrived[:max_bytes]
        return data

    async def send_eof(self) -> None:
        raise NotImplementedError

    async def aclose(self) -> None:
        self.closed = True
        self._news.set()

    # -- faults of the next reply of a unit

    def drop_next(self, unit_id: str = "A") -> None:
        """It is lost."""
        self.units[unit_id.encode()].faults.append(lambda reply: b"")

    def hold_next(self, unit_id: str = "A") -> None:
        """It comes late: just before the unit's next one, or at :meth:`release`."""
        unit = self.units[unit_id.encode()]

        def hold(reply: bytes) -> bytes:
            unit.held.append(reply)
            return b""

        unit.faults.append(hold)

    def pause_next(self, lines: int, unit_id: str = "A") -> None:
        """It stops after so many lines; the others come as a late reply does."""
        unit = self.units[unit_id.encode()]

        def pause(reply: bytes) -> bytes:
            parts = reply.splitlines(keepends=True)
            unit.held.append(b"".join(parts[lines:]))
            return b"".join(parts[:lines])

        unit.faults.append(pause)

    def change_next(self, change: Fault, unit_id: str = "A") -> None:
        """It is what ``change`` makes of it."""
        self.units[unit_id.encode()].faults.append(change)

    def let_pass_next(self, unit_id: str = "A") -> None:
        """It is as it should be; to number faults of later ones."""
        self.units[unit_id.encode()].faults.append(lambda reply: reply)

    def release(self, unit_id: str = "A") -> None:
        """Late replies of the unit arrive now."""
        unit = self.units[unit_id.encode()]
        while unit.held:
            self.arrive(unit.held.popleft())


def controller(unit_id: str = "A", *, full_scale: float = 500.0) -> Unit:
    """A flow controller with 10v20 firmware; its polls count in Mass_Flow."""
    state = {"setpoint": 78.95}

    def setpoint(command: bytes) -> bytes:
        argument = command[2:].strip()
        if argument:
            state["setpoint"] = float(argument)
        return b"A +000.00 %+07.2f 12 SCCM" % state["setpoint"]

    unit = Unit(
        unit_id,
        {
            b"VE": VERSION_10V20,
            b"??M*": MADE_10V20,
            b"??D*": FORMAT_10V20,
            b"FPF 5": b"A %+07.2f 12 SCCM" % full_scale,
            b"LS*": setpoint,
        },
    )
    unit.replies[b""] = unit.counting_poll
    return unit


def meter(unit_id: str = "A") -> Unit:
    """A flow meter with 10v04 firmware."""
    return Unit(
        unit_id,
        {
            b"VE": b"A   10v04.0-R24 Mar  3 2021,11:11:11",
            b"??M*": MADE_10V04_METER,
            b"??D*": FORMAT_10V04_METER,
            b"": FRAME_10V04_METER,
            b"LS*": b"A   1 ---",
        },
    )


def old_controller(unit_id: str = "A") -> Unit:
    """A flow controller with 5v12 firmware. Any command with L locks its panel."""

    def lock(command: bytes) -> bytes:
        raise AssertionError(f"{command!r} locks the panel of this firmware")

    def setpoint(command: bytes) -> bytes:
        return FRAME_5V12.replace(b"0116.3", b"%06.1f" % float(command[1:]))

    return Unit(
        unit_id,
        {
            b"VE": VERSION_5V12,
            b"??M*": MADE_5V12,
            b"??D*": FORMAT_5V12,
            b"": FRAME_5V12,
            b"S*": setpoint,
            b"FPF 5": b"?",
            b"L*": lock,
        },
    )


def middle_controller(unit_id: str = "A") -> Unit:
    """A flow controller with 8v17 firmware, which answers LS with a data frame."""
    frame = b"A +014.62 +022.95 +000.00 +000.00 +000.00     N2"
    return Unit(
        unit_id,
        {
            b"VE": VERSION_8V17,
            b"??M*": MADE_8V17,
            b"??D*": FORMAT_10V20,
            b"": frame,
            b"LS*": frame,
            b"S*": lambda command: frame.replace(
                b"+000.00     ", b"%+07.2f     " % float(command[1:])
            ),
            b"FPF 5": b"A +200.00 07 SLPM",
        },
    )


def show_in_slpm(unit: Unit) -> None:
    """What choosing another unit at the panel does."""
    unit.replies[b"LS*"] = lambda command: b"A +000.00 +000.10 07 SLPM"
    unit.replies[b"??D*"] = [row.replace(b"012 02 SCCM", b"007 02 SLPM") for row in FORMAT_10V20]
    unit.replies[b"FPF 5"] = b"A +000.50 07 SLPM"
