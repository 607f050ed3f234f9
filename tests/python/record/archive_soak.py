"""Recorders, archivers and a NATS server, disturbed at random: is each row in the archive once?

    PYTHONPATH=.:python .venv/bin/python -m tests.python.record.archive_soak --seconds 1800

Three recorders publish through their spools, two archivers write Parquet. Each of the six processes
is killed (SIGKILL) and started again, or stopped (SIGSTOP) for a while, at random times; the server
is also cut off, where network namespaces are permitted. Each row
has the number of rows before it as its value, and each start of a recorder has devices of its own.
A recorder notes how many rows are durable whenever a ``flush`` has returned. At the end the archive
must have, of each device, the rows from 0 on without a gap, each once, at least up to what was
noted, and none that was never written.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet

import penstock
from penstock.record import ColumnBuffer, NatsSink, SampleBatch
from penstock.record.archives import Archiver, archive_files, store_at
from penstock.record.archives.manifest import manifests
from tests.python.integration.nats import NatsServer, nats_server
from tests.python.integration.partition import Network, may_have_networks, network
from tests.python.record.batches import MASS_FLOW

_RECORDERS = 3
_ARCHIVERS = 2
_DEVICES = 2
_ROWS = 20  # of each device, every 50 ms
_LEASE_S = 3
_PART_S = 2
_END_S = 300.0


def batch(name: str, first: int) -> SampleBatch:
    """Rows of the devices ``name.0`` and so on."""
    buffer = ColumnBuffer(MASS_FLOW)
    stamp = time.time_ns()
    for number in range(first, first + _ROWS):
        for device in range(_DEVICES):
            buffer.append_row(
                f"{name}.{device}",
                "A",
                stamp,
                stamp + 1,
                time.monotonic_ns(),
                time.monotonic_ns(),
                {"Mass_Flow": float(number), "Gas": "N2"},
                "",
                None,
            )
    return SampleBatch.from_buffer(buffer)


async def run_recorder(url: str, spool: Path, ledger: Path, name: str, *, drain: bool) -> None:
    """Write rows until SIGTERM, or only send what a killed recorder has left."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    rows = 0
    async with NatsSink(url, spool=spool, timeout=5.0, close_timeout=120.0) as sink:
        with ledger.open("ab", buffering=0) as notes:
            while not stop.is_set() and not drain:
                # Before the rows, so that none can be there which was never noted as written.
                notes.write(json.dumps([name, "written", rows + _ROWS]).encode() + b"\n")
                await sink.write_batch(batch(name, rows))
                rows += _ROWS
                await asyncio.sleep(0.05)
                if rows % (4 * _ROWS) == 0:
                    await sink.flush()
                    notes.write(json.dumps([name, "durable", rows]).encode() + b"\n")
            if rows:
                await sink.flush()
                notes.write(json.dumps([name, "durable", rows]).encode() + b"\n")


