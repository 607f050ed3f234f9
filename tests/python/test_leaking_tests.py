"""A test that leaves something open fails, and not the test that runs when it is collected."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
TESTS = """
import socket

def test_that_leaks():
    cycle = [socket.socket()]
    cycle.append(cycle)

def test_that_follows():
    pass
"""


def test_a_test_that_leaks_a_socket_in_a_cycle_fails(tmp_path: Path) -> None:
    shutil.copy(ROOT / "tests" / "conftest.py", tmp_path)
    (tmp_path / "test_both.py").write_text(TESTS)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-rA", "-W", "error", "-p", "no:cacheprovider", "."],
        cwd=tmp_path,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert "ERROR test_both.py::test_that_leaks" in done.stdout, done.stdout
    assert "PASSED test_both.py::test_that_follows" in done.stdout
    assert "unclosed <socket.socket" in done.stdout
    assert "2 passed, 1 error" in done.stdout
