"""fork and subprocesses while a loop runs."""

from __future__ import annotations

import pytest

from .conftest import RunScript

PRELUDE = """
import os, socket, subprocess, sys, threading, warnings
warnings.simplefilter("ignore")

async def echo(reader, writer):
    writer.write(await reader.readexactly(5))
    await writer.drain()
    writer.close()

async def exchange(address):
    reader, writer = await asyncio.open_connection(*address)
    writer.write(b"hello")
    answer = await reader.readexactly(5)
    writer.close()
    return answer
"""


def check(run_script: RunScript, source: str) -> None:
    done = run_script(PRELUDE + source)
    assert (done.returncode, done.stdout) == (0, "well\n"), done.stderr


def test_a_fork_in_a_thread_does_not_affect_the_parents_loop(run_script: RunScript) -> None:
    check(
        run_script,
        """
def fork_and_leave():
    pid = os.fork()
    if pid == 0:
        os._exit(7)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

async def main():
    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    address = server.sockets[0].getsockname()
    codes = []
    for _ in range(5):
        code, answer = await asyncio.gather(asyncio.to_thread(fork_and_leave), exchange(address))
        codes.append(code)
        assert answer == b"hello"
    assert codes == [7] * 5
    server.close()
    print("well")

loop = new_loop()
loop.run_until_complete(main())
loop.run_until_complete(loop.shutdown_default_executor())
loop.close()
""",
    )


def test_a_forked_child_runs_its_own_loop(run_script: RunScript) -> None:
    check(
        run_script,
        """
async def serve_one():
    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    answer = await exchange(server.sockets[0].getsockname())
    server.close()
    return answer

def fork():
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            assert asyncio._get_running_loop() is None
            inner = new_loop()
            if inner.run_until_complete(serve_one()) == b"hello":
                code = 0
            inner.close()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

async def main():
    assert fork() == 0
    assert await serve_one() == b"hello"
    print("well")

loop = new_loop()
loop.run_until_complete(main())
loop.close()
""",
    )


def test_a_forked_child_that_closes_the_loop_does_not_affect_the_parent(
    run_script: RunScript,
) -> None:
    check(
        run_script,
        """
async def serve_one():
    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    answer = await exchange(server.sockets[0].getsockname())
    server.close()
    return answer

loop = new_loop()
assert loop.run_until_complete(serve_one()) == b"hello"
pid = os.fork()
if pid == 0:
    try:
        loop.close()
    finally:
        os._exit(0)
os.waitpid(pid, 0)
assert loop.run_until_complete(serve_one()) == b"hello"
loop.call_soon_threadsafe(loop.stop)
loop.run_forever()
loop.close()
print("well")
""",
    )


def test_the_descriptors_of_a_loop_are_not_inherited(run_script: RunScript) -> None:
    check(
        run_script,
        """
async def main():
    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    process = await asyncio.create_subprocess_exec(
        "ls", "/proc/self/fd", stdout=asyncio.subprocess.PIPE, close_fds=False
    )
    out, _ = await process.communicate()
    # Standard streams, and the folder that ls itself opens.
    assert len(out.split()) == 4, out
    writer.write(b"hello")
    await reader.read()
    writer.close()
    server.close()

loop = new_loop()
loop.run_until_complete(main())
loop.close()
print("well")
""",
    )


def test_multiprocessing_works_during_a_run(run_script: RunScript) -> None:
    check(
        run_script,
        """
import concurrent.futures, multiprocessing

async def main():
    loop = asyncio.get_running_loop()
    context = multiprocessing.get_context("fork")
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as pool:
        results = await asyncio.gather(*(loop.run_in_executor(pool, pow, 2, n) for n in range(8)))
    assert results == [2**n for n in range(8)]
    print("well")

loop = new_loop()
loop.run_until_complete(main())
loop.close()
""",
    )


@pytest.mark.usefixtures("only_penstock")  # asyncio's own loop does so from Python 3.12 on
def test_a_signal_of_a_forked_child_does_not_reach_the_parents_loop(run_script: RunScript) -> None:
    check(
        run_script,
        """
import signal

async def main():
    loop = asyncio.get_running_loop()
    seen = []
    loop.add_signal_handler(signal.SIGUSR1, seen.append, "signal")
    pid = os.fork()
    if pid == 0:
        os.kill(os.getpid(), signal.SIGUSR1)
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    for _ in range(100):
        await asyncio.sleep(0)
    assert seen == []
    os.kill(os.getpid(), signal.SIGUSR1)
    while not seen:
        await asyncio.sleep(0)
    print("well")

loop = new_loop()
loop.run_until_complete(main())
loop.close()
""",
    )


@pytest.mark.usefixtures("only_penstock")
@pytest.mark.parametrize("loops", ["none", "idle", "closed", "running"])
def test_a_wake_up_descriptor_of_other_code_is_its_own_affair(
    run_script: RunScript, loops: str
) -> None:
    # From Python 3.12 on, asyncio clears it in each forked child.
    done = run_script(
        PRELUDE
        + f"loops = {loops!r}"
        + """
import signal
mine, theirs = os.pipe2(os.O_NONBLOCK)
signal.signal(signal.SIGUSR1, lambda *_: None)
signal.set_wakeup_fd(theirs)

def in_child():
    child = os.fork()
    if child == 0:
        os.kill(os.getpid(), signal.SIGUSR1)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    try:
        seen = os.read(mine, 9)
    except BlockingIOError:
        seen = b""
    assert seen == (bytes([signal.SIGUSR1]) if sys.version_info < (3, 12) else b""), seen

async def main():
    in_child()

if loops == "running":
    loop = new_loop()
    loop.run_until_complete(main())
elif loops == "none":
    in_child()
else:
    loop = new_loop()
    loop.run_until_complete(asyncio.sleep(0))
    if loops == "closed":
        loop.close()
    in_child()

if loops in ("idle", "running"):
    loop.close()
assert signal.set_wakeup_fd(-1) == theirs
print("well")
"""
    )
    assert (done.returncode, done.stdout) == (0, "well\n"), done.stderr
