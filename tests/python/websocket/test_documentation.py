"""The programs of docs/websocket.md run, also with the page's other handler."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.python.documentation.page_steps import DOCS, ROOT, blocks, free_port

PROGRAM, HANDLER, BLOCKING = (
    block.text for block in blocks(DOCS / "websocket.md") if block.language == "python"
)
SECOND = PROGRAM.replace("async def main", f"{HANDLER}\n\nasync def main")


@pytest.mark.parametrize("program", [PROGRAM, SECOND, BLOCKING])
def test_the_program_receives_what_it_sent(program: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program.replace("8765", str(free_port()))],
        env=os.environ | {"PYTHONPATH": str(ROOT / "python")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "hello\n", "")
