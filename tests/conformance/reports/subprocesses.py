"""Child processes: their pipes, their exit, and what they inherit."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import sys
import tempfile
import threading
from typing import Any

from tests.conformance.reports.case import (
    Factory,
    Loop,
    Room,
    expect,
    expect_no_reports,
    expect_true,
    raised_by,
    reports_of,
)
from tests.conformance.reports.peers import is_open, polls, turns

ROOM = Room("subprocesses")
PIPE = asyncio.subprocess.PIPE
DEVNULL = asyncio.subprocess.DEVNULL


@ROOM.case(
    "CPython 119710, anyio 1174",
    "wait() did not return when the child had ended, since a grandchild kept its pipe open",
    {name: (name,) for name in ("stdout", "stderr")},
)
async def grandchild_keeps_the_pipe(loop: Loop, stream: str) -> None:
    streams: dict[str, Any] = {"stdout": DEVNULL, "stderr": DEVNULL, stream: PIPE}
    read, write = os.pipe()
    try:
        process = await asyncio.create_subprocess_exec(
            "sh",
            "-c",
            f"sleep 600 & echo $! > /proc/self/fd/{write}; exit 7",
            pass_fds=(write,),
            **streams,
        )
        os.close(write)
        try:
            expect(await process.wait(), 7, "exit status")
        finally:
            os.kill(int(os.read(read, 20)), signal.SIGKILL)
    finally:
        os.close(read)


@ROOM.case(
    "CPython 87744",
    "a child killed at the moment of its exit had status 255, or wait() never returned",
    {name: (name,) for name in ("terminate", "kill", "send_signal")},
)
async def killed_around_its_exit(loop: Loop, method: str) -> None:
    reports = reports_of(loop)

    async def one(number: int) -> int:
        process = await asyncio.create_subprocess_exec("sh", "-c", "exit 7", stdout=DEVNULL)
        await turns(number)
        with contextlib.suppress(ProcessLookupError):
            if method == "send_signal":
                process.send_signal(signal.SIGTERM)
            else:
                getattr(process, method)()
        status = await process.wait()
        expect(process.returncode, status, "returncode beside what wait() returned")
        return status

    statuses = await asyncio.gather(*(one(number) for number in range(16)))
    expect(sorted(set(statuses) - {7, -9, -15}), [], "other statuses than 7, -9 and -15")
    expect_no_reports(reports)


@ROOM.case(
    "CPython 125502",
    "cancelling while the pipes were being connected hung for ever",
    {f"after {steps} turns": (steps,) for steps in range(10)},
)
async def creation_cancelled(loop: Loop, steps: int) -> None:
    async def run() -> None:
        process = await asyncio.create_subprocess_exec("true", stdin=PIPE, stdout=PIPE, stderr=PIPE)
        await process.communicate()

    task = asyncio.ensure_future(run())
    await turns(steps)
    task.cancel()
    await asyncio.wait([task])
    if not task.cancelled():
        task.result()


@ROOM.case(
    "CPython 88050",
    "killing a child that was blocked in a write left its pipe and the loop in a bad state",
    {name: (name,) for name in ("stdout", "stderr")},
)
async def killed_while_blocked(loop: Loop, stream: str) -> None:
    reports = reports_of(loop)
    number = {"stdout": 1, "stderr": 2}[stream]
    streams: dict[str, Any] = {stream: PIPE}
    process = await asyncio.create_subprocess_exec(
        "sh", "-c", f"exec head -c 10000000 /dev/zero >&{number}", limit=1000, **streams
    )
    reader: Any = getattr(process, stream)
    await reader.readexactly(1)
    process.kill()
    expect(await process.wait(), -9, "exit status")
    await reader.read()
    expect_no_reports(reports)


@ROOM.case(
    "anyio 1166",
    "closing a process that was blocked in a write to a full pipe dead-locked",
)
async def closed_while_blocked(loop: Loop) -> None:
    lost = loop.create_future()

    class Paused(asyncio.SubprocessProtocol):
        def pipe_data_received(self, fd: int, data: bytes) -> None:
            transport.get_pipe_transport(1).pause_reading()

        def connection_lost(self, exc: BaseException | None) -> None:
            lost.set_result(exc)

    transport: Any
    transport, _ = await loop.subprocess_exec(
        Paused, "head", "-c", "10000000", "/dev/zero", stdin=None, stderr=None
    )
    transport.close()
    expect(await lost, None, "connection_lost with")


@ROOM.case(
    "uvloop 363",
    "communicate() never returned when more than a pipe's content went through the child",
    {f"{size} bytes": (size,) for size in (65_536, 65_537, 1_000_000)},
)
async def communicate_bulk(loop: Loop, size: int) -> None:
    process = await asyncio.create_subprocess_exec("cat", stdin=PIPE, stdout=PIPE, stderr=PIPE)
    data = os.urandom(size)
    stdout, stderr = await process.communicate(data)
    expect_true(stdout == data, f"{len(stdout)} other bytes came back")
    expect(stderr, b"", "standard error")
    expect(process.returncode, 0, "exit status")


@ROOM.case(
    "uvloop 505, uvloop 532",
    "a child could not open its own standard streams by path, since they were sockets",
    {
        "stdin": ("cat /proc/self/fd/0",),
        "/dev/stdin": ("cat /dev/stdin",),
        "stdout": ("read a; echo $a > /proc/self/fd/1",),
        "stderr": ("read a; echo $a > /proc/self/fd/2",),
    },
)
async def streams_opened_by_path(loop: Loop, command: str) -> None:
    process = await asyncio.create_subprocess_exec(
        "sh", "-c", command, stdin=PIPE, stdout=PIPE, stderr=PIPE
    )
    stdout, stderr = await process.communicate(b"text\n")
    expect((stdout + stderr, process.returncode), (b"text\n", 0), "output and status")


@ROOM.case(
    "uvloop 595",
    "get_extra_info('pipe') of a child's pipe was None",
    {name: (number,) for number, name in enumerate(("stdin", "stdout", "stderr"))},
)
async def pipe_objects(loop: Loop, number: int) -> None:
    exited = loop.create_future()

    class Exits(asyncio.SubprocessProtocol):
        def process_exited(self) -> None:
            exited.set_result(None)

    transport: Any
    transport, _ = await loop.subprocess_exec(Exits, "cat")
    pipe = transport.get_pipe_transport(number).get_extra_info("pipe")
    try:
        expect_true(pipe is not None, "no pipe")
        expect_true(is_open(pipe.fileno()), "the pipe's descriptor is not open")
    finally:
        transport.close()
        await exited


FAILURES = {
    "no such program": (FileNotFoundError, ("/nonexistent/program",), {}),
    "no permission": (PermissionError, ("/dev/null",), {}),
    "no such directory": (FileNotFoundError, ("true",), {"cwd": "/nonexistent"}),
}


@ROOM.case(
    "uvloop 185, libuv 4980",
    "children that could not be started left descriptors or zombies",
    FAILURES,
)
async def failed_starts(
    loop: Loop, wanted: type[Exception], command: tuple[str, ...], options: dict[str, Any]
) -> None:
    async def fail() -> None:
        raised = await raised_by(
            asyncio.create_subprocess_exec(
                *command, stdin=PIPE, stdout=PIPE, stderr=PIPE, **options
            )
        )
        expect(raised, wanted.__name__, "raised")

    await fail()
    gc.collect()
    await polls(loop)
    reap_others()
    before = [fd for fd in range(300) if is_open(fd)]
    for _ in range(5):
        await fail()
    gc.collect()
    await polls(loop)
    expect([fd for fd in range(300) if is_open(fd)], before, "open descriptors")
    with contextlib.suppress(ChildProcessError):
        expect(os.waitpid(-1, os.WNOHANG)[0], 0, "zombies")


def reap_others() -> None:
    """Take the children that other cases have left."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG) != (0, 0):
            pass


