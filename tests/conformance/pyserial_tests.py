"""Runs pyserial's own tests on a library named ``serial``, over each kind of port.

usage: python -m tests.conformance.pyserial_tests [KIND ...]

runs them on ``penstock.serial.compat`` and on pyserial itself, and prints the table of
``expected/pyserial.txt``; reasons in that file are kept.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.conformance.cpython_tests import Outcome, run_in_processes

ROOT = Path(__file__).resolve().parents[2]
EXPECTATIONS = Path(__file__).parent / "expected" / "pyserial.txt"

# Test files that use a port, and files that need none and so run once.
_OF_A_PORT = (
    *("test", "test_advanced", "test_cancel", "test_context", "test_exclusive"),
    *("test_high_load", "test_iolib", "test_readline", "test_rs485", "test_settings_dict"),
    *("test_threaded",),
)
_OF_NO_PORT = ("test_pty", "test_rfc2217", "test_timeout_class", "test_url", "test_util")
KINDS = {
    "loop": (*_OF_A_PORT, *_OF_NO_PORT),
    "pty": _OF_A_PORT,
    "socket": _OF_A_PORT,
    "rfc2217": _OF_A_PORT,
    "rfc2217-of-pyserial": _OF_A_PORT,
}
# Many of these tests assert durations, or that data has arrived after a sleep, and fail
# occasionally on a busy machine. A real error fails each time.
_ATTEMPTS = 3
_AT_ONCE = 8  # they sleep more than they compute


@dataclass(frozen=True)
class Row:
    """The expectation for one test."""

    result: str
    pyserials: str
    reason: str


def source_distribution() -> Path | None:
    """The folder of pyserial's unpacked source distribution; None if set-up could not fetch it."""
    for line in Path(ROOT, "constraints.txt").read_text(encoding="utf-8").splitlines():
        name, _, version = line.partition("==")
        folder = ROOT / "build" / "conformance" / f"pyserial-{version}"
        if name == "pyserial" and (folder / "test").is_dir():
            return folder
    return None


@contextlib.contextmanager
def _peer(kind: str, folder: Path) -> Iterator[str]:
    if kind == "loop":
        yield "loop://"
        return
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.conformance.pyserial_peer", kind, str(folder)],
        env=dict(os.environ, PYTHONPATH=os.pathsep.join(p for p in sys.path if p)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    with process.stdin, process.stdout:
        try:
            yield process.stdout.readline().decode().strip()
        finally:
            process.kill()
            process.wait()


def _run_file(
    library: str, kind: str, file: str, folder: Path, hopeless: Collection[tuple[str, str]]
) -> dict[str, Outcome]:
    outcomes: dict[str, Outcome] = {}
    for _ in range(_ATTEMPTS):
        settled = {test: o for test, o in outcomes.items() if o.result != "failed"}
        with _peer(kind, folder) as port:
            command = [sys.executable, "-m", "tests.conformance.pyserial_process"]
            outcomes = run_in_processes(file, [*command, library, port, str(folder), file], settled)
        failed = [test for test, outcome in outcomes.items() if outcome.result == "failed"]
        if all((kind, test) in hopeless for test in failed):
            break
    return outcomes


def run_kinds(
    library: str, kinds: Iterable[str], folder: Path, hopeless: Collection[tuple[str, str]] = ()
) -> dict[str, dict[str, Outcome]]:
    """Run the files for each kind of port on *library* (``penstock`` or ``pyserial``).

    A test that fails is repeated, unless it and its kind of port are in *hopeless*.
    """
    outcomes: dict[str, dict[str, Outcome]] = {}
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        runs = [
            (kind, threads.submit(_run_file, library, kind, file, folder, hopeless))
            for kind in kinds
            for file in KINDS[kind]
        ]
        for kind, run in runs:
            outcomes.setdefault(kind, {}).update(run.result())
    return outcomes


def expected(kind: str) -> dict[str, Row]:
    """The rows of ``expected/pyserial.txt`` for one kind of port."""
    rows = {}
    for line in EXPECTATIONS.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            of_kind, test, result, pyserials, *reason = line.split(None, 4)
            if of_kind == kind:
                rows[test] = Row(result, pyserials, reason[0] if reason else "")
    return rows


def main(*kinds: str) -> None:
    folder = source_distribution()
    if folder is None:
        sys.exit("pyserial's source distribution is missing; run: scripts/setup test")
    chosen = kinds or tuple(KINDS)
    all_ours = run_kinds("penstock", chosen, folder)
    all_theirs = run_kinds("pyserial", chosen, folder)
    for kind in chosen:
        ours, theirs, before = all_ours[kind], all_theirs[kind], expected(kind)
        for test in sorted(ours.keys() | theirs.keys()):
            mine = ours.get(test, Outcome("missing", ""))
            other = theirs.get(test, Outcome("missing", ""))
            reason = before[test].reason if test in before else ""
            if mine.result == "failed" and not reason:
                reason = f"? {mine.reason}"
            if mine.result != "passed" and mine.result != "failed" and not reason:
                reason = mine.detail
            print(f"{kind:19}  {test:62}  {mine.result:7}  {other.result:7}  {reason}".rstrip())


if __name__ == "__main__":
    main(*sys.argv[1:])
