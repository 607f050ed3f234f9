"""A short soak test on every loop: random cancellation and reconfiguration lose no byte."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.serial_ports.libraries import LOOPS_OF
from benchmarks.serial_ports.soak import FarEnd, NearEnd, frame, pattern
from tests.python.serial.pty_peer import PtyPeer

pytestmark = pytest.mark.slow

PROGRAM = Path(__file__).resolve().parents[3] / "benchmarks" / "serial_ports" / "soak.py"


@pytest.mark.parametrize("loop", LOOPS_OF["penstock"])
def test_no_byte_is_lost_duplicated_or_reordered(loop: str) -> None:
    if loop != "asyncio":
        pytest.importorskip("penstock._core" if loop == "penstock" else loop)
    done = subprocess.run(
        [
            *(sys.executable, str(PROGRAM), "--loop", loop, "--ports", "4"),
            *("--seconds", "1", "--least", "20000"),
        ],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["received_bytes"] >= 20_000
    assert result["cancelled_receives"] > 0
    assert result["cancelled_sends"] > 0
    assert result["reconfigurations"] > 0


@pytest.mark.parametrize("wrong", ["lost", "doubled", "swapped"])
def test_wrong_byte_is_detected_at_either_end(wrong: str) -> None:
    stream = pattern(0)
    good = stream[:50]
    bad = {
        "lost": good[:20] + good[21:],
        "doubled": good[:20] + good[19:],
        "swapped": good[:20] + good[21:22] + good[20:21] + good[22:],
    }[wrong]
    with pytest.raises(AssertionError, match="the stream breaks after 10 bytes"):
        near = NearEnd(0, None)
        near.check(bad[:10])
        near.check(bad[10:])
    content = frame(stream, 3)
    content = content[:20] + content[20 + 1 :] if wrong == "lost" else content[:20] + content[19:]
    with PtyPeer() as peer:
        far = FarEnd(peer._follower, stream, frames=3)
        peer.settings()
        os.set_blocking(peer._follower, False)
        peer.raw()
        peer.write(content + b"\0")
        with pytest.raises(AssertionError, match="frame 3 is damaged"):
            far.receive()
