"""Polls on a shared line under a fault plan, in memory and on a virtual clock, every value checked.

Each simulated value tells whose it is, which poll it answers and in which unit it is counted, so a
reading that is stale, another unit's or mislabelled shows itself. As a program:

    python tests/python/sim/poll_run.py --polls 1000000 --seed 7
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import subprocess
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from penstock.alicat import (
    AlicatConfig,
    AlicatError,
    AlicatProtocolClient,
    ByteStreamTransport,
    Device,
    Reading,
    open_device,
)
from penstock.alicat.commands.system import BAUD_RATES
from penstock.sim import (
    Bus,
    BusFaults,
    LoggedFault,
    MassFlowController,
    MemoryStream,
    VirtualClockLoop,
)

ROOT = Path(__file__).resolve().parents[3]
TIMEOUT = 0.2
UNIT_CHECK_S = 1.0
#: Every fault of a line but its unplugging, some hundred times in ten thousand polls.
EVERY_FAULT = BusFaults(
    drop_rate=0.01,
    late_rate=0.01,
    late_by=3 * TIMEOUT,
    corrupt_rate=0.01,
    noise_rate=0.01,
    duplicate_id_rate=0.005,
    reboot_rate=0.0005,
    reboot_time=0.7,
    panel_unit_rate=0.0005,
)
#: Seconds in which the line is unplugged once, for how long, and polls in a second at the least.
_UNPLUG_EVERY_S = 60.0
_UNPLUG_FOR_S = (0.2, 1.0)
_SLOWEST_POLLS_HZ = 20
#: Seconds between two changes of the baud rate, and until the program follows one at the panel.
_BAUD_EVERY_S = (4.0, 16.0)
_BAUD_FOR_S = (0.1, 2.0)
_STEPS = 50_000
_DECIMALS = {"SCCM": 2, "SLPM": 3}
_LABELS = {12: "SCCM", 7: "SLPM"}
_HEADING = """\
# Polls on a virtual clock under every fault

Rows of `python tests/python/sim/poll_run.py --result FILE`, which docs/sim.md explains. The seconds
are virtual. The columns are those of alicat_soak.md.