class Child:
    """A process of the soak that is started again and again."""

    def __init__(self, command: Callable[[int], list[str]], log: Path) -> None:
        self._command = command
        self._log = log
        self._starts = 0
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._starts += 1
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, _PATHS))}
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", *self._command(self._starts)],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                env=environment,
            )

    def signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def end(self, patience: float) -> int:
        """End it in order; its code."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)
        self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(patience)
        except subprocess.TimeoutExpired:
            self.kill()
            return -int(signal.SIGKILL)

    def wait(self, patience: float) -> int:
        """Wait for its own end; its code."""
        assert self._process is not None
        return self._process.wait(patience)


_PATHS = (Path(penstock.__file__).parents[1], Path(__file__).parents[3])


def disturb(
    chance: random.Random,
    until: float,
    recorders: list[Child],
    archivers: list[Child],
    server: NatsServer,
    cable: Network | None,
) -> Counter[str]:
    """Kill, stop, cut off and start at random until the time comes; how often which."""
    counts: Counter[str] = Counter()
    while time.monotonic() < until:
        time.sleep(chance.uniform(0.5, 3.0))
        what = chance.choice(["recorder", "recorder", "archiver", "archiver", "server"])
        if what == "server" and cable is not None and chance.random() < 1 / 3:
            counts["server cut off"] += 1
            cable.cut()
            time.sleep(chance.uniform(0.5, 9.0))
            cable.mend()
            continue
        kills = chance.random() < 0.5
        counts[f"{what} {'killed' if kills else 'stopped'}"] += 1
        if what == "server":
            if kills:
                server.kill()
                time.sleep(chance.uniform(0.0, 3.0))
                server.start()
            else:
                server.pause()
                time.sleep(chance.uniform(0.5, 6.0))
                server.resume()
            continue
        child = chance.choice(recorders if what == "recorder" else archivers)
        if kills:
            child.kill()
            time.sleep(chance.uniform(0.0, 2.0))
            child.start()
        else:
            child.signal(signal.SIGSTOP)
            time.sleep(chance.uniform(0.5, 3.0 * _LEASE_S))
            child.signal(signal.SIGCONT)
    return counts


def noted(folder: Path) -> dict[str, dict[str, int]]:
    """Of each start of a recorder, the rows written and those durable at least."""
    found: dict[str, dict[str, int]] = {}
    for ledger in folder.glob("ledger-*"):
        for line in ledger.read_bytes().splitlines():
            try:
                name, what, rows = json.loads(line)
            except ValueError:
                continue  # the last line of one that was killed
            found.setdefault(name, {"written": 0, "durable": 0})[what] = rows
    return found


def judge(folder: Path, archive: Path) -> dict[str, Any]:
    """What the archive has, beside what was noted; the faults in words."""
    numbers: dict[str, list[int]] = {}
    for file in archive_files(archive):
        columns = ["device", "Mass_Flow"]
        table = pyarrow.parquet.ParquetFile(file).read(columns=columns)
        pairs = zip(table["device"].to_pylist(), table["Mass_Flow"].to_pylist(), strict=True)
        for device, flow in pairs:
            numbers.setdefault(device, []).append(int(flow))
    faults, lost, rows = [], 0, 0
    for name, counts in noted(folder).items():
        for device in (f"{name}.{each}" for each in range(_DEVICES)):
            found = sorted(numbers.pop(device, []))
            rows += len(found)
            if found != list(range(len(found))):
                doubles = len(found) - len(set(found))
                faults.append(
                    f"{device} has {doubles} doubles, and gaps or none: {len(found)} rows"
                )
            if not counts["durable"] <= len(found) <= counts["written"]:
                faults.append(f"{device} has {len(found)} rows: {counts}")
            lost += counts["written"] - len(found)
    faults += [f"{device} was never recorded" for device in numbers]
    named = manifests(store_at(str(archive)))
    return {
        "rows_in_archive": rows,
        "rows_lost_within_the_loss_window_of_killed_recorders": lost,
        "runs": len(named),
        "files": sum(len(each.files) for each in named),
        "messages_missing": sum(mark.missing for each in named for mark in each.devices.values()),
        "messages_refused": sum(each.refused for each in named),
        "faults": faults,
    }


def soak(seconds: float, seed: int, folder: Path) -> dict[str, Any]:
    """Run it; the result."""
    chance = random.Random(seed)
    archive = folder / "archive"
    log = folder / "log"
    this = "tests.python.record.archive_soak"

    with contextlib.ExitStack() as stack:
        cable = None if may_have_networks() else stack.enter_context(network())
        server = stack.enter_context(nats_server(where=cable))
        url = server.url()

        def recorder(number: int, *options: str) -> Callable[[int], list[str]]:
            files = [str(folder / f"spool-{number}"), str(folder / f"ledger-{number}")]
            return lambda start: [this, "--recorder", url, *files, f"r{number}s{start}", *options]

        def archiver(start: int) -> list[str]:
            limits = ["--part-seconds", str(_PART_S), "--lease", str(_LEASE_S)]
            return ["penstock.cli", "archive", url, str(archive), *limits]

        recorders = [Child(recorder(number), log) for number in range(_RECORDERS)]
        archivers = [Child(archiver, log) for _ in range(_ARCHIVERS)]
        for child in (*recorders, *archivers):
            child.start()
        began = time.monotonic()
        try:
            counts = disturb(chance, began + seconds, recorders, archivers, server, cable)
            codes = [child.end(_END_S) for child in recorders]
            for number in range(_RECORDERS):
                rest = Child(recorder(number, "--drain"), log)
                rest.start()
                codes.append(rest.wait(_END_S))
        finally:
            for child in recorders:
                child.end(5)
            ends = [child.end(_END_S) for child in archivers]
        options = {"url": url, "store": store_at(str(archive))}
        asyncio.run(Archiver(**options).run(once=True))
        result = {
            "seconds": round(time.monotonic() - began),
            "seed": seed,
            "recorders": _RECORDERS,
            "archivers": _ARCHIVERS,
            "disturbances": dict(sorted(counts.items())),
            **judge(folder, archive),
        }
    # One that has just been started has no handler for the signal yet.
    early = -int(signal.SIGTERM)
    recorded, drained = codes[:_RECORDERS], codes[_RECORDERS:]
    if {*recorded} - {0, early} or any(drained) or {*ends} - {143, early}:
        result["faults"].append(
            f"processes ended with {codes} and {ends}: {log.read_text()[-2000:]}"
        )
    left = [str(each.name) for each in folder.glob("spool-*")]
    if left:
        result["faults"].append(f"spools are left: {left}")
    return result


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--recorder", nargs=4, metavar=("URL", "SPOOL", "LEDGER", "NAME"))
    parser.add_argument("--drain", action="store_true")
    options = parser.parse_args()
    if options.recorder is not None:
        url, spool, ledger, name = options.recorder
        penstock.run(run_recorder(url, Path(spool), Path(ledger), name, drain=options.drain))
        return 0
    with tempfile.TemporaryDirectory(prefix="penstock-soak-") as name:
        result = soak(options.seconds, options.seed, Path(name))
    text = json.dumps(result, indent=2) + "\n"
    print(text, end="")
    if options.out is not None:
        options.out.write_text(text)
    return 1 if result["faults"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
