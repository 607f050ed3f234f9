"""System calls of a process, by strace.

strace slows its process by an order of magnitude, so this is always a separate pass: its counts are
exact, but times measured meanwhile are not.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.measure.tables import markdown_table

ATTACH_TIMEOUT = 10.0


class StraceMissing(Exception):
    """strace is not installed or may not trace here."""


@contextmanager
def counted(pid: int) -> Iterator[Counter[str]]:
    """Count the system calls of a running process, all its threads, while the block runs.

    The counter is filled at the end of the block. The tracer interrupts the call in which the
    process sleeps, which adds a few calls; where that matters, use the difference of two counts.

    Raises:
        StraceMissing: if strace is not there or could not attach.
    """
    _require_strace()
    calls: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder, "table")
        process = subprocess.Popen(
            ["strace", "-f", "-c", "-U", "name,calls", "-o", str(table), "-p", str(pid)],
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stderr is not None
        with process.stderr:
            attached = process.stderr.readline()
            if "attached" not in attached:
                process.wait(ATTACH_TIMEOUT)
                raise StraceMissing(f"strace could not trace here: {attached.strip()}")
            try:
                yield calls
            finally:
                process.send_signal(signal.SIGINT)
                process.wait(ATTACH_TIMEOUT)
        calls.update(_parse_table(table.read_text()))


def traced(argv: list[str], log: Path) -> list[str]:
    """The command that runs ``argv`` under strace from its first call, with a time for each call.

    Raises:
        StraceMissing: if strace is not there.
    """
    _require_strace()
    return ["strace", "-f", "-ttt", "-o", str(log), *argv]


def calls_between(log: str, begin: float, end: float) -> Counter[str]:
    """Count the calls of a :func:`traced` log that began in a span of wall-clock time."""
    calls: Counter[str] = Counter()
    for line in log.splitlines():
        # A call is "<pid> <seconds> name(arguments…"; not "--- SIG…", "+++ exited", "<... resumed".
        fields = line.split(maxsplit=2)
        is_call = len(fields) == 3 and "(" in fields[2] and fields[2][0].isalpha()
        if is_call and begin <= float(fields[1]) < end:
            calls[fields[2].split("(", 1)[0]] += 1
    return calls


def _require_strace() -> None:
    if shutil.which("strace") is None:
        raise StraceMissing("strace is not installed (Debian: apt-get install strace)")


def _parse_table(text: str) -> Counter[str]:
    calls: Counter[str] = Counter()
    for line in text.splitlines():
        fields = line.split()
        if len(fields) == 2 and fields[1].isdigit() and fields[0] != "total":
            calls[fields[0]] += int(fields[1])
    return calls


def calls_table(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    counts: Sequence[Mapping[str, float]],
    contenders: Sequence[str],
) -> str:
    """A table of calls for each operation.

    Args:
        header: the columns that name a row.
        rows: the labels of each.
        counts: of each row, by contender.
        contenders: the columns.
    """
    lines = [
        [*labels, *(f"{calls[name]:.2f}" if name in calls else "n/a" for name in contenders)]
        for labels, calls in zip(rows, counts, strict=True)
    ]
    return markdown_table([*header, *contenders], lines, labels=len(header))