@ROOM.case("uvloop 136", "a file object could not be given as standard output")
async def file_as_stdout(loop: Loop) -> None:
    with tempfile.TemporaryFile() as file:
        process = await asyncio.create_subprocess_exec("echo", "text", stdout=file)
        await process.wait()
        file.seek(0)
        expect(file.read(), b"text\n", "content of the file")


@ROOM.case("zuvloop 2412392", "stderr=STDOUT gave the child's errors to nobody")
async def stderr_to_stdout(loop: Loop) -> None:
    process = await asyncio.create_subprocess_exec(
        "sh", "-c", "echo out; echo err >&2", stdout=PIPE, stderr=asyncio.subprocess.STDOUT
    )
    stdout, _ = await process.communicate()
    expect(stdout, b"out\nerr\n", "output")


@ROOM.case(
    "uvloop 317",
    "filling the standard input of a child that did not read ended the process with an assertion",
)
async def stdin_of_a_child_that_does_not_read(loop: Loop) -> None:
    process = await asyncio.create_subprocess_exec("sleep", "600", stdin=PIPE)
    stdin: Any = process.stdin
    drained = None
    for _ in range(50):
        stdin.write(bytes(32_768))
        drained = asyncio.ensure_future(stdin.drain())
        await turns(2)
        if not drained.done():
            break
    expect_true(drained is not None and not drained.done(), "writing was never paused")
    process.kill()
    expect(await process.wait(), -9, "exit status")
    assert drained is not None
    await asyncio.wait([drained])
    drained.exception()


