"""The scheduling page: every workload completes, and a loop that drops work is reported."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks.scheduling import WORKLOADS, Incomplete, check_every_callback_runs

TINY = ["--rounds", "1", "--seconds", "0.01", "--warmup", "0"]


def test_scheduling_measures_every_workload_on_every_loop(
    measure_page: Callable[..., tuple[dict[str, Any], str]], own_and_asyncio: str
) -> None:
    results, printed = measure_page("scheduling", *TINY, "--loops", own_and_asyncio)
    assert [cell["labels"] for cell in results["cells"]] == [[name] for name in WORKLOADS]
    for cell in results["cells"]:
        for name in own_and_asyncio.split(","):
            (sample,) = cell["contenders"][name]["rounds"]
            assert sample["operations"] >= 1000
            assert sample["cpu_seconds"] > 0
    assert "| call_later, cancel" in printed


def test_a_loop_that_is_not_there_is_na_with_the_reason(
    measure_page: Callable[..., tuple[dict[str, Any], str]],
) -> None:
    results, printed = measure_page(
        "scheduling", *TINY, "--loops", "asyncio,nowhere:loop", "--workload", "sleep(0)"
    )
    (cell,) = results["cells"]
    assert "No module named 'nowhere'" in cell["contenders"]["nowhere:loop"]["missing"]
    assert "- nowhere:loop, sleep(0): nowhere:loop is not installed here" in printed


def test_a_loop_that_drops_a_callback_is_not_measured() -> None:
    class Dropping(asyncio.SelectorEventLoop):
        dropped = False

        def call_soon(self, callback: Any, *args: Any, **options: Any) -> asyncio.Handle:  # type: ignore[override]
            handle = super().call_soon(callback, *args, **options)
            if args == (500,) and not self.dropped:
                self.dropped = True
                handle.cancel()
            return handle

    with asyncio.Runner(loop_factory=Dropping) as runner:

        async def check() -> None:
            await check_every_callback_runs(asyncio.get_running_loop())

        with pytest.raises(Incomplete, match="999 of 1000 callbacks ran"):
            runner.run(check())


def test_the_program_ends_with_exit_code_69_where_the_loop_is_missing(tmp_path: Path) -> None:
    script = Path(__file__).resolve().parents[3] / "benchmarks" / "scheduling.py"
    command = [sys.executable, str(script), "--loop", "nowhere", "--workload", "call_soon"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert done.returncode == 69
    assert "nowhere is not installed here" in done.stderr.splitlines()[-1]
