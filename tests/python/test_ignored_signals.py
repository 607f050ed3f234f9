"""The tests also work under nohup and in the background of a shell without job control."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAM = """
import importlib.util, signal, subprocess, sys

ignored = signal.Signals[sys.argv[1]]
signal.signal(ignored, signal.SIG_IGN)
specification = importlib.util.spec_from_file_location("conftest", sys.argv[2])
specification.loader.exec_module(importlib.util.module_from_spec(specification))
assert signal.getsignal(ignored) is not signal.SIG_IGN
child = subprocess.Popen([sys.executable, "-c", "import sys; print(flush=True); sys.stdin.read()"],
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
child.stdout.readline()
child.send_signal(ignored)
print(child.wait(60))
"""


@pytest.mark.parametrize("name", ["SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM"])
def test_child_process_receives_a_signal_that_the_parent_ignored(name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, name, ROOT / "tests" / "conftest.py"],
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert int(done.stdout) == -signal.Signals[name]
