"""Penstock's loop waits for child processes without a thread per process."""

from __future__ import annotations

import asyncio
import sys
import threading

import pytest

from .conftest import LoopFactory, penstock_factory


@pytest.fixture
def penstock_loop_factory() -> LoopFactory:
    return penstock_factory()


@pytest.mark.filterwarnings("ignore:.*child.watcher.*:DeprecationWarning")
def test_a_running_child_uses_no_thread(penstock_loop_factory: LoopFactory) -> None:
    async def main() -> None:
        before = threading.active_count()
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", "input()", stdin=asyncio.subprocess.PIPE
        )
        assert threading.active_count() == before
        await process.communicate(b"\n")
        assert process.returncode == 0

    with asyncio.Runner(loop_factory=penstock_loop_factory) as runner:
        runner.run(main())


@pytest.mark.filterwarnings("ignore:.*child.watcher.*:DeprecationWarning")
def test_exit_codes_and_signals_are_reported(penstock_loop_factory: LoopFactory) -> None:
    async def main() -> list[int | None]:
        codes: list[int | None] = []
        for program in ("raise SystemExit(7)", "import os; os.kill(os.getpid(), 9)"):
            process = await asyncio.create_subprocess_exec(sys.executable, "-c", program)
            codes.append(await process.wait())
        return codes

    with asyncio.Runner(loop_factory=penstock_loop_factory) as runner:
        assert runner.run(main()) == [7, -9]
