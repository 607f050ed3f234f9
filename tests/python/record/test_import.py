"""What ``import penstock.record`` loads."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import penstock

_HEAVY = ("penstock.files", "penstock.loop", "penstock._core", "pyarrow", "numpy", "cryptography")


def test_files_and_the_loop_are_imported_by_the_sinks_that_need_them() -> None:
    script = f"import sys, penstock.record; print(sorted({set(_HEAVY)} & set(sys.modules)))"
    environment = {**os.environ, "PYTHONPATH": str(Path(penstock.__file__).parents[1])}
    command = [sys.executable, "-c", script]
    found = subprocess.run(command, env=environment, capture_output=True, check=True)
    assert found.stdout.decode().strip() == "[]"
