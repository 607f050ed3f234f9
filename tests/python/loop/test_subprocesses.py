"""Child processes through the loop."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from .conftest import Run

PIPE = asyncio.subprocess.PIPE


def python(source: str) -> tuple[str, str, str]:
    return sys.executable, "-c", source


def test_output_and_exit_code_are_collected(run: Run) -> None:
    async def main() -> None:
        process = await asyncio.create_subprocess_exec(
            "sh", "-c", "echo out; echo err >&2; exit 7", stdout=PIPE, stderr=PIPE
        )
        out, err = await process.communicate()
        assert (out, err, process.returncode) == (b"out\n", b"err\n", 7)
        assert await process.wait() == 7

    run(main())


@pytest.mark.usefixtures("only_penstock")
def test_wait_ends_with_the_child_although_a_grandchild_holds_its_pipes(run: Run) -> None:
    # asyncio's own loop does this since 3.14 (gh-119710).
    async def main() -> None:
        process = await asyncio.create_subprocess_exec(
            "sh", "-c", "exec 3<&0; cat <&3 & exit 5", stdin=PIPE, stdout=PIPE
        )
        assert process.stdin is not None and process.stdout is not None
        assert await process.wait() == 5
        assert not process.stdout.at_eof()
        process.stdin.write(b"of the grandchild")
        process.stdin.close()
        assert await process.stdout.read() == b"of the grandchild"

    run(main())


def test_a_megabyte_passes_through_a_filter(run: Run) -> None:
    data = bytes(range(256)) * 4096

    async def main() -> None:
        process = await asyncio.create_subprocess_exec("cat", stdin=PIPE, stdout=PIPE)
        out, err = await process.communicate(data)
        assert out == data
        assert err is None
        assert process.returncode == 0

    run(main())


def test_a_child_answers_line_by_line(run: Run) -> None:
    async def main() -> None:
        process = await asyncio.create_subprocess_exec("cat", stdin=PIPE, stdout=PIPE)
        assert process.stdin is not None
        assert process.stdout is not None
        for word in (b"one\n", b"two\n", b"three\n"):
            process.stdin.write(word)
            await process.stdin.drain()
            assert await process.stdout.readline() == word
        process.stdin.close()
        assert await process.stdout.read() == b""
        assert await process.wait() == 0

    run(main())


def test_a_shell_command_runs(run: Run) -> None:
    async def main() -> None:
        process = await asyncio.create_subprocess_shell("echo $((6 * 7)) | cat", stdout=PIPE)
        assert (await process.communicate())[0] == b"42\n"

    run(main())


def test_many_children_run_concurrently(run: Run) -> None:
    async def one(code: int) -> int:
        process = await asyncio.create_subprocess_exec("sh", "-c", f"exit {code}")
        return await process.wait()

    async def main() -> None:
        codes = list(range(20))
        assert await asyncio.gather(*map(one, codes)) == codes

    run(main())


@pytest.mark.parametrize(
    ("method", "number"), [("terminate", signal.SIGTERM), ("kill", signal.SIGKILL)]
)
def test_a_child_ended_by_a_signal_has_a_negative_code(
    run: Run, method: str, number: signal.Signals
) -> None:
    async def main() -> None:
        process = await asyncio.create_subprocess_exec("sleep", "60")
        assert process.returncode is None
        os.kill(process.pid, 0)
        getattr(process, method)()
        assert await process.wait() == -number
        with pytest.raises(ProcessLookupError):
            process.send_signal(signal.SIGTERM)

    run(main())


def test_a_signal_is_never_sent_to_a_reaped_process_id(
    run: Run, monkeypatch: pytest.MonkeyPatch, only_penstock: None
) -> None:
    # asyncio's own loop guarantees this since 3.14 (gh-127049).
    reaped: set[int] = set()
    stale: list[int] = []
    wait, kill = os.waitpid, os.kill

    def noted_wait(pid: int, options: int) -> tuple[int, int]:
        ended, status = wait(pid, options)
        reaped.add(ended)
        return ended, status

    def noted_kill(pid: int, number: int) -> None:
        if pid in reaped:
            stale.append(pid)
        else:
            kill(pid, number)

    async def main() -> None:
        process = await asyncio.create_subprocess_exec("sleep", "60")
        monkeypatch.setattr(os, "waitpid", noted_wait)
        monkeypatch.setattr(os, "kill", noted_kill)
        while process.returncode is None:
            process.kill()
            await asyncio.sleep(0)
        assert await process.wait() == -signal.SIGKILL

    run(main())
    assert not stale


def test_signals_are_sent(run: Run) -> None:
    async def main() -> None:
        process = await asyncio.create_subprocess_exec(
            "sh", "-c", "trap 'exit 9' USR1; echo ready; while :; do sleep 0.01; done", stdout=PIPE
        )
        assert process.stdout is not None
        await process.stdout.readline()
        process.send_signal(signal.SIGUSR1)
        assert await process.wait() == 9
        await process.stdout.read()

    run(main())


def test_environment_folder_and_streams_are_passed_on(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        process = await asyncio.create_subprocess_exec(
            "sh",
            "-c",
            "echo $WORD $(pwd); echo err >&2",
            stdout=PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env={"WORD": "given", "PATH": os.environ["PATH"]},
            cwd=tmp_path,
        )
        assert (await process.communicate())[0] == f"given {tmp_path}\nerr\n".encode()
        process = await asyncio.create_subprocess_exec(
            "echo", "unseen", stdout=asyncio.subprocess.DEVNULL
        )
        assert await process.wait() == 0
        assert process.stdout is None

    run(main())


def test_a_missing_program_raises(run: Run) -> None:
    async def main() -> None:
        with pytest.raises(FileNotFoundError):
            await asyncio.create_subprocess_exec("/no/such/program")

    run(main())


def test_communicate_works_with_a_child_that_does_not_read(run: Run) -> None:
    async def main() -> None:
        process = await asyncio.create_subprocess_exec("true", stdin=PIPE)
        await process.communicate(b"x" * 1_000_000)
        assert process.returncode == 0

    run(main())


def test_a_cancelled_wait_leaves_the_child_waitable(run: Run) -> None:
    async def main() -> None:
        process = await asyncio.create_subprocess_exec("sleep", "60")
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(process.wait(), 0.005)
        process.kill()
        assert await process.wait() == -signal.SIGKILL

    run(main())


class Exits(asyncio.SubprocessProtocol):
    def __init__(self) -> None:
        self.calls: list[str] = []
        self.data: dict[int, bytes] = {1: b"", 2: b""}
        self.done = asyncio.Event()

    def connection_made(self, transport: Any) -> None:
        self.calls.append("made")

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        self.data[fd] += data

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        self.calls.append(f"pipe {fd} lost")

    def process_exited(self) -> None:
        self.calls.append("exited")

    def connection_lost(self, exc: Exception | None) -> None:
        self.calls.append("lost")
        self.done.set()


def test_the_subprocess_protocol_receives_every_event(
    loop: asyncio.AbstractEventLoop, run: Run
) -> None:
    async def main() -> None:
        transport, protocol = await loop.subprocess_exec(
            Exits, *python("import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)")
        )
        assert transport.get_pid() > 0
        assert isinstance(transport.get_extra_info("subprocess"), subprocess.Popen)
        assert transport.get_pipe_transport(1) is not None
        assert transport.get_pipe_transport(5) is None
        await protocol.done.wait()
        assert transport.get_returncode() == 3
        assert protocol.data == {1: b"out\n", 2: b"err\n"}
        assert protocol.calls[0] == "made"
        assert protocol.calls[-1] == "lost"
        assert sorted(protocol.calls[1:-1]) == [
            "exited",
            "pipe 0 lost",
            "pipe 1 lost",
            "pipe 2 lost",
        ]
        transport.close()

    run(main())


def test_closing_the_transport_ends_the_child(loop: asyncio.AbstractEventLoop, run: Run) -> None:
    async def main() -> None:
        transport, protocol = await loop.subprocess_exec(
            Exits, "sleep", "60", stdin=None, stdout=None, stderr=None
        )
        transport.close()
        assert transport.is_closing()
        await protocol.done.wait()
        assert transport.get_returncode() == -signal.SIGKILL

    run(main())


def test_wrong_arguments_are_refused(loop: asyncio.AbstractEventLoop, run: Run) -> None:
    for arguments in ({"universal_newlines": True}, {"shell": True}, {"bufsize": 4096}):
        with pytest.raises(ValueError, match=r"must be"):
            run(loop.subprocess_exec(Exits, "true", **arguments))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"must be"):
        run(loop.subprocess_shell(Exits, "true", shell=False))  # type: ignore[call-overload]


def test_a_blocking_child_from_a_thread_does_not_disturb_the_loop(run: Run) -> None:
    async def main() -> None:
        results = await asyncio.gather(
            *(
                asyncio.to_thread(subprocess.run, ["sh", "-c", f"exit {code}"], check=False)
                for code in range(5)
            ),
            asyncio.sleep(0.01),
        )
        assert [result.returncode for result in results[:5]] == list(range(5))

    run(main())


def set_child_watcher(watcher: Any) -> None:
    """Set the policy's child watcher; None for the one that it makes when it needs one."""
    if sys.version_info < (3, 14):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            asyncio.set_child_watcher(watcher)


