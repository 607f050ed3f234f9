"""The program of docs/dash.md serves its page and records, with a simulated instrument."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from websockets.sync.client import ClientConnection, connect

import penstock.record
from tests.python.conftest import CORE_MISSING
from tests.python.documentation.page_steps import DOCS, ROOT, blocks, free_port, simulated

(PROGRAM,) = [block.text for block in blocks(DOCS / "dash.md") if block.language == "python"]

pytestmark = pytest.mark.skipif(
    CORE_MISSING, reason="penstock._core is not built (run 'make build')"
)


def test_the_program_serves_its_page_while_it_records(tmp_path: Path) -> None:
    number = free_port()
    with simulated("--bus", "A:500") as (bus,):
        # With time for the simulator, which is a process of its own.
        port = f'"{bus["path"]}", timeout=10'
        source = PROGRAM.replace('"/dev/ttyUSB0"', port).replace("8736", str(number))
        with subprocess.Popen(
            [sys.executable, "-c", source],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(ROOT / "python")},
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            try:
                while True:
                    try:
                        page = connect(f"ws://127.0.0.1:{number}/live", proxy=None)
                        break
                    except ConnectionRefusedError:  # it does not listen yet
                        assert process.poll() is None, process.communicate()[1]
                        time.sleep(0.05)
                with page:
                    wait_for_samples(page)
                process.send_signal(signal.SIGINT)
                _, errors = process.communicate(timeout=60)
            finally:
                process.kill()
    assert errors.endswith("KeyboardInterrupt\n"), errors
    assert penstock.record.open(tmp_path / "run.csv").to_arrow().num_rows >= 5


def wait_for_samples(page: ClientConnection) -> None:
    page.send(json.dumps({"type": "hello"}))
    while True:
        data = page.recv(timeout=30)
        message = json.loads(data) if isinstance(data, str) else {"type": "points"}
        if message["type"] == "state":
            page.send(json.dumps({"type": "ack", "seq": message["seq"]}))
            if message["devices"].get("fuel", {}).get("samples", 0) >= 5:
                return
