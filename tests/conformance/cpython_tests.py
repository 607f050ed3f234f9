"""Runs CPython's test files of asyncio on a loop and collects the outcome of each test.

usage: python tests/conformance/cpython_tests.py MODULE:FACTORY [TEST_FILE ...]

prints a table and every test that did not pass; `asyncio:SelectorEventLoop` is the reference.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

# The files whose tests create and use a loop. Tests of asyncio's own classes with mocks
# (test_base_events, test_futures, test_selector_events, ...) do not test another loop.
FILES = (
    "test_buffered_proto",
    "test_context",
    "test_eager_task_factory",
    "test_events",
    "test_futures2",
    "test_locks",
    "test_pep492",
    "test_queues",
    "test_sendfile",
    "test_server",
    "test_sock_lowlevel",
    "test_ssl",
    "test_sslproto",
    "test_staggered",
    "test_streams",
    "test_subprocess",
    "test_taskgroups",
    "test_tasks",
    "test_threads",
    "test_timeouts",
    "test_unix_events",
    "test_waitfor",
)
SECONDS_A_TEST = 60.0
SECONDS_A_FILE = 400.0
PROCESSES_A_FILE = 12

_PROCESS = Path(__file__).with_name("cpython_process.py")


@dataclass(frozen=True)
class Outcome:
    """The outcome of a test: "passed", "skipped" or "failed", and the reason."""

    result: str
    detail: str

    @property
    def reason(self) -> str:
        return self.detail.strip().rsplit("\n", 1)[-1]


def available(file: str) -> bool:
    """Whether this interpreter includes the test file."""
    try:
        return importlib.util.find_spec(f"test.test_asyncio.{file}") is not None
    except ModuleNotFoundError:
        return False


def run_file(file: str, specification: str) -> dict[str, Outcome]:
    """Run one file. A test that hangs or crashes fails, and the file continues after it."""
    return run_in_processes(file, [sys.executable, str(_PROCESS), specification, file], {})


def run_in_processes(
    file: str, command: list[str], done_before: dict[str, Outcome]
) -> dict[str, Outcome]:
    """Run *command* with REPORT SECONDS DONE, and again after each test that hangs or crashes.

    Returns *done_before*, whose tests are left out, and the outcomes of the others. A file that
    takes longer than SECONDS_A_FILE, or crashes PROCESSES_A_FILE times, is abandoned: its current
    test fails, and the later ones are missing.
    """
    deadline = time.monotonic() + SECONDS_A_FILE
    outcomes = dict(done_before)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        report, done = Path(folder, "report"), Path(folder, "done")
        whole = [*command, str(report), str(SECONDS_A_TEST), str(done)]
        for _ in range(PROCESSES_A_FILE):
            done.write_text("\n".join(outcomes), encoding="utf-8")
            report.write_text("", encoding="utf-8")
            ended, output = _run_bounded(whole, folder, deadline - time.monotonic())
            finished, running = _collect(report, outcomes)
            if finished:
                return outcomes
            if not running:
                outcomes[f"{file} (import)"] = Outcome("failed", output)
                return outcomes
            outcomes[running] = Outcome("failed", f"{output}\n{ended}")
            if time.monotonic() >= deadline:
                return outcomes
    return outcomes


def _run_bounded(command: list[str], folder: str, seconds: float) -> tuple[str, str]:
    """Run a process group to its end, or kill it; return how it ended, and its output."""
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(p for p in sys.path if p))
    environment.pop("PYTHONASYNCIODEBUG", None)
    with Path(folder, "output").open("w+b") as output:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        try:
            ended = f"the process ended with code {process.wait(max(seconds, 0.1))}"
        except subprocess.TimeoutExpired:
            ended = f"the file took longer than {SECONDS_A_FILE:.0f} s"
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        output.seek(0)
        return ended, output.read().decode(errors="replace")[-4000:]


def _collect(report: Path, outcomes: dict[str, Outcome]) -> tuple[bool, str]:
    """Read a report; return whether it is complete, and the test that was running."""
    finished, running = False, ""
    for line in report.read_text(encoding="utf-8").splitlines():
        event, test, detail = json.loads(line)
        if event == "finished":
            finished = True
        elif event == "started":
            running = test
        else:
            before = outcomes.get(test)
            if before is None or before.result != "failed":
                outcomes[test] = Outcome(event, detail)
            running = "" if test == running else running
    return finished, running


def main(specification: str, *files: str) -> None:
    total: Counter[str] = Counter()
    for file in files or FILES:
        if not available(file):
            continue
        began = time.monotonic()
        outcomes = run_file(file, specification)
        count = Counter(outcome.result for outcome in outcomes.values())
        total += count
        seconds = time.monotonic() - began
        print(f"{file:26} {dict(count)} {seconds:.1f} s", flush=True)
        for test, outcome in outcomes.items():
            if outcome.result == "failed":
                print(f"    {test}: {outcome.reason}", flush=True)
    print("total", dict(total))


if __name__ == "__main__":
    main(*sys.argv[1:])
