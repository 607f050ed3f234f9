"""Rounds of file work: a contender's program, or the C++ floor, in a folder on a real disk."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.file_io import CACHED_SIZE, DIRECT_SIZE, PHASES, RECORD_SIZE, RECORDS, SMALL_BLOCK
from benchmarks.file_peers import PEERS
from benchmarks.measure import self_timed
from benchmarks.measure.comparison import Metric
from benchmarks.measure.contenders import FLOOR
from benchmarks.measure.native import BENCHMARKS
from benchmarks.measure.options import add_choices
from benchmarks.measure.processes import Failed, Unavailable, run
from benchmarks.measure.sanity import check_clocks
from benchmarks.measure.syscalls import calls_between, traced

GRACE = 90.0  # seconds beyond the timed region: files are created, checked and removed
LEAST_SECONDS = 20e-9  # of an operation; a no-op of the ring alone takes more

# Calls that move data, name files or wait for either; the interpreter makes the others.
FILE_CALLS = frozenset(
    {
        *("read", "pread64", "readv", "preadv", "preadv2", "write", "pwrite64", "writev"),
        *("pwritev", "pwritev2", "open", "openat", "openat2", "close", "fstat", "newfstatat"),
        *("statx", "lseek", "fsync", "fdatasync", "ioctl", "fcntl", "io_uring_enter", "futex"),
        *("io_submit", "io_getevents", "epoll_wait", "epoll_pwait", "epoll_ctl", "poll"),
    }
)


class Sample(self_timed.Sample):
    """One round of one contender; its CPU time is that of all its threads."""

    @property
    def wall(self) -> float:
        """Seconds for an operation."""
        return self.seconds / self.operations

    def __str__(self) -> str:
        return f"{self.wall * 1e6:.2f} µs, {self.cpu * 1e6:.2f} µs CPU each"


@dataclass(frozen=True)
class Phases:
    """One round of one contender: files written, and then read back."""

    write: Sample
    read: Sample

    def __str__(self) -> str:
        return f"written: {self.write}; read: {self.read}"


def time_metrics(thing: str, explained: str, digits: int) -> list[Metric[Sample]]:
    """Wall time and CPU time for one such thing, in microseconds."""
    return [
        Metric(
            f"{key}_us_per_{thing}",
            f"{title}, µs {explained} (less is better):",
            value,
            digits=digits,
            more_is_better=False,
        )
        for key, title, value in (
            ("wall", "Wall time", lambda sample: sample.wall * 1e6),
            ("cpu", "CPU of all threads", lambda sample: sample.cpu * 1e6),
        )
    ]


def add_stand_options(parser: argparse.ArgumentParser) -> None:
    """The options that select the contenders and the folder."""
    add_choices(parser, "--peers", "peer", PEERS)
    parser.add_argument("--folder", type=Path, help="on the disk to measure (build/)")


FLOORS = (FLOOR, "floor-os")

_FLOOR_MODES = {
    "cached-reads": ["read"],
    "direct-reads": ["direct-read"],
    "small-files": ["read-files"],
    "write": ["write-blocks"],
    "read": ["read-blocks"],
    "write-read": ["write-blocks", "read-blocks"],
    "log": ["append"],
}


def floor_modes(name: str, workload: str, arguments: Sequence[str]) -> list[list[str]]:
    """The options of the C++ program for a workload of ``benchmarks/file_io.py``.

    Raises:
        Unavailable: for work that the program does not offer.
    """
    given = dict(zip(arguments[::2], arguments[1::2], strict=False))
    if "--direct" in arguments or "--clear-cache" in arguments:
        raise Unavailable("it writes and reads through the page cache only")
    if workload not in _FLOOR_MODES:
        raise Unavailable("it does no such work")
    options = {"--depth": given.get("--depth", "32")}
    if workload in ("cached-reads", "direct-reads"):
        size = CACHED_SIZE if workload == "cached-reads" else DIRECT_SIZE
        options |= {"--file-size": given.get("--size", str(size)), "--block": str(SMALL_BLOCK)}
    elif workload == "small-files":
        options |= {"--files": given.get("--files", "10000"), "--file-size": str(SMALL_BLOCK)}
    elif workload == "log":
        options = {"--count": str(RECORDS), "--block": str(RECORD_SIZE), "--depth": str(RECORDS)}
    else:
        size = int(given.get("--size", 2 << 20))
        block = int(given.get("--block", 0)) or size
        options |= {"--files": given.get("--files", "8"), "--file-size": str(size)}
        options |= {"--block": str(block)}
    flat = [part for pair in options.items() for part in pair]
    return [["--mode", _floor_mode(name, mode), *flat] for mode in _FLOOR_MODES[workload]]


def _floor_mode(name: str, mode: str) -> str:
    ring = name == FLOOR
    if mode == "append":
        return "group-append" if ring else "append"
    if mode.endswith("read"):
        return mode.removesuffix("read") + ("uring-read" if ring else "pread")
    return f"uring-{mode}" if ring else mode


def both(samples: Sequence[Sample]) -> Sample:
    """Consecutive phases as one sample, whose times per operation are the sums of theirs."""
    operations = samples[0].operations
    return Sample(
        operations,
        sum(sample.wall for sample in samples) * operations,
        sum(sample.cpu for sample in samples) * operations,
    )


class FileStand:
    """Starts contenders in a folder of the disk that is measured.

    They run on all cores of this process, because workers are part of the comparison.
    """

    def __init__(self, folder: Path, native: Path, options: argparse.Namespace) -> None:
        self.folder = folder
        self.native = native
        self.options = options

    def measure(self, name: str, workload: str, *arguments: str) -> Sample:
        """One round.

        Raises:
            Unavailable: if the contender cannot do what is asked.
            Failed: if it breaks.
            Impossible: if the figures cannot be true.
        """
        if name in FLOORS:
            modes = floor_modes(name, workload, arguments)
            return both([self._timed(name, [*self._floor(), *mode]) for mode in modes])
        return self._timed(name, self._command(name, workload, arguments))

    def measure_phases(self, name: str, *arguments: str) -> Phases:
        """One round of the larger files, with a clock for the writing and one for the reading.

        Raises:
            Unavailable, Failed, Impossible: as :meth:`measure` does.
        """
        if name in FLOORS:
            return Phases(*(self.measure(name, phase, *arguments) for phase in ("write", "read")))
        command = self._command(name, PHASES, arguments)
        figures, outside = self._outcome(name, command)
        return Phases(
            *(self._checked(name, command, figures[phase], outside) for phase in ("write", "read"))
        )

    def _timed(self, name: str, command: list[str]) -> Sample:
        figures, outside = self._outcome(name, command)
        return self._checked(name, command, figures, outside)

    def _outcome(self, name: str, command: list[str]) -> tuple[dict[str, Any], float]:
        timing = ["--seconds", str(self.options.seconds), "--warmup", str(self.options.warmup)]
        before = time.monotonic()
        figures = self._run(name, [*command, *timing])
        return figures, time.monotonic() - before

    def _checked(
        self, name: str, command: list[str], figures: dict[str, Any], outside: float
    ) -> Sample:
        sample = Sample(figures["operations"], figures["seconds"], figures["cpu_seconds"])
        if name in FLOORS and "-blocks" in command[command.index("--mode") + 1]:
            # The floor counts blocks; all others count files.
            size = int(command[command.index("--file-size") + 1])
            sample = Sample(figures["bytes"] // size, sample.seconds, sample.cpu_seconds)
        check_clocks(
            operations=sample.operations,
            seconds=sample.seconds,
            asked_seconds=self.options.seconds,
            outside_seconds=outside,
            # check_clocks() expects one core.
            cpu=sample.cpu_seconds / len(os.sched_getaffinity(0)),
            least_seconds=LEAST_SECONDS,
        )
        return sample

    def lateness(self, name: str, *arguments: str) -> dict[str, Any]:
        """The figures of the workload ``ticker``."""
        return self._run(name, self._command(name, "ticker", arguments))

    def phase_syscalls(self, name: str, *arguments: str) -> dict[str, Counter[str]]:
        """The system calls of writing the larger files once and of reading them, by strace.

        Those of all threads.

        Raises:
            Unavailable: also for the floor, which has no single repetition.
            Failed, StraceMissing: see there.
        """
        if name in FLOORS:
            raise Unavailable("it makes no single repetition")
        command = self._command(name, PHASES, arguments)
        command += ["--seconds", "0", "--warmup", "0", "--once"]
        counts = {}
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "log")
            figures = self._run(name, traced(command, path))
            log = path.read_text(errors="replace")
        for phase, span in figures.items():
            calls = calls_between(log, span["begin"], span["end"])
            counts[phase] = Counter(
                {call: count for call, count in calls.items() if call in FILE_CALLS}
            )
        return counts

    def _floor(self) -> list[str]:
        return [str(self.native / "file_floor"), "--folder", str(self.folder)]

    def _command(self, name: str, workload: str, arguments: Sequence[str]) -> list[str]:
        common = ["--workload", workload, "--folder", str(self.folder), *arguments]
        return [sys.executable, str(BENCHMARKS / "file_io.py"), "--peer", name, *common]

    def _run(self, name: str, command: list[str]) -> dict[str, Any]:
        engine = "threads" if name == "penstock-threads" else "auto"
        try:
            output = run(
                command,
                None,
                timeout=self.options.seconds + GRACE,
                environment={"PENSTOCK_FILES": engine},
            )
        except FileNotFoundError as error:
            raise Unavailable(f"the program is not built: {error.filename}") from error
        except Failed as error:
            # A traceback's last line is its reason.
            raise Failed(str(error).splitlines()[-1]) from error
        figures: dict[str, Any] = json.loads(output)
        return figures


@contextmanager
def working_folder(parent: Path | None, *, keep: bool = False) -> Iterator[Path]:
    """A folder for the files: in ``parent``, or in the project's build folder, on a real disk."""
    parent = parent if parent is not None else BENCHMARKS.parent / "build"
    parent.mkdir(parents=True, exist_ok=True)
    folder = tempfile.mkdtemp(prefix="bench-files-", dir=parent)
    try:
        yield Path(folder)
    finally:
        if not keep:
            import shutil

            shutil.rmtree(folder, ignore_errors=True)
