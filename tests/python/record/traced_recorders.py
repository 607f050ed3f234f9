"""Recorders under strace(1), which kills them at a system call or makes it fail.

For what no replacement of a function of ``os`` reaches: the system calls of SQLite, and a disk that
becomes read-only or vanishes while files on it are open. (The kernel refuses a read-only remount
while a file is open for writing; after an error of the device it does so by itself. What a program
then sees is EROFS or EIO from every call that would change something.)
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

from tests.python.record.killed_recorders import (
    Accepted,
    Files,
    new_folder,
    record_into,
    run_and_check,
)

__all__ = ["CHANGING_CALLS", "has_strace", "kill_at_system_call", "refuse_from_system_call"]

CHANGING_CALLS = (
    *("write", "writev", "pwrite64", "fsync", "fdatasync", "ftruncate", "fallocate"),
    *("rename", "renameat2", "link", "unlink", "mkdir", "rmdir"),
)


def has_strace() -> bool:
    """Whether strace(1) is there and may trace a child of its caller's."""
    if shutil.which("strace") is None:
        return False
    probe = subprocess.run(["strace", "-o", os.devnull, "true"], capture_output=True)
    return probe.returncode == 0


def _traced(expression: str, go: socket.socket) -> Callable[[int], None]:
    """Attaches strace to a process and lets it begin; returns when the process has ended."""

    def end(pid: int) -> None:
        calls = expression.partition(":")[0]
        tracer = subprocess.Popen(
            [
                *("strace", "-f", "-p", str(pid), "-o", os.devnull),
                *("-e", f"trace={calls}", "-e", f"inject={expression}"),
            ],
            stderr=subprocess.PIPE,
            text=True,
        )
        assert tracer.stderr is not None
        first = tracer.stderr.readline()
        assert "attached" in first, first
        go.send(b"1")
        tracer.communicate(timeout=100)

    return end


def _run(name: str, expression: str, root: Path, *, refused: bool) -> int:
    folder = new_folder(root)
    target = Files(folder / name)
    wait, go = socket.socketpair()

    def recorder(accepted: Accepted) -> None:
        wait.recv(1)
        record_into(target, accepted, batches=4, refused=refused, loss_rows=0)

    try:
        return run_and_check(target, recorder, 0, end=_traced(expression, go))
    finally:
        wait.close()
        go.close()
        shutil.rmtree(folder)


def kill_at_system_call(name: str, call: str, number: int, root: Path) -> bool:
    """Kill a recorder when a thread of it begins ``call`` for the ``number``-th time.

    Returns False when it does not call it so often.
    """
    killed = _run(name, f"{call}:signal=KILL:when={number}", root, refused=False)
    return killed != 0


def refuse_from_system_call(name: str, errno: str, number: int, root: Path) -> None:
    """Have all calls that change a file fail from the ``number``-th of each kind on."""
    calls = ",".join(CHANGING_CALLS)
    _run(name, f"{calls}:error={errno}:when={number}+", root, refused=True)
