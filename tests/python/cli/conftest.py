"""Fixtures: a finished run as plain data, the command in a subprocess, and its recorded files."""

from __future__ import annotations

import contextlib
import csv
import json
import math
import os
import pty
import re
import subprocess
import sys
import tty
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from penstock.cli._recording.plan import DevicePlan
from penstock.cli._recording.progress import DeviceProgress, Progress
from penstock.record.shown_quantity import choose_quantity
from tests.python.serial.pty_peer import PtyPeer

_FIELDS = {"Abs_Press": "PSIA", "Mass_Flow": "SCCM", "Mass_Flow_Setpt": "SCCM", "Gas": None}


def _finished(names: tuple[str, ...] = ("argon", "oxygen"), samples: int = 40) -> Progress:
    devices = {}
    for number, name in enumerate(names):
        device = DeviceProgress(DevicePlan(name, f"/dev/ttyUSB{number}", "ABCDEFG"[number]))
        device.quantity = choose_quantity(_FIELDS)
        for n in range(samples):
            value = 100 * (1 - math.exp(-n / 10))
            device.answered(at=n / 20, value=value, setpoint=100.0, status="", latency_s=0.004)
        device.samples = samples
        devices[name] = device
    return Progress(devices, rate_hz=20.0, duration=2.0, elapsed=samples / 20)


@pytest.fixture
def finished() -> Callable[..., Progress]:
    return _finished


ROOT = Path(__file__).parents[3]

Command = Callable[..., "subprocess.CompletedProcess[str]"]


class Running:
    """A ``penstock`` command in a subprocess; its output is read line by line."""

    def __init__(self, arguments: Sequence[str], cwd: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "penstock.cli", *arguments],
            cwd=cwd,
            env=ENVIRONMENT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.lines: list[str] = []

    def wait_for(self, pattern: str) -> str:
        """Read standard output up to a line that matches *pattern*."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line)
            if re.search(pattern, line):
                return line
        self.process.wait()
        assert self.process.stderr is not None
        raise AssertionError(
            f"no line like {pattern!r} in {''.join(self.lines)!r}; {self.process.stderr.read()!r}"
        )

    def finish(self) -> tuple[int, str, str]:
        """Wait for the exit; return the exit code, all standard output and standard error."""
        output, errors = self.process.communicate(timeout=60)
        return self.process.returncode, "".join(self.lines) + (output or ""), errors

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()


ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": str(ROOT / "python"),
    "PYTHONUNBUFFERED": "",
    "PYTHONWARNINGS": "error::ResourceWarning",
}
ENVIRONMENT.pop("PENSTOCK_TRACEBACK", None)


@pytest.fixture
def environment() -> dict[str, str]:
    """An environment that imports the package from this source tree."""
    return dict(ENVIRONMENT)


@pytest.fixture
def penstock(tmp_path: Path) -> Command:
    """Run ``penstock`` with the given arguments in *tmp_path* and wait for its exit."""

    def call(*arguments: str | Path, **options: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "penstock.cli", *map(str, arguments)],
            **{"cwd": tmp_path, "env": ENVIRONMENT, **options},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
        )

    return call


@pytest.fixture
def run_code(tmp_path: Path) -> Command:
    """Run Python code in *tmp_path*, which calls the command itself, and wait for its exit."""

    def call(code: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", code],
            cwd=tmp_path,
            env=ENVIRONMENT,
            capture_output=True,
            text=True,
            timeout=120,
        )

    return call


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Running]]:
    """Start ``penstock`` with the given arguments in *tmp_path*; end it after the test."""
    with contextlib.ExitStack() as stack:

        def call(*arguments: str | Path) -> Running:
            running = Running([str(argument) for argument in arguments], tmp_path)
            stack.callback(running.close)
            return running

        yield call


@pytest.fixture
def native_loop() -> None:
    """Skip if the native loop is not built; ``make test`` turns that into an error."""
    if find_spec("penstock._core") is None:
        if os.environ.get("PENSTOCK_REQUIRE_LOOPS") == "1":
            pytest.fail("penstock._core is not available; run 'scripts/setup test' first")
        pytest.skip("penstock._core is not built (run 'make build')")


@pytest.fixture
def simulator() -> Iterator[Callable[..., Any]]:
    """Start simulated buses (``"A:500,B:100"``); yields ``(process, [port, ...])``."""
    with contextlib.ExitStack() as stack:

        def call(*buses: str, baudrate: int = 115200) -> tuple[subprocess.Popen[str], list[str]]:
            command = [sys.executable, "-m", "penstock.sim", "--baud", str(baudrate)]
            for bus in buses:
                command += ["--bus", bus]
            process = stack.enter_context(
                subprocess.Popen(
                    command,
                    env=ENVIRONMENT,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                )
            )
            stack.callback(process.kill)
            assert process.stdout is not None
            ready = json.loads(process.stdout.readline())
            return process, [bus["path"] for bus in ready["buses"]]

        yield call


@pytest.fixture
def silent_port() -> Iterator[str]:
    """A serial port without an answering device."""
    master, slave = pty.openpty()
    tty.setraw(slave)
    yield os.ttyname(slave)
    os.close(slave)
    os.close(master)


class Recorded:
    """The files of a run, read without Penstock."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def parquet(self) -> dict[str, list[Any]]:
        table = pyarrow.parquet.read_table(self.folder / "samples.parquet")
        table = table.filter(table["event"].is_null())
        # Python's datetime holds no nanoseconds, so timestamps are read as numbers.
        return {
            name: column.cast("int64").to_pylist()
            if pyarrow.types.is_timestamp(column.type)
            else column.to_pylist()
            for name, column in zip(table.column_names, table.columns, strict=True)
        }

    def csv(self) -> list[dict[str, str]]:
        return [row for row in self._lines() if not row["event"]]

    def _lines(self) -> list[dict[str, str]]:
        with open(self.folder / "samples.csv", newline="", encoding="utf-8") as file:
            lines = [line for line in file if not line.startswith("#")]
        assert lines[-1].endswith("\n")
        rows = list(csv.DictReader(lines))
        assert all(None not in row and None not in row.values() for row in rows)
        return rows

    def rows_of_each(self) -> dict[str, int]:
        """Return the number of rows of each device; the two formats must agree."""
        counts = dict(Counter(self.parquet()["device"]))
        assert counts == dict(Counter(row["device"] for row in self.csv()))
        return counts

    def slots_of_each(self) -> dict[str, int]:
        """Return the slots that have passed for each device: its rows, and those it has missed."""
        slots = Counter(self.rows_of_each())
        for row in self._lines():
            if row["event"] == "missed_slots":
                slots[row["device"]] += int(row["message"].split()[0])
        return dict(slots)


@pytest.fixture
def recorded() -> Callable[[Path], Recorded]:
    return Recorded


@pytest.fixture
def peer() -> Iterator[PtyPeer]:
    """The far end of a serial port; its reads and writes block."""
    with PtyPeer() as pair:
        os.set_blocking(pair.fd, True)
        yield pair
