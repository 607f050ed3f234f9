"""Runs cases on a loop in child processes and collects their outcomes.

One process runs many cases, each on a fresh loop. A case that ends its process (a crash) or stops
it (a hang) is written down, and a new process goes on behind it.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
CHILD = "tests.conformance.reports.child"
# How long a process may be silent beyond a case's own limit, which it keeps itself if it can.
GRACE = 10.0


@dataclass(frozen=True)
class Outcome:
    """``right``, ``wrong``, ``crash``, ``hang`` or ``not applicable``, and what there is to say."""

    result: str
    detail: str = ""


def run_cases(
    names: Iterable[str], factory: str, seconds: float = 10.0, python: str = sys.executable
) -> dict[str, Outcome]:
    """Return the outcome of each named case on the loop that ``MODULE:FACTORY`` makes."""
    left = list(names)
    outcomes: dict[str, Outcome] = {}
    while left:
        outcomes.update(_one_process(left, factory, seconds, python))
        left = [name for name in left if name not in outcomes]
    return outcomes


def _one_process(names: list[str], factory: str, seconds: float, python: str) -> dict[str, Outcome]:
    outcomes: dict[str, Outcome] = {}
    running: str | None = None
    environment = dict(os.environ, PYTHONPATH=f"{ROOT / 'python'}{os.pathsep}{ROOT}")
    environment.pop("PYTHONASYNCIODEBUG", None)
    with tempfile.TemporaryFile("w+") as names_file, tempfile.TemporaryFile("w+") as errors:
        names_file.write("\n".join(names))
        names_file.seek(0)
        process = subprocess.Popen(
            [python, "-m", CHILD, factory, str(seconds)],
            stdin=names_file,
            stdout=subprocess.PIPE,
            stderr=errors,
            cwd=ROOT,
            env=environment,
            start_new_session=True,
        )
        try:
            for line in _lines(process, seconds + GRACE):
                if line is None:
                    detail = f"silent for {seconds + GRACE:g} s"
                    outcomes[running or names[0]] = Outcome("hang", detail)
                    running = None
                    break
                told = json.loads(line)
                if "start" in told:
                    running = told["start"]
                else:
                    outcomes[told["end"]] = Outcome(told["outcome"], told["detail"])
                    running = None
        finally:
            _end(process)
        errors.seek(0)
        last = (errors.read().strip().splitlines() or [""])[-1]
        if running is not None:
            outcomes[running] = Outcome("crash", _death(process.returncode, last))
        elif not outcomes:
            raise RuntimeError(f"{python} ran no case on {factory}: {last}")
    return outcomes


def _lines(process: subprocess.Popen[bytes], silence: float) -> Iterator[bytes | None]:
    """Yield the lines of the process; None if it stays silent longer than `silence` seconds."""
    assert process.stdout is not None
    pending = b""
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        deadline = time.monotonic() + silence
        while True:
            if not selector.select(max(0.0, deadline - time.monotonic())):
                yield None
                return
            data = os.read(process.stdout.fileno(), 65536)
            if not data:
                return
            deadline = time.monotonic() + silence
            *lines, pending = (pending + data).split(b"\n")
            yield from lines


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the process, and what its cases started and left."""
    assert process.stdout is not None
    process.stdout.close()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(1)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _death(status: int | None, last: str) -> str:
    if status is not None and status < 0:
        return f"the process died of {signal.Signals(-status).name}"
    return f"the process ended with status {status}: {last}"[:200]
