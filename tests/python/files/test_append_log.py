"""AppendLog: the guarantees of an append, on every loop."""

from __future__ import annotations

import errno
import gc
import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import anyio
import pytest
from anyio.abc import TaskGroup, TaskStatus

from penstock.files import AppendLog, LogError, LogFailed, LogLocked, NotALog, read_log
from penstock.files._backend import current_backend
from penstock.files._log import log_file
from penstock.files._log.log_format import FILE_HEADER_SIZE
from tests.python.files.conftest import UseBackend, child_environment
from tests.python.files.faulty_backend import Fault, FaultyBackend, failing, system_error

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("no_descriptor_left")]


async def records_of(path: Path) -> list[bytes]:
    return [record async for record in read_log(path)]


async def append_all(log: AppendLog, records: list[bytes]) -> None:
    async with anyio.create_task_group() as group:
        for record in records:
            group.start_soon(log.append, record)


async def test_appended_records_are_read_back_in_order_by_the_next_opening(tmp_path: Path) -> None:
    path = tmp_path / "log"
    records = [b"one", b"", b"three" * 1000, bytes(range(256))]
    async with AppendLog(path) as log:
        assert [await log.append(record) for record in records] == [0, 1, 2, 3]
        assert [record async for record in log] == records
        assert (log.count, log.size) == (4, path.stat().st_size)
    async with AppendLog(path) as log:
        assert [record async for record in log] == records
        assert (log.recovered.records, log.recovered.torn) == (4, 0)
        assert await log.append(b"five") == 4
    assert await records_of(path) == [*records, b"five"]


async def test_appends_that_wait_together_share_one_write_and_one_sync(
    tmp_path: Path, use_backend: UseBackend
) -> None:
    backend = FaultyBackend()
    use_backend(backend)
    async with AppendLog(tmp_path / "log") as log:
        backend.calls.clear()
        await append_all(log, [b"x" * 1024] * 200)
        assert backend.calls.count("fdatasync") <= 2
        assert backend.calls.count("write") == backend.calls.count("fdatasync")
        assert log.count == 200


async def test_an_append_returns_only_after_the_sync_of_its_bytes(
    tmp_path: Path, use_backend: UseBackend
) -> None:
    path = tmp_path / "log"
    synced: list[int] = []
    backend = FaultyBackend(
        afterwards=lambda number, name: (
            synced.append(path.stat().st_size) if name == "fdatasync" else None
        ),
    )
    use_backend(backend)
    async with AppendLog(path) as log:

        async def append(record: bytes) -> None:
            await log.append(record)
            assert synced[-1] >= log.size

        async with anyio.create_task_group() as group:
            for number in range(50):
                group.start_soon(append, b"%d" % number)


async def test_await_and_the_first_append_each_open_a_log(tmp_path: Path) -> None:
    log = await AppendLog(tmp_path / "awaited")
    await log.append(b"a")
    await log.close()
    log = AppendLog(os.fsencode(tmp_path / "lazy"))
    await append_all(log, [b"b"] * 3)
    await log.close()
    assert await records_of(tmp_path / "awaited") == [b"a"]
    assert await records_of(tmp_path / "lazy") == [b"b"] * 3


async def test_a_log_that_is_not_open_raises_log_error(tmp_path: Path) -> None:
    log = AppendLog(tmp_path / "log")
    with pytest.raises(LogError, match="not been opened"):
        _ = log.recovered
    with pytest.raises(LogError, match="not open"):
        _ = [record async for record in log]
    await log.close()
    await log.close()
    for use in (log.open, lambda: log.append(b"")):
        with pytest.raises(LogError, match="the log is closed"):
            await use()
    assert not (tmp_path / "log").exists()


async def test_a_changed_buffer_does_not_change_its_record(tmp_path: Path) -> None:
    path = tmp_path / "log"
    async with AppendLog(path) as log, anyio.create_task_group() as group:
        buffer = bytearray(b"before")
        group.start_soon(log.append, buffer)
        await anyio.lowlevel.checkpoint()
        buffer[:] = b"after!"
    assert await records_of(path) in ([b"before"], [b"after!"])
    async with AppendLog(path) as log:
        await log.append(memoryview(bytearray(b"abcdef"))[::2])
    assert (await records_of(path))[-1] == b"ace"


