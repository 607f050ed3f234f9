"""``files.lock``: between tasks, and between processes."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from penstock import files
from penstock.files._locks import _FLOCK
from tests.python.files.child_script import run_script
from tests.python.files.conftest import child_environment

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("no_descriptor_left")]

HOLDER = """
import asyncio, sys
from penstock import files
from penstock.files._locks import _FLOCK

async def main():
    async with files.lock(sys.argv[1], shared=sys.argv[2] == "shared"):
        print("held", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        print("done", flush=True)

asyncio.run(main())
"""


@contextmanager
def holder(path: Path, kind: str) -> Iterator[subprocess.Popen[str]]:
    """Let another process hold the lock until it reads a line."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path), kind],
        env=child_environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        try:
            yield process
        finally:
            process.kill()


def free(path: Path) -> bool:
    """Whether nobody holds the lock."""
    with open(path, "r+b") as file:
        try:
            fcntl.fcntl(file, fcntl.F_OFD_SETLK, _FLOCK.pack(fcntl.F_WRLCK, 0, 0, 0, 0))
        except BlockingIOError:
            return False
    return True


async def test_it_is_held_until_the_block_ends(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    async with files.lock(path) as lock:
        assert lock.held
        assert lock.path == str(path)
        assert not free(path)
        assert "exclusive held" in repr(lock)
    assert free(path)
    assert not lock.held
    lock.release()
    assert (await lock).held
    lock.release()
    assert free(path)


async def test_another_process_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with holder(path, "exclusive") as process:
        with pytest.raises(TimeoutError, match="locked by others") as late:
            await files.lock(path, timeout=0)
        assert late.value.filename == str(path)
        with pytest.raises(TimeoutError):
            await files.lock(path, timeout=0.01)
        order = []

        async def acquire() -> None:
            async with files.lock(path, timeout=60):
                order.append("acquired")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(acquire)
            await anyio.wait_all_tasks_blocked()
            order.append("waiting")
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
        assert order == ["waiting", "acquired"]


async def test_a_killed_holder_leaves_no_lock(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with holder(path, "exclusive") as process:
        process.kill()
        async with files.lock(path):
            pass


async def test_shared_holders_exclude_an_exclusive_one(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with holder(path, "shared"):
        async with files.lock(path, shared=True, timeout=0):
            with pytest.raises(TimeoutError):
                await files.lock(path, timeout=0)
        with pytest.raises(TimeoutError):
            await files.lock(path, timeout=0)


async def test_tasks_exclude_each_other(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    inside = 0
    most = 0

    async def work() -> None:
        nonlocal inside, most
        for _ in range(5):
            async with files.lock(path):
                inside += 1
                most = max(most, inside)
                await anyio.lowlevel.checkpoint()
                inside -= 1

    async with anyio.create_task_group() as tasks:
        for _ in range(10):
            tasks.start_soon(work)
    assert (most, inside) == (1, 0)


async def test_a_cancelled_wait_does_not_hold_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    held = await files.lock(path)
    waiting = files.lock(path)

    async def wait() -> None:
        await waiting

    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(lambda: _wait_for_another(path))
        tasks.start_soon(wait)
        await anyio.wait_all_tasks_blocked()
        with pytest.raises(RuntimeError, match="create another one"):
            await waiting
        tasks.cancel_scope.cancel()
    assert not waiting.held
    held.release()
    async with files.lock(path, timeout=30):  # the cancelled waits may end a moment later
        pass


async def _wait_for_another(path: Path) -> None:
    async with files.lock(path):
        pytest.fail("it was held")


async def test_other_opens_of_the_file_do_not_release_it(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    async with files.lock(path):
        os.close(os.open(path, os.O_RDWR))
        assert not free(path)


async def test_a_forgotten_lock_is_released(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    lock = await files.lock(path)
    del lock
    assert free(path)


async def test_errors_name_the_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as missing:
        await files.lock(tmp_path / "missing/lock")
    assert missing.value.filename == str(tmp_path / "missing/lock")
    with pytest.raises(IsADirectoryError):
        await files.lock(tmp_path)
    with pytest.raises(ValueError, match="seconds"):
        files.lock(tmp_path / "lock", timeout=-1)


async def test_a_file_that_must_not_be_written_can_have_a_shared_lock(tmp_path: Path) -> None:
    path = tmp_path / "program"
    program = shutil.which("sleep")
    assert program is not None
    shutil.copy(program, path)
    with subprocess.Popen([path, "60"]) as running:  # ETXTBSY for those who would write
        try:
            async with files.lock(path, shared=True) as lock:
                assert lock.held
            with pytest.raises(OSError, match="busy"):
                await files.lock(path)
        finally:
            running.kill()


def test_a_forked_child_does_not_release_its_parents_lock(tmp_path: Path) -> None:
    result = run_script(
        f"""
        import asyncio, fcntl, os, warnings
        from penstock import files
        from penstock.files._locks import _FLOCK

        warnings.simplefilter("ignore")  # of forks beside threads
        path = {str(tmp_path / "lock")!r}

        def is_free():
            with open(path, "r+b") as file:
                try:
                    fcntl.fcntl(file, fcntl.F_OFD_SETLK, _FLOCK.pack(fcntl.F_WRLCK, 0, 0, 0, 0))
                except BlockingIOError:
                    return False
            return True

        async def main():
            async with files.lock(path) as lock:
                child = os.fork()
                if child == 0:
                    lock.release()
                    os._exit(7 if not lock.held else 8)
                assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
                assert lock.held and not is_free()
            assert is_free()

        asyncio.run(main())
        print("done")
        """
    )
    assert result.stdout == "done\n", result.stderr
