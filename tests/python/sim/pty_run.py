"""Polls over pseudo-terminals in real time under a fault plan, every value checked.

Several buses of eight units, each behind a pseudo-terminal that is unplugged now and then. The
values tell whose they are, which poll they answer and in which unit they are counted, as in
``poll_run``. As a program:

    python -m tests.python.sim.pty_run --seconds 3600 --seed 7
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path

import penstock
from penstock.alicat import (
    AlicatConfig,
    AlicatError,
    AlicatProtocolClient,
    Device,
    SerialSettings,
    open_device,
)
from penstock.alicat._devices.factory import client_for
from penstock.sim import Bus, BusFaults, MassFlowController, open_pty
from tests.python.sim.poll_run import (
    EVERY_FAULT,
    TIMEOUT,
    UNIT_CHECK_S,
    Judge,
    Outcome,
    append_row,
    counted,
    encoder,
    poll_device,
)

UNITS = "ABCDEFGH"
BAUDRATE = 115200
_UNPLUG_EVERY_S = 20.0
_HEADING = """\
# Polls over pseudo-terminals under a fault plan

Rows of `python -m tests.python.sim.pty_run`, which docs/sim.md explains. "Lost" are polls without a
reading, most of them while the terminal was unplugged. "Wrong" is stale or of another unit; "old
label" a right value under the unit of before a change at the panel; "damaged" a frame that a fault
changed into another valid one.

| day | commit | seed | buses | seconds | polls | right | lost | wrong | old label | wrong table \
| damaged | faults |
|---|---|---|---|---|---|---|---|---|---|---|---|---|
"""


def unplugging(seconds: float, seed: int) -> list[tuple[float, float]]:
    """When a terminal is away, and for how long: once in twenty seconds, and at least once."""
    chance = random.Random(f"unplug/{seed}")
    times = max(1, round(seconds / _UNPLUG_EVERY_S))
    slot = seconds / times
    return [(slot * (n + chance.uniform(0.3, 0.6)), chance.uniform(0.2, 1.0)) for n in range(times)]


async def run_bus(number: int, seconds: float, seed: int) -> Outcome:
    """Open the eight units of one bus, and poll them side by side for so many seconds."""
    loop = asyncio.get_running_loop()
    outcome = Outcome(seed)
    unplug = unplugging(seconds, seed)
    instruments = [
        MassFlowController(unit, clock=loop.time, serial_number=str(500000 + 100 * number + n))
        for n, unit in enumerate(UNITS)
    ]
    bus = Bus(
        instruments,
        baudrate=BAUDRATE,
        faults=BusFaults(streaming=[UNITS[0]], unplug=unplug),
        clock=loop.time,
    )
    judge = Judge(bus, instruments, outcome)
    for ordinal, instrument in enumerate(instruments, start=1):
        instrument.readings = encoder(ordinal, instrument, 0)
    failed: Counter[str] = Counter()
    async with open_pty(bus) as path:
        client = await _client_of(path)
        devices = [await _opened(client, unit) for unit in UNITS]
        bus.faults = replace(EVERY_FAULT, unplug=unplug, seed=seed)
        began = loop.time()
        until = began + seconds
        try:
            async with asyncio.TaskGroup() as tasks:
                for ordinal, device in enumerate(devices, start=1):
                    tasks.create_task(
                        poll_device(ordinal, device, judge, failed, lambda: loop.time() < until)
                    )
        finally:
            await client.aclose()
    outcome.failed = dict(failed)
    outcome.faults = dict(bus.fault_log.counts)
    outcome.virtual_seconds = round(loop.time() - began, 3)
    return outcome


async def _client_of(path: str) -> AlicatProtocolClient:
    while True:
        try:
            settings = SerialSettings(path, baudrate=BAUDRATE)
            return (await client_for(path, serial=settings, timeout=TIMEOUT))[0]
        except AlicatError:
            await asyncio.sleep(0.05)  # it is unplugged


async def _opened(client: AlicatProtocolClient, unit: str) -> Device:
    config = AlicatConfig(unit_check_s=UNIT_CHECK_S)
    while True:
        try:
            return await open_device(client, unit_id=unit, timeout=TIMEOUT, config=config)
        except AlicatError:
            await asyncio.sleep(0.05)  # it is unplugged, or the machine is slow


async def run(seconds: float, buses: int, seed: int) -> list[Outcome]:
    """Poll so many buses at once; the outcome of each."""
    runs = (run_bus(number, seconds, seed + 1000 * number) for number in range(buses))
    return list(await asyncio.gather(*runs))


def total(outcomes: Sequence[Outcome]) -> Outcome:
    """The sum of several buses' counts."""
    merged = Outcome(outcomes[0].seed)
    for field in fields(Outcome):
        values = [getattr(one, field.name) for one in outcomes]
        if field.name == "wrong":
            merged.wrong = [sentence for sentences in values for sentence in sentences]
        elif isinstance(values[0], dict):
            counts: Counter[str] = Counter()
            for value in values:
                counts.update(value)
            setattr(merged, field.name, dict(counts))
        elif field.name in ("longest_mislabelled_s", "virtual_seconds"):
            setattr(merged, field.name, max(values))
        elif field.name != "seed":
            setattr(merged, field.name, sum(values))
    return merged


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--buses", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--result", type=Path, help="append the counts to this file")
    options = parser.parse_args()
    print(f"seed {options.seed}, {options.buses} buses, {options.seconds:g} s", flush=True)
    outcomes = penstock.run(run(options.seconds, options.buses, options.seed))
    merged = total(outcomes)
    print(json.dumps(asdict(merged), indent=2))
    if options.result is not None:
        seconds = f"{merged.virtual_seconds:.0f}"
        cells = (merged.seed, options.buses, seconds, *counted(merged))
        append_row(options.result, _HEADING, cells)
    return 1 if merged.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