async def test_wrong_data_are_refused_and_change_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.files._log.append_log.MAX_PAYLOAD", 10)
    path = tmp_path / "log"
    async with AppendLog(path) as log:
        with pytest.raises(TypeError, match="encode it"):
            await log.append("text")  # type: ignore[arg-type]
        with pytest.raises(TypeError):
            await log.append(7)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="11 bytes is longer than 10"):
            await log.append(b"x" * 11)
        await log.append(b"x" * 10)
    assert await records_of(path) == [b"x" * 10]


async def test_a_second_writer_is_refused_and_a_reader_is_not(tmp_path: Path) -> None:
    path = tmp_path / "log"
    async with AppendLog(path) as log:
        await log.append(b"mine")
        with pytest.raises(LogLocked, match="another writer has this log open"):
            await AppendLog(path)
        assert await records_of(path) == [b"mine"]
    async with AppendLog(path):
        pass


async def test_a_writer_in_another_process_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "log"
    async with AppendLog(path):
        source = (
            "import sys; from penstock.files._log.log_file import open_log_file;"
            "open_log_file(sys.argv[1], 0o666)"
        )
        done = subprocess.run(
            [sys.executable, "-c", source, str(path)],
            env=child_environment(),
            capture_output=True,
            text=True,
            timeout=60,
        )
    assert done.returncode == 1
    assert "LogLocked" in done.stderr


LOCKER = """
import fcntl, os, subprocess, sys
fd = os.open(sys.argv[1], os.O_RDWR)
fcntl.flock(fd, fcntl.LOCK_EX)
print(subprocess.Popen(["sleep", "100"], pass_fds=[fd], stdout=subprocess.DEVNULL).pid)
"""


def test_opening_waits_for_the_lock_of_a_dead_writer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """io_uring may hold a killed writer's file briefly. Here another process holds it."""
    path = tmp_path / "log"
    os.close(log_file.open_log_file(str(path), 0o666).fd)
    done = subprocess.run(
        [sys.executable, "-c", LOCKER, str(path)], stdout=subprocess.PIPE, timeout=60, check=True
    )
    holder = int(done.stdout)
    pauses = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            os.kill(holder, signal.SIGKILL)
        time.sleep(seconds)

    with monkeypatch.context() as patched:
        patched.setattr(log_file, "time", SimpleNamespace(sleep=sleep))
        os.close(log_file.open_log_file(str(path), 0o666).fd)
    assert len(pauses) >= 3


async def test_opening_follows_a_name_that_changes_its_file_before_the_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "log"
    async with AppendLog(path) as log:
        await log.append(b"old")
    lock = log_file._lock

    def rotate_then_lock(fd: int, name: str) -> None:
        if not (tmp_path / "log.1").exists():
            path.rename(tmp_path / "log.1")
        lock(fd, name)

    monkeypatch.setattr(log_file, "_lock", rotate_then_lock)
    async with AppendLog(path) as log:
        assert log.recovered.records == 0
        await log.append(b"new")
    assert await records_of(path) == [b"new"]
    assert await records_of(tmp_path / "log.1") == [b"old"]


@pytest.mark.parametrize(
    "content",
    [b"x", b"penstock log 3\n\0" + bytes(8), b"a text file\n" * 10, bytes(FILE_HEADER_SIZE + 1)],
)
async def test_a_file_that_is_no_log_is_refused_and_left_unchanged(
    tmp_path: Path, content: bytes
) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(content)
    with pytest.raises(NotALog, match="nothing was changed"):
        await AppendLog(path)
    with pytest.raises(NotALog):
        await records_of(path)
    assert path.read_bytes() == content


async def test_a_path_that_cannot_be_a_log_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as missing:
        await AppendLog(tmp_path / "no" / "log")
    assert missing.value.filename == str(tmp_path / "no" / "log")
    with pytest.raises(IsADirectoryError):
        await AppendLog(tmp_path)
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(NotALog, match="not a regular file"):
        await AppendLog(tmp_path / "fifo")
    with pytest.raises(FileNotFoundError):
        await records_of(tmp_path / "log")


