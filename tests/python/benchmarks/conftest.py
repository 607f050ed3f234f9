"""Runs a page end to end with tiny rounds."""

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

TEST_TIMEOUT = 600
"""The first test of a run compiles the programs, beside whatever else the machine compiles."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.timeout(TEST_TIMEOUT))


@pytest.fixture
def measure_page(tmp_path: Path) -> Measure:
    """Run a page in a separate process; return its JSON and its output."""

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
    """The loops of a smoke test: Penstock's if it is built, and asyncio's."""
    built = importlib.util.find_spec("penstock._core") is not None
    return "penstock,asyncio" if built else "asyncio"


@pytest.fixture
def check_styles(measure_page: Measure, own_and_asyncio: str) -> Callable[..., None]:
    """Run an echo page with one size and two clients; check that each style was measured."""

    def check(page: str, styles: list[str], size: str, *arguments: str) -> None:
        tiny = ["--rounds", "1", "--seconds", "0.05", "--warmup", "0.02", "--turns", "1"]
        tiny += ["--connections", "2", "--loops", own_and_asyncio, "--styles", ",".join(styles)]
        results, _ = measure_page(page, *tiny, *arguments)
        assert [cell["labels"] for cell in results["cells"]] == [
            [style, size, "2"] for style in styles
        ]
        for cell in results["cells"]:
            for name in ("floor", *own_and_asyncio.split(",")):
                assert cell["contenders"][name]["rounds"][0]["requests"] > 0

    return check
