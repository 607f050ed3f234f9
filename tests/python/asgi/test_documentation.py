"""The program of docs/asgi.md runs."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.python.documentation.page_steps import DOCS, ROOT, blocks, free_port

(PROGRAM,) = (block.text for block in blocks(DOCS / "asgi.md") if block.language == "python")


def test_the_program_prints_the_response() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM.replace("8000", str(free_port()))],
        env=os.environ | {"PYTHONPATH": str(ROOT / "python")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "hello\n"), done.stderr
