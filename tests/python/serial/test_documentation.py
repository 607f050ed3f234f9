"""Every example of docs/serial.md and docs/serial-reach.md runs against an echoing device."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.python.serial.pty_peer import PtyPeer

DOCS = Path(__file__).parents[3] / "docs"
EXAMPLES = {
    f"{page}-{number}": source
    for page in ("serial", "serial-reach")
    for number, source in enumerate(
        re.findall(
            r"^```python\n(.*?)^```", (DOCS / f"{page}.md").read_text(encoding="utf-8"), re.M | re.S
        )
    )
}


def test_pages_have_examples() -> None:
    assert sum(name.startswith("serial-reach-") for name in EXAMPLES) >= 5
    assert len(EXAMPLES) >= 12


@pytest.mark.parametrize("name", EXAMPLES)
def test_example_runs(peer: PtyPeer, name: str) -> None:
    os.set_blocking(peer.fd, True)

    def echo() -> None:
        os.write(peer.fd, os.read(peer.fd, 100))

    source = EXAMPLES[name].replace("/dev/ttyUSB0", peer.path)
    asks = peer.path in source and ('send(b"A' in source or 'write(b"A' in source)
    if asks:
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
    if asks:
        assert "A" in done.stdout
