"""The interpreter exits while daemon threads are inside the loop, a ring or a file operation."""

from __future__ import annotations

import os

import pytest

from .conftest import RunScript

# The threads' memory is never freed at the exit, so a sanitized run skips the leak check.
THREADS_LEAK = {"ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"}

PRELUDE = """
import threading

def begin(work, count=1):
    "Return once each thread is working."
    started = threading.Semaphore(0)
    for _ in range(count):
        threading.Thread(target=work, args=(started.release,), daemon=True).start()
    for _ in range(count):
        started.acquire()
"""

A_BUSY_LOOP = """
def work(started):
    loop = new_loop()
    def again():
        loop.call_soon(again)
    loop.call_soon(started)
    loop.call_soon(again)
    loop.run_forever()

begin(work)
"""

A_LOOP_THAT_WAITS = """
def work(started):
    loop = new_loop()
    async def wait():
        started()
        while True:
            await asyncio.sleep(0.001)
    loop.run_until_complete(wait())

begin(work)
"""

A_BUSY_SERVER = """
def work(started):
    async def echo(reader, writer):
        while True:
            writer.write(await reader.readexactly(5))

    async def main():
        server = await asyncio.start_server(echo, "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        started()
        while True:
            writer.write(b"hello")
            await reader.readexactly(5)

    new_loop().run_until_complete(main())

begin(work)
"""

THREADS_THAT_POST = """
loop = new_loop()

def work(started):
    started()
    while True:
        loop.call_soon_threadsafe(int)

begin(work, 3)
loop.call_later(0.02, loop.stop)
loop.run_forever()
"""

TASKS_THAT_READ_FILES = """
from penstock import files

def work(started):
    async def read(path):
        while True:
            await files.read_file(path)
            async with await files.open("/dev/zero", "rb") as file:
                await file.read(100_000)

    async def main():
        started()
        await asyncio.gather(*(read(files.__file__) for _ in range(5)))

    new_loop().run_until_complete(main())

begin(work)
"""

PYTHON_FUNCTIONS_IN_WORKERS = """
from penstock import files

def work(started):
    async def scan():
        while True:
            await files.scandir("/")

    async def main():
        started()
        await asyncio.gather(*(scan() for _ in range(20)))

    new_loop().run_until_complete(main())

begin(work)
"""

A_RING = """
from penstock.uring import UringCtx

def work(started):
    with UringCtx(entries=8) as ring:
        started()
        while True:
            ring.prep_nop(user_data=1)
            ring.submit_and_wait(1)
            ring.wait_completions(1)

begin(work)
"""

# The thread's position at the exit is random.
EXITS = 5


@pytest.mark.parametrize(
    "program",
    [
        pytest.param(A_BUSY_LOOP, id="a busy loop"),
        pytest.param(A_LOOP_THAT_WAITS, id="a loop that waits"),
        pytest.param(A_BUSY_SERVER, id="a busy server"),
        pytest.param(THREADS_THAT_POST, id="threads that post"),
    ],
)
def test_a_process_exits_cleanly_while_a_daemon_thread_is_in_a_loop(
    program: str, run_script: RunScript
) -> None:
    for _ in range(EXITS):
        done = run_script(PRELUDE + program, env=THREADS_LEAK)
        assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.usefixtures("only_penstock")
@pytest.mark.parametrize(
    "program",
    [
        pytest.param(TASKS_THAT_READ_FILES, id="tasks that read files"),
        pytest.param(PYTHON_FUNCTIONS_IN_WORKERS, id="Python functions in workers"),
    ],
)
def test_a_process_exits_cleanly_while_a_daemon_thread_has_files_open(
    program: str, run_script: RunScript
) -> None:
    for _ in range(EXITS):
        done = run_script(PRELUDE + program, env=THREADS_LEAK)
        assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.usefixtures("only_penstock")
def test_a_process_exits_cleanly_while_a_daemon_thread_is_in_a_ring(run_script: RunScript) -> None:
    from penstock import uring

    if not uring.probe().available:
        pytest.skip("this kernel or container refuses io_uring")
    for _ in range(EXITS):
        done = run_script(PRELUDE + A_RING, env=THREADS_LEAK)
        assert (done.returncode, done.stderr) == (0, "")