@ROOM.case("zuvloop 56", "a child inherited a descriptor that was inheritable but not passed")
async def inheritable_but_not_passed(loop: Loop) -> None:
    read, write = os.pipe()
    os.set_inheritable(write, True)
    try:
        expect(await child_has(write), b"no", "the child has the descriptor")
    finally:
        os.close(read)
        os.close(write)


@ROOM.case("zuvloop 39", "pass_fds was not taken, or the child had another number")
async def passed_descriptor(loop: Loop) -> None:
    read, write = os.pipe()
    try:
        expect(await child_has(write, pass_fds=(write,)), b"yes", "the child has the descriptor")
    finally:
        os.close(read)
        os.close(write)


async def child_has(descriptor: int, **options: Any) -> bytes:
    process = await asyncio.create_subprocess_exec(
        "sh",
        "-c",
        f"test -e /proc/self/fd/{descriptor} && echo yes || echo no",
        stdout=PIPE,
        **options,
    )
    stdout, _ = await process.communicate()
    return stdout.strip()


@ROOM.case(
    "zuvloop 59",
    "a NUL in the strings of a child cut them short instead of being refused",
    {
        "program": (("tr\0ue",), {}),
        "argument": (("true", "a\0b"), {}),
        "directory": (("true",), {"cwd": "/\0"}),
        "environment": (("true",), {"env": {"A": "a\0b"}}),
    },
)
async def nul_in_strings(loop: Loop, command: tuple[str, ...], options: dict[str, Any]) -> None:
    expect(
        await raised_by(asyncio.create_subprocess_exec(*command, **options)), "ValueError", "raised"
    )


@ROOM.case("zuvloop 38", "the options of subprocess.Popen with their default values were refused")
async def default_options(loop: Loop) -> None:
    process = await asyncio.create_subprocess_exec(
        "true",
        bufsize=0,
        close_fds=True,
        cwd=None,
        env=None,
        extra_groups=None,
        group=None,
        pass_fds=(),
        preexec_fn=None,
        process_group=-1,
        restore_signals=True,
        start_new_session=False,
        startupinfo=None,
        umask=-1,
        user=None,
    )
    expect(await process.wait(), 0, "exit status")


@ROOM.case("uvloop 118", "preexec_fn blocked the loop or was not called")
async def function_before_exec(loop: Loop) -> None:
    process = await asyncio.create_subprocess_exec(
        "printenv", "PREEXEC", stdout=PIPE, preexec_fn=lambda: os.putenv("PREEXEC", "yes"), env=None
    )
    stdout, _ = await process.communicate()
    expect(stdout, b"yes\n", "output")


@ROOM.case(
    "zuvloop 6",
    "a second child held the first one's pipe open, so that it never saw the end of its input",
)
async def end_of_input_beside_a_sibling(loop: Loop) -> None:
    first = await asyncio.create_subprocess_exec("cat", stdin=PIPE, stdout=PIPE)
    second = await asyncio.create_subprocess_exec("cat", stdin=PIPE, stdout=PIPE)
    stdout, _ = await first.communicate(b"x")
    expect((stdout, first.returncode), (b"x", 0), "output and status")
    second.kill()
    await second.wait()


