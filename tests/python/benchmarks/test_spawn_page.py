"""The spawn page: children run and their exit is observed, on the floor and on a loop."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks.measure.native import BENCHMARKS, build_native
from benchmarks.measure.processes import Failed, run

CORE = min(os.sched_getaffinity(0))

pytestmark = pytest.mark.skipif(shutil.which("cmake") is None, reason="cmake is not installed")


@pytest.fixture(scope="module")
def native() -> Path:
    return build_native()


def test_spawn_measures_children_beside_the_floor(
    measure_page: Callable[..., tuple[dict[str, Any], str]], own_and_asyncio: str
) -> None:
    results, _ = measure_page(
        *("spawn", "--rounds", "1", "--seconds", "0.02", "--warmup", "0"),
        *("--loops", own_and_asyncio, "--at-once", "1,3"),
    )
    for cell, at_once in zip(results["cells"], (1, 3), strict=True):
        for name in ("floor", *own_and_asyncio.split(",")):
            (sample,) = cell["contenders"][name]["rounds"]
            assert sample["operations"] >= at_once
            assert sample["operations"] % at_once == 0


def test_the_trivial_child_ends_with_the_exit_code_that_proves_its_run(native: Path) -> None:
    assert subprocess.run([native / "trivial_child"], check=False).returncode == 7


def test_a_child_that_ends_otherwise_is_not_counted(native: Path) -> None:
    child = ["--child", "/bin/true", "--seconds", "0.01", "--warmup", "0"]
    with pytest.raises(Failed, match="did not end as it should"):
        run([str(native / "spawn_floor"), *child], CORE, timeout=60)
    program = [sys.executable, str(BENCHMARKS / "spawning.py"), "--loop", "asyncio"]
    with pytest.raises(Failed, match="reported to have ended with 0 instead of 7"):
        run([*program, *child], CORE, timeout=60)