| day | commit | seed | seconds | polls | right | lost | wrong | old label | wrong table \
| damaged | faults |
|---|---|---|---|---|---|---|---|---|---|---|---|
"""


def encoded(ordinal: int, code: int, poll: int) -> tuple[float, ...]:
    """The columns of a frame that answers a poll: each is a function of whose, unit and number."""
    high, low = divmod(poll, _STEPS)
    scale = 10.0 ** _DECIMALS[_LABELS[code]]
    return (
        ordinal + code / 100,
        high / 100,
        (poll * 31 + ordinal) % _STEPS / 100,
        low / scale,
        0.0,
    )


@dataclass
class Outcome:
    """What became of the polls of one run."""

    seed: int
    asked: int = 0
    delivered: int = 0
    """Readings whose every value is right."""
    corrupted: int = 0
    """Readings that the fault log has as changed into another valid frame."""
    wrong: list[str] = field(default_factory=list)
    """Stale, misattributed or damaged readings that nothing in the fault log accounts for."""
    mislabelled: int = 0
    """Right values under the label of before a change at the panel."""
    longest_mislabelled_s: float = 0.0
    mistabled: int = 0
    """Right values under the names or labels of a format table that a fault changed."""
    failed: dict[str, int] = field(default_factory=dict)
    faults: dict[str, int] = field(default_factory=dict)
    virtual_seconds: float = 0.0


class Judge:
    """Knows what each unit has said, and what the line has done to it."""

    def __init__(self, bus: Bus, units: Sequence[MassFlowController], outcome: Outcome) -> None:
        self.units = units
        self.outcome = outcome
        self._changed: deque[bytes] = deque(maxlen=256)
        self._panel: dict[str, float] = {}
        self._tables: set[str] = set()
        bus.fault_log.subscribe(self._note)

    def _note(self, fault: LoggedFault) -> None:
        if fault.before != fault.after:
            self._changed.append(fault.after)
            if b" D01 " in fault.before:
                self._tables.add(fault.unit_id)
        elif fault.kind == "panel-unit":
            self._panel[fault.unit_id] = fault.at

    def check(self, ordinal: int, polls_before: int, reading: Reading, now: float) -> None:
        unit = self.units[ordinal - 1]
        values = [value for value in reading.values.values() if isinstance(value, float)]
        code = round(values[0] * 100) % 100
        label = _LABELS.get(code)
        if label is not None:
            poll = round(values[1] * 100) * _STEPS + round(values[3] * 10 ** _DECIMALS[label])
            current = polls_before < poll <= unit.polls
            if current and _same(values, encoded(ordinal, code, poll)):
                self._judge_label(unit.unit_id, reading.units.get("Mass_Flow"), label, now)
                return
        if any(_same(values, numbers) for line in self._changed for numbers in _numbers(line)):
            self.outcome.corrupted += 1
            return
        self.outcome.wrong.append(
            f"unit {unit.unit_id} at {now:.3f} s, polls {polls_before} to {unit.polls}: {values}"
        )

    def _judge_label(self, unit_id: str, shown: str | None, label: str, now: float) -> None:
        outcome = self.outcome
        if shown == label:
            outcome.delivered += 1
        elif shown in _DECIMALS and unit_id in self._panel:
            outcome.mislabelled += 1
            age = now - self._panel[unit_id]
            outcome.longest_mislabelled_s = max(outcome.longest_mislabelled_s, age)
        elif unit_id in self._tables:
            outcome.mistabled += 1
        else:
            outcome.wrong.append(f"unit {unit_id} at {now:.3f} s: {label} labelled {shown}")


def _same(one: Sequence[float], other: Sequence[float]) -> bool:
    return len(one) == len(other) and all(
        abs(a - b) < 1e-6 for a, b in zip(one, other, strict=True)
    )


def _numbers(data: bytes) -> Iterator[list[float]]:
    """The columns of every line in some bytes that can be read as a frame."""
    for line in data.split(b"\r"):
        try:
            yield [float(word) for word in line.split()[1:6]]
        except ValueError:
            continue


async def poll_device(
    ordinal: int,
    device: Device,
    judge: Judge,
    failed: Counter[str],
    go_on: Callable[[], bool],
) -> None:
    """Poll a device again and again, and have each reading judged."""
    instrument, outcome = judge.units[ordinal - 1], judge.outcome
    now = asyncio.get_running_loop().time
    while go_on():
        outcome.asked += 1
        before = instrument.polls
        try:
            reading = await device.poll()
        except AlicatError as error:
            failed[type(error).__name__] += 1
            # A device that is known to be away answers at once; time must pass meanwhile.
            await asyncio.sleep(0.1)
            continue
        judge.check(ordinal, before, reading, now())


class Line:
    """The host's ends of a bus, each at a baud rate.

    At another rate than the bus's nothing that is sent is understood. Once somebody has changed
    the rate at a panel, what arrives is garbled until the host has followed.
    """

    def __init__(self, bus: Bus, seed: int) -> None:
        self.bus = bus
        self.chance = random.Random(f"baud/{seed}")
        self.host = bus.baudrate
        self.garbles = False

    async def open(self) -> ByteStreamTransport:
        """An end at the present rate of the host."""
        return ByteStreamTransport(RatedStream(self), baudrate=self.host)

    async def open_at(self, baudrate: int) -> ByteStreamTransport:
        """An end at another rate."""
        self.host = baudrate
        self.garbles = self.garbles and baudrate != self.bus.baudrate
        return await self.open()

    def turn(self, baudrate: int) -> None:
        """Change the rate of all units at their panels."""
        self.bus.baudrate = baudrate
        self.garbles = self.host != baudrate
        self.bus.fault_log.add(self.bus.clock(), "panel-baud", "", detail=str(baudrate))


class RatedStream(MemoryStream):
    """An end of a :class:`Line`."""

    def __init__(self, line: Line) -> None:
        super().__init__(line.bus)
        self._line = line
        self._rate = line.host

    async def send(self, item: bytes) -> None:
        await super().send(item if self._rate == self._line.bus.baudrate else b"")

    async def receive(self, max_bytes: int = 65536) -> bytes:
        data = await super().receive(max_bytes)
        if not self._line.garbles:
            return data
        garbled = self._line.chance.randbytes(len(data))
        log, now = self._line.bus.fault_log, self._line.bus.clock()
        log.add(now, "garbled", "", before=data, after=garbled)
        return garbled


async def change_rates(line: Line, devices: Sequence[Device], go_on: Callable[[], bool]) -> None:
    """Change the baud rate again and again: by a command in the middle of the polls, or at a panel.

    A while after a change that the program has not made, or has lost, it is told the rate.
    """
    client = devices[0].client
    while go_on():
        await asyncio.sleep(line.chance.uniform(*_BAUD_EVERY_S))
        rate = line.chance.choice(sorted(BAUD_RATES))
        if line.chance.random() < 0.5:
            line.bus.fault_log.add(line.bus.clock(), "baud-command", "", detail=str(rate))
            with suppress(AlicatError):
                await line.chance.choice(devices).change_baud_rate(rate, confirm=True)
        else:
            line.turn(rate)
            await asyncio.sleep(line.chance.uniform(*_BAUD_FOR_S))
        while client.transport.baudrate != line.bus.baudrate:
            assert line.bus.baudrate is not None
            with suppress(AlicatError):
                await client.change_baudrate(line.bus.baudrate)
            await asyncio.sleep(0.1)


async def run(polls: int, seed: int, faults: BusFaults | None, lag: int = 0) -> Outcome:
    """Poll eight units side by side until ``polls`` were asked for in all.

    With a ``lag`` the instruments answer with values of so many polls before. With ``faults``, the
    baud rate changes too.
    """
    units = "ABCDEFGH"
    loop = asyncio.get_running_loop()
    outcome = Outcome(seed)
    instruments = [MassFlowController(unit, clock=loop.time) for unit in units]
    left_streaming = BusFaults() if faults is None else BusFaults(streaming=[units[0]])
    bus = Bus(instruments, baudrate=115200, faults=left_streaming, clock=loop.time)
    judge = Judge(bus, instruments, outcome)
    for ordinal, instrument in enumerate(instruments, start=1):
        instrument.readings = encoder(ordinal, instrument, lag)
    line = Line(bus, seed)
    client = AlicatProtocolClient(
        await line.open(),
        default_timeout=TIMEOUT,
        reconnect=None if faults is None else line.open,
        reopen_at=line.open_at,
    )
    config = AlicatConfig(unit_check_s=UNIT_CHECK_S)
    devices = [
        await open_device(client, unit_id=unit, timeout=TIMEOUT, config=config) for unit in units
    ]
    if faults is not None:
        bus.faults = faults
    failed: Counter[str] = Counter()
    async with asyncio.TaskGroup() as tasks:
        for ordinal, device in enumerate(devices, start=1):
            tasks.create_task(
                poll_device(ordinal, device, judge, failed, lambda: outcome.asked < polls)
            )
        if faults is not None:
            tasks.create_task(change_rates(line, devices, lambda: outcome.asked < polls))
    await client.aclose()
    outcome.failed = dict(failed)
    outcome.faults = dict(bus.fault_log.counts)
    outcome.virtual_seconds = round(loop.time(), 3)
    return outcome


def unplugging(seconds: float, seed: int) -> list[tuple[float, float]]:
    """When the line is away in so many seconds, and for how long."""
    chance = random.Random(f"unplug/{seed}")
    return [
        (_UNPLUG_EVERY_S * (n + chance.uniform(0.2, 0.7)), chance.uniform(*_UNPLUG_FOR_S))
        for n in range(1 + int(seconds / _UNPLUG_EVERY_S))
    ]


def encoder(ordinal: int, unit: MassFlowController, lag: int) -> Callable[[int], tuple[float, ...]]:
    def values(poll: int) -> tuple[float, ...]:
        shown = unit.instrument.unit_of(5)
        assert shown is not None
        return encoded(ordinal, shown.code, max(0, poll - lag))

    return values


@contextmanager
def virtual_client_clock(loop: VirtualClockLoop) -> Iterator[None]:
    """Have the client's modules read the loop's clock where they read ``monotonic``."""
    modules: Mapping[str, object] = {
        name: module
        for name, module in sys.modules.items()
        if name.startswith("penstock.alicat.") and hasattr(module, "monotonic")
    }
    before = {name: vars(module)["monotonic"] for name, module in modules.items()}
    try:
        for module in modules.values():
            vars(module)["monotonic"] = loop.time
        yield
    finally:
        for name, module in modules.items():
            vars(module)["monotonic"] = before[name]


def run_virtually(
    polls: int, seed: int, faults: BusFaults | None = EVERY_FAULT, lag: int = 0
) -> Outcome:
    """``run`` on a loop whose time passes only while nothing else happens."""
    if faults is not None:
        unplug = unplugging(polls / _SLOWEST_POLLS_HZ, seed)
        faults = replace(faults, seed=seed, unplug=unplug)
    loop = VirtualClockLoop()
    with (
        virtual_client_clock(loop),
        asyncio.Runner(loop_factory=lambda: loop) as runner,
    ):
        return runner.run(run(polls, seed, faults, lag))


def append_row(path: Path, heading: str, cells: Sequence[object]) -> None:
    """Append a row to a table, after the day and the commit; a new file begins with ``heading``."""
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True
    ).stdout.strip()
    path.parent.mkdir(exist_ok=True)
    new = not path.exists()
    with path.open("a", encoding="utf-8") as file:
        if new:
            file.write(heading)
        day = time.strftime("%Y-%m-%d", time.gmtime())
        file.write(f"| {' | '.join(map(str, (day, commit, *cells)))} |\n")


def counted(outcome: Outcome) -> tuple[int, ...]:
    """The counts of a run for a table, from its polls on."""
    return (
        outcome.asked, outcome.delivered, sum(outcome.failed.values()), len(outcome.wrong),
        outcome.mislabelled, outcome.mistabled, outcome.corrupted, sum(outcome.faults.values()),
    )  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--polls", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--result", type=Path, help="append the counts to this file")
    options = parser.parse_args()
    outcome = run_virtually(options.polls, options.seed)
    print(json.dumps(asdict(outcome), indent=2))
    if options.result is not None:
        seconds = f"{outcome.virtual_seconds:.0f}"
        append_row(options.result, _HEADING, (outcome.seed, seconds, *counted(outcome)))
    return 1 if outcome.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