@ROOM.case(
    "CPython 114177",
    "collecting a process after its loop was closed printed 'Event loop is closed'",
)
def collected_after_close(factory: Factory) -> None:
    unraisable: list[object] = []
    hook = sys.unraisablehook
    sys.unraisablehook = lambda args: unraisable.append(args.exc_value)
    loop = factory()

    async def start() -> Any:
        return await asyncio.create_subprocess_exec("cat", stdin=PIPE, stdout=PIPE, stderr=PIPE)

    try:
        process = loop.run_until_complete(start())
    except BaseException:
        sys.unraisablehook = hook
        raise
    pid = process.pid
    try:
        loop.close()
        del process
        gc.collect()
        expect([repr(exc) for exc in unraisable], [], "exceptions of finalizers")
    finally:
        sys.unraisablehook = hook
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


@ROOM.case(
    "CPython 114177",
    "a loop that was closed before its child ended kept a descriptor",
    {"without pipes": (None,), "with pipes": (PIPE,)},
)
def closed_before_the_child_ends(factory: Factory, stream: int | None) -> None:
    before = {fd for fd in range(300) if is_open(fd)}
    loop = factory()

    async def start() -> Any:
        return await asyncio.create_subprocess_exec("cat", stdin=PIPE, stdout=stream)

    process = loop.run_until_complete(start())
    pid = process.pid
    try:
        loop.close()
        del process, loop
        gc.collect()
        left = {fd for fd in range(300) if is_open(fd)} - before
        expect([os.readlink(f"/proc/self/fd/{fd}") for fd in left], [], "descriptors left open")
    finally:
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


@ROOM.case(
    "zuvloop 82",
    "the exit of one child took away the registration of a later one",
)
async def many_short_children(loop: Loop) -> None:
    async def one(status: int) -> int:
        process = await asyncio.create_subprocess_exec("sh", "-c", f"exit {status}")
        return await process.wait()

    statuses = await asyncio.gather(*(one(status) for status in range(30)))
    expect(statuses, list(range(30)), "exit statuses")


@ROOM.case(
    "libuv 4997",
    "the last part of a child's output was lost when it exited at once",
    {"pipe": ("pipe",), "protocol": ("protocol",)},
)
async def output_of_a_child_that_exits(loop: Loop, how: str) -> None:
    command = ("head", "-c", "200000", "/dev/zero")
    if how == "pipe":
        process = await asyncio.create_subprocess_exec(*command, stdout=PIPE)
        stdout: Any = process.stdout
        size = len(await stdout.read())
        await process.wait()
    else:
        lost = loop.create_future()
        received = bytearray()

        class Output(asyncio.SubprocessProtocol):
            def pipe_data_received(self, fd: int, data: bytes) -> None:
                received.extend(data)

            def connection_lost(self, exc: BaseException | None) -> None:
                lost.set_result(None)

        transport: Any
        transport, _ = await loop.subprocess_exec(Output, *command, stdin=None, stderr=None)
        await lost
        size = len(received)
        expect(transport.get_returncode(), 0, "exit status")
    expect(size, 200_000, "bytes of output")


@ROOM.case(
    "CPython 139373",
    "the status of a child was lost when communicate() was cancelled",
)
async def communicate_cancelled(loop: Loop) -> None:
    process = await asyncio.create_subprocess_exec("cat", stdin=PIPE, stdout=PIPE)
    task = asyncio.ensure_future(process.communicate())
    await turns(1)
    task.cancel()
    await asyncio.wait([task])
    assert process.stdin is not None
    process.stdin.close()
    expect((await process.wait(), process.returncode), (0, 0), "status")


@ROOM.case("uvloop 508", "loops in several threads could not start children at the same time")
def children_in_several_threads(factory: Factory) -> None:
    troubles: list[Exception] = []
    statuses: list[int] = []

    async def children() -> None:
        for _ in range(5):
            process = await asyncio.create_subprocess_exec("sh", "-c", "exit 7")
            statuses.append(await process.wait())

    def work() -> None:
        loop = factory()
        try:
            loop.run_until_complete(children())
        except Exception as exc:
            troubles.append(exc)
        finally:
            loop.close()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for trouble in troubles:
        if isinstance(trouble, NotImplementedError):
            raise trouble
    expect((troubles, statuses), ([], [7] * 20), "exceptions, and exit statuses")