async def test_a_full_disk_fails_its_appends_and_leaves_the_log_whole_and_usable(
    tmp_path: Path, use_backend: UseBackend
) -> None:
    path = tmp_path / "log"
    full = False

    class FillingDisk(FaultyBackend):
        async def write(self, fd: int, data: bytes, offset: int) -> None:
            await current_backend().write(fd, data[: len(data) // 2] if full else data, offset)
            if full:
                raise system_error(errno.ENOSPC)

    use_backend(FillingDisk())
    async with AppendLog(path) as log:
        await log.append(b"first")
        full = True
        failures: list[OSError] = []

        async def append(record: bytes) -> None:
            try:
                await log.append(record)
            except OSError as error:
                failures.append(error)

        async with anyio.create_task_group() as group:
            for _ in range(5):
                group.start_soon(append, b"too much")
        assert [error.errno for error in failures] == [errno.ENOSPC] * 5
        assert {error.filename for error in failures} == {str(path)}
        assert path.stat().st_size == log.size
        full = False
        await log.append(b"second")
    assert await records_of(path) == [b"first", b"second"]


async def test_a_failed_sync_ends_the_log(tmp_path: Path, use_backend: UseBackend) -> None:
    path = tmp_path / "log"
    async with AppendLog(path) as log:
        await log.append(b"durable")
    broken = FaultyBackend(fault=failing("fdatasync"))
    use_backend(broken)
    log = await AppendLog(path)
    with pytest.raises(LogFailed, match="did not confirm") as failed:
        await log.append(b"lost")
    assert isinstance(failed.value.__cause__, OSError)
    assert failed.value.__cause__.errno == errno.EIO
    # No second attempt: the kernel would report success.
    calls = len(broken.calls)
    with pytest.raises(LogFailed):
        await log.append(b"also")
    assert len(broken.calls) == calls
    assert [record async for record in log] == [b"durable"]
    assert "failed" in repr(log)
    await log.close()
    # A refused record does not appear later as if it had been accepted.
    assert await records_of(path) == [b"durable"]


async def test_waiting_appends_fail_with_the_commit_before_them(
    tmp_path: Path, use_backend: UseBackend
) -> None:
    path = tmp_path / "log"
    syncing, fail = anyio.Event(), anyio.Event()

    async def fault(_: int, name: str) -> None:
        if name == "fdatasync":
            syncing.set()
            await fail.wait()
            raise system_error(errno.EIO)

    use_backend(FaultyBackend(fault=fault))
    log = await AppendLog(path)
    seen: list[str] = []

    async def append(record: bytes) -> None:
        with pytest.raises(LogFailed) as failed:
            await log.append(record)
        seen.append(str(failed.value))

    async with anyio.create_task_group() as group:
        group.start_soon(append, b"first")
        await syncing.wait()
        group.start_soon(append, b"second")
        await anyio.lowlevel.checkpoint()
        fail.set()
    assert len(seen) == 2
    await log.close()
    assert await records_of(path) == []


async def test_a_partial_write_that_cannot_be_truncated_ends_the_log(
    tmp_path: Path, use_backend: UseBackend
) -> None:
    use_backend(FaultyBackend(fault=failing("write", "truncate")))
    log = await AppendLog(tmp_path / "log")
    for _ in range(2):
        # Not OSError, which means that the record is not in the log.
        with pytest.raises(LogFailed, match="could not be cut off") as failed:
            await log.append(b"x")
        assert "Input/output error" in str(failed.value.__cause__)
    await log.close()


async def test_an_unforeseen_error_of_a_commit_reaches_its_appends(
    tmp_path: Path, use_backend: UseBackend
) -> None:
    def fault(_: int, name: str) -> None:
        if name == "write":
            raise RuntimeError("defect")

    use_backend(FaultyBackend(fault=fault))
    log = await AppendLog(tmp_path / "log")
    with pytest.raises(LogFailed) as failed:
        await log.append(b"x")
    assert isinstance(failed.value.__cause__, RuntimeError)
    await log.close()


async def test_an_append_cancelled_before_its_write_leaves_no_record(
    tmp_path: Path, use_backend: UseBackend
) -> None:
    path = tmp_path / "log"
    writing, go = anyio.Event(), anyio.Event()

    use_backend(FaultyBackend(fault=held("write", writing, go)))
    async with AppendLog(path) as log, anyio.create_task_group() as group:
        group.start_soon(log.append, b"being written")
        await writing.wait()
        with anyio.CancelScope() as scope:
            scope.cancel()
            await log.append(b"waits")
        assert scope.cancelled_caught
        await begin_append(group, log, b"waits, too")
        go.set()
    assert await records_of(path) == [b"being written", b"waits, too"]


async def test_an_append_cancelled_during_its_write_returns_at_once_and_leaves_its_record(
    tmp_path: Path, use_backend: UseBackend
) -> None:
    path = tmp_path / "log"
    writing, go = anyio.Event(), anyio.Event()

    use_backend(FaultyBackend(fault=held("write", writing, go)))
    async with AppendLog(path) as log:
        async with anyio.create_task_group() as group:
            group.start_soon(log.append, b"in")
            await writing.wait()
            group.cancel_scope.cancel()
        # The task has ended, although the write continues.
        assert not go.is_set()
        go.set()
    assert await records_of(path) == [b"in"]


async def test_closing_waits_for_the_appends_that_have_begun(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log = await AppendLog(path)
    async with anyio.create_task_group() as group:
        for number in range(20):
            await begin_append(group, log, b"%d" % number)
        with anyio.CancelScope() as scope:
            scope.cancel()
            await log.close()
        assert scope.cancelled_caught
    assert log.closed
    assert await records_of(path) == [b"%d" % number for number in range(20)]


async def test_a_cancelled_opening_leaves_no_lock(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log = AppendLog(path)
    with anyio.CancelScope() as scope:
        scope.cancel()
        await log.open()
    assert scope.cancelled_caught
    async with AppendLog(path) as other:
        await other.append(b"x")
    async with log:
        assert [record async for record in log] == [b"x"]


async def test_iteration_during_appends_yields_a_whole_prefix(tmp_path: Path) -> None:
    records = [b"%d" % number * 50 for number in range(300)]
    async with AppendLog(tmp_path / "log") as log, anyio.create_task_group() as group:

        async def append() -> None:
            for begin in range(0, len(records), 30):
                async with anyio.create_task_group() as group:
                    for record in records[begin : begin + 30]:
                        await begin_append(group, log, record)

        group.start_soon(append)
        seen: list[bytes] = []
        while len(seen) < len(records):
            durable = log.count
            seen = [record async for record in log]
            assert seen == records[: len(seen)]
            assert len(seen) >= durable
            await anyio.lowlevel.checkpoint()


def held(call: str, begun: anyio.Event, go: anyio.Event) -> Fault:
    """Return a fault that sets ``begun`` when this call begins, and then waits for ``go``."""

    async def fault(_: int, name: str) -> None:
        if name == call:
            begun.set()
            await go.wait()

    return fault


async def begin_append(group: TaskGroup, log: AppendLog, record: bytes) -> None:
    """Start an append and wait until it has begun. trio starts a group's tasks in any order."""

    async def append(*, task_status: TaskStatus[None]) -> None:
        task_status.started()
        await log.append(record)

    await group.start(append)


async def test_closing_the_log_makes_an_iteration_raise(tmp_path: Path) -> None:
    log = await AppendLog(tmp_path / "log")
    await append_all(log, [b"x" * (300 << 10)] * 3)
    iterator = aiter(log)
    assert len(await anext(iterator)) == 300 << 10
    await log.close()
    with pytest.raises(LogError, match="closed"):
        await anext(iterator)


async def test_the_size_of_a_commit_is_bounded(
    tmp_path: Path, use_backend: UseBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.files._log.append_log._COMMIT_BYTES", 1000)
    backend = FaultyBackend()
    use_backend(backend)
    async with AppendLog(tmp_path / "log") as log:
        backend.calls.clear()
        await append_all(log, [b"x" * 400] * 10 + [b"x" * 5000])
        assert 6 <= backend.calls.count("fdatasync") <= 11
        assert log.count == 11


async def test_a_forked_child_may_not_append(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with AppendLog(tmp_path / "log") as log:
        monkeypatch.setattr("os.getpid", lambda: 0)
        with pytest.raises(LogError, match="before a fork"):
            await log.append(b"x")
        monkeypatch.undo()


async def test_a_log_that_is_not_closed_warns_and_closes_its_file(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log = await AppendLog(path)
    await log.append(b"x")
    await anyio.lowlevel.checkpoint()
    with pytest.warns(ResourceWarning, match="unclosed"):
        del log
        gc.collect()
    async with AppendLog(path) as log:
        assert log.count == 1


def test_errors_can_be_pickled() -> None:
    error = pickle.loads(pickle.dumps(LogFailed("log", "why")))
    assert (str(error), error.path) == ("log: why", "log")
