"""Recorders that end in their middle, and what has to be true of what they leave.

Every recorder and every check is a forked process of its own, so that nothing has to be imported
again. A recorder tells through shared memory how many rows its calls have accepted, so that no
system call but its files' own is made. What is checked afterwards: the recording is readable after
``recover``; it has the rows from the first on, without a gap or a duplicate; it lacks no more rows
than the loss window allows; its seals prove as many, and find nothing changed; and recording goes
on with ``append=True``, again without a gap or a duplicate, and is then found complete by
``verify --deep``.
"""

from __future__ import annotations

import contextlib
import io
import mmap
import os
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pyarrow.compute
import pyarrow.csv
import pyarrow.parquet  # imported once, for all that is forked  # noqa: F401

import penstock.record
from penstock.cli import main
from penstock.record import Sink, SinkWriteError, check_seals, recover
from penstock.record.sink_choice import sink_for
from tests.python.record.batches import flow_batch

__all__ = ["ROWS", "Accepted", "Crash", "Files", "Target", "fork", "record_into", "run_and_check"]

ROWS = 10
_TEXT = 8192


class Crash(AssertionError):
    """A check that failed."""


class Target:
    """Where a recorder writes, and how it is read afterwards."""

    def sink(self, **options: Any) -> Sink:
        """A sink into it."""
        raise NotImplementedError

    def mend(self) -> None:
        """Do what has to be done before it is read."""

    def flows(self) -> list[float]:
        """The recorded values, in order."""
        raise NotImplementedError

    def proven(self) -> int | None:
        """How many rows are sealed; None where rows are not. Crash if a seal says otherwise."""
        return None

    def check_complete(self) -> None:
        """Crash unless all is found complete."""


@dataclass(frozen=True)
class Files(Target):
    """A recording in files."""

    path: Path

    def sink(self, **options: Any) -> Sink:
        return sink_for(self.path, **options)

    def mend(self) -> None:
        if self._is_there():
            recover(self.path)

    def _is_there(self) -> bool:
        """Whether there is the file, or the folder of parts that it will be made of."""
        return self.path.exists() or self.path.with_name(self.path.name + ".parts").exists()

    def flows(self) -> list[float]:
        path = self.path
        if not self._is_there() or (path.is_file() and not path.stat().st_size):
            return []
        try:
            return penstock.record.open(path).to_arrow()["Mass_Flow"].to_pylist()  # type: ignore[no-any-return]
        except penstock.record.RecordError as error:
            if "holds no rows" in str(error) or "has no .penstock" in str(error):
                return []
            raise

    def proven(self) -> int | None:
        found = check_seals(self.path)
        problems = [problem for each in found for problem in each.problems]
        if problems:
            raise Crash(f"{self}: {problems}")
        complete = [each.rows for each in found if each.unchanged]
        # Parts that are left beside the file that was made of them have the same rows.
        if complete and set(complete) != {len(self.flows())}:
            raise Crash(f"{self}: {complete} rows are called complete, of {len(self.flows())}")
        return complete[0] if complete else sum(each.rows for each in found)

    def check_complete(self) -> None:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            code = main(["verify", "--deep", str(self.path)])
        if code:
            raise Crash(f"{self}: verify --deep ended with {code}: {printed.getvalue()}")
        found = check_seals(self.path)
        if any(each.problems for each in found) or found[-1].ended[-1:] != ["closed"]:
            raise Crash(f"{self}: {found}")


class Accepted:
    """The number of rows that a recorder's calls have accepted, known to both processes.

    And why it failed, if it did: its own standard error may be refused by the same disk.
    """

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, 8 + _TEXT)

    @property
    def rows(self) -> int:
        """The number."""
        return int.from_bytes(self._memory[:8], sys.byteorder)

    @rows.setter
    def rows(self, rows: int) -> None:
        self._memory[:8] = rows.to_bytes(8, sys.byteorder)

    @property
    def failure(self) -> str:
        """The end of a traceback; empty if there was none."""
        return self._memory[8:].rstrip(b"\0").decode(errors="replace")

    @failure.setter
    def failure(self, text: str) -> None:
        self._memory[8:] = text.encode()[-_TEXT:].ljust(_TEXT, b"\0")


def fork(work: Callable[[], None], accepted: Accepted) -> int:
    """Do ``work`` in a child process; returns its id."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        work()
        code = 0
    except BaseException:
        accepted.failure = traceback.format_exc()
    finally:
        os._exit(code)


def record_into(
    target: Target,
    accepted: Accepted,
    *,
    batches: int | None,
    refused: bool = False,
    opened: Callable[[], None] = lambda: None,
    **options: Any,
) -> None:
    """Write ``batches`` batches, or without an end, and count the rows after each call.

    ``opened`` is called before the first of them. With ``refused`` the recording may also end
    because its files cannot be written.
    """

    async def main() -> None:
        sink = target.sink(**options)
        try:
            await sink.open()
            opened()
            number = 0
            while batches is None or number < batches:
                await sink.write_batch(flow_batch(ROWS, first=number * ROWS))
                number += 1
                accepted.rows = number * ROWS
        except SinkWriteError:
            if not refused:
                raise
        try:
            await sink.close()
        except SinkWriteError:
            if not refused:
                raise

    anyio.run(main)


def _check(target: Target, accepted: int, window: int) -> None:
    proven = target.proven()
    if proven is not None and proven < accepted - window:
        raise Crash(f"{target}: {proven} of {accepted} rows are proven, {window} need not be")
    target.mend()
    flows = target.flows()
    if flows != [float(n) for n in range(len(flows))]:
        raise Crash(f"{target}: {len(flows)} rows with a gap or a duplicate")
    if len(flows) < accepted - window:
        raise Crash(f"{target}: {len(flows)} of {accepted} rows, {window} may be lost")

    async def resume() -> None:
        sink = target.sink(append=True)
        await sink.open()
        await sink.write_batch(flow_batch(ROWS, first=len(flows)))
        await sink.close()

    anyio.run(resume)
    again = target.flows()
    if again != [float(n) for n in range(len(flows) + ROWS)]:
        raise Crash(f"{target}: {len(again)} rows after {len(flows)} were continued by {ROWS}")
    target.check_complete()


def run_and_check(
    target: Target,
    recorder: Callable[[Accepted], None],
    window: int,
    *,
    end: Callable[[int], None] = lambda pid: None,
) -> int:
    """Run a recorder and check what it leaves.

    ``end`` is called with the id of its process and sees to its end. Returns the signal that has
    killed it, or 0 if it came to its end by itself.
    """
    accepted = Accepted()
    pid = fork(lambda: recorder(accepted), accepted)
    end(pid)
    _, status = os.waitpid(pid, 0)
    if os.WIFEXITED(status) and os.WEXITSTATUS(status):
        raise Crash(f"{target}: the recorder failed by itself: {accepted.failure}")
    checker = fork(lambda: _check(target, accepted.rows, window), accepted)
    _, result = os.waitpid(checker, 0)
    killed_by = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    if result:
        raise Crash(f"{target}: {accepted.rows} rows accepted, {killed_by=}: {accepted.failure}")
    return killed_by


def killed_after(seconds: float) -> Callable[[int], None]:
    """Kills a process after so long."""

    def end(pid: int) -> None:
        time.sleep(seconds)
        os.kill(pid, signal.SIGKILL)

    return end


def new_folder(root: Path) -> Path:
    """A folder for one recorder."""
    return Path(tempfile.mkdtemp(dir=root))
