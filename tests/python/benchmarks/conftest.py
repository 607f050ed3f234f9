"""Running a page end to end with tiny rounds."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]

Measure = Callable[..., tuple[dict[str, Any], str]]


@pytest.fixture
def measure_page(tmp_path: Path) -> Measure:
    """Run a page in a process of its own; its JSON and what it printed."""

    def measure(page: str, *arguments: str) -> tuple[dict[str, Any], str]:
        file = tmp_path / f"{page}.json"
        command = [sys.executable, str(ROOT / "benchmarks" / "run.py"), page, "--shared-core"]
        command += [*arguments, "--json", str(file)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(file.read_text()), done.stdout

    return measure


@pytest.fixture
def own_and_asyncio() -> str:
    """The loops of a smoke test: Penstock's if it is built, beside asyncio's."""
    built = importlib.util.find_spec("penstock._core") is not None
    return "penstock,asyncio" if built else "asyncio"