@pytest.fixture
def fresh_child_watcher() -> Iterator[None]:
    """Let the policy make a watcher in the test, and another one after it.

    It keeps the first one that it has made, and that one has found whether there are process
    descriptors.
    """
    set_child_watcher(None)
    yield
    set_child_watcher(None)


@pytest.mark.skipif(
    not hasattr(asyncio, "SafeChildWatcher"), reason="this Python has no child watchers to set"
)
@pytest.mark.usefixtures("fresh_child_watcher")
def test_a_child_watcher_of_the_program_stays_in_use(run: Run) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)

        class Watcher(asyncio.ThreadedChildWatcher):
            seen: ClassVar[list[int]] = []

            def add_child_handler(self, pid: int, callback: Any, *args: Any) -> None:
                self.seen.append(pid)
                super().add_child_handler(pid, callback, *args)

        async def main() -> int:
            process = await asyncio.create_subprocess_exec("true")
            assert await process.wait() == 0
            return process.pid

        set_child_watcher(Watcher())
        assert Watcher.seen == [run(main())]


@pytest.mark.usefixtures("fresh_child_watcher")
def test_exit_codes_arrive_even_if_the_kernel_refuses_process_descriptors(
    run: Run, monkeypatch: pytest.MonkeyPatch, loop_name: str
) -> None:
    def refused(pid: int, flags: int = 0) -> int:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    async def main() -> int:
        process = await asyncio.create_subprocess_exec("sh", "-c", "exit 3")
        return await process.wait()

    if sys.version_info >= (3, 14) and loop_name == "asyncio":
        pytest.skip("asyncio's own loop has checked for them at its creation")
    monkeypatch.setattr(os, "pidfd_open", refused)
    assert run(main()) == 3


