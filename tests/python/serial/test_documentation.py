"""Every example of docs/serial.md runs, against an echoing device."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.python.serial.pty_peer import PtyPeer

PAGE = Path(__file__).parents[3] / "docs" / "serial.md"
EXAMPLES = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.M | re.S)


def test_the_page_has_examples() -> None:
    assert len(EXAMPLES) >= 5


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_an_example_runs(peer: PtyPeer, number: int) -> None:
    os.set_blocking(peer.fd, True)

    def echo() -> None:
        os.write(peer.fd, os.read(peer.fd, 100))

    source = EXAMPLES[number].replace("/dev/ttyUSB0", peer.path)
    if ".send(" in source:
        threading.Thread(target=echo, daemon=True).start()
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", source],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    if ".send(" in source:
        assert "A" in done.stdout
