"""System calls counted by strace: one read per receive."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.python.serial.receiving_program import MARK

PROGRAM = Path(__file__).with_name("receiving_program.py")
RECEIVES = 60


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
@pytest.mark.parametrize("loop", ["penstock", "asyncio", "uvloop", "trio"])
def test_pending_data_costs_one_read(loop: str, tmp_path: Path) -> None:
    if loop != "asyncio":
        pytest.importorskip("penstock._core" if loop == "penstock" else loop)
    log = tmp_path / "log"
    done = subprocess.run(
        ["strace", "-o", str(log), sys.executable, str(PROGRAM), loop, str(RECEIVES)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    if "Operation not permitted" in done.stderr:
        pytest.skip("strace is not permitted to trace here")
    assert done.returncode == 0, done.stderr
    descriptor = int(done.stdout)
    calls: Counter[str] = Counter()
    _, measured, _ = log.read_text().split(MARK.decode())
    for line in measured.splitlines():
        call, _, arguments = line.partition("(")
        if arguments.startswith(f"{descriptor}, "):
            calls[call] += 1
        elif call == "epoll_ctl":
            calls["registration"] += f" {descriptor}," in arguments
    assert calls == {"read": RECEIVES}