NEXT_PROCESS_ID = Path("/proc/sys/kernel/ns_last_pid")


@pytest.mark.skipif(
    not os.access(NEXT_PROCESS_ID, os.W_OK), reason="the next process id cannot be chosen here"
)
@pytest.mark.parametrize("watched_by", ["descriptor", "thread"])
@pytest.mark.usefixtures("fresh_child_watcher", "only_penstock")
def test_a_new_child_may_get_the_process_id_of_one_whose_end_is_being_told(
    loop: asyncio.AbstractEventLoop,
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
    watched_by: str,
) -> None:
    # zuvloop 82: the end of the first child removed what was registered for the second one.
    def refused(pid: int, flags: int = 0) -> int:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    class Protocol(asyncio.SubprocessProtocol):
        def __init__(self) -> None:
            self.ended = loop.create_future()

        def process_exited(self) -> None:
            self.ended.set_result(None)

    async def start(source: str) -> tuple[Any, Any]:
        return await loop.subprocess_exec(
            Protocol, "sh", "-c", source, stdin=None, stdout=None, stderr=None
        )

    async def main() -> bool:
        first, protocol = await start("exit 1")
        await protocol.ended
        NEXT_PROCESS_ID.write_text(str(first.get_pid() - 1))
        second, other = await start("exec sleep 600")
        reused = bool(second.get_pid() == first.get_pid())
        with pytest.raises(ProcessLookupError):
            first.kill()
        first.close()
        await asyncio.sleep(0)
        assert second.get_returncode() is None
        os.kill(second.get_pid(), 0)
        second.kill()
        await other.ended
        assert (first.get_returncode(), second.get_returncode()) == (1, -signal.SIGKILL)
        second.close()
        return reused

    if watched_by == "thread":
        monkeypatch.setattr(os, "pidfd_open", refused)
    # Another process may begin in between.
    assert any(run(main()) for _ in range(50))
