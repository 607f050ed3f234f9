"""Writes of whole files: replaced in one step, or left unchanged."""

from __future__ import annotations

import array
import asyncio
import errno
import os
from pathlib import Path

import anyio
import pytest

from penstock._durable_files import find_target
from penstock.files import write_file
from penstock.files._backend import current_backend
from penstock.files._whole_files.replacement import _Creation
from tests.python.files.conftest import UseBackend
from tests.python.files.faulty_backend import FaultyBackend, system_error

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("no_descriptor_left")]

OLD, NEW = b"old" * 1000, b"new!" * 1000


@pytest.mark.parametrize("atomic", [False, True])
async def test_a_file_is_made_and_replaced(tmp_path: Path, atomic: bool) -> None:
    path = tmp_path / "file"
    await write_file(path, OLD, atomic=atomic)
    assert path.read_bytes() == OLD
    for data in (b"", b"short", bytearray(NEW), memoryview(NEW)[::4], array.array("d", [1.5, -2])):
        await write_file(os.fsencode(path), data, atomic=atomic)
        assert path.read_bytes() == bytes(data)
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize("atomic", [False, True])
async def test_data_longer_than_a_piece_are_written_whole(
    tmp_path: Path, atomic: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.files._whole_files.writing._PIECE", 1000)
    data = os.urandom(123_456)
    await write_file(tmp_path / "file", data, atomic=atomic)
    assert (tmp_path / "file").read_bytes() == data


async def test_an_atomic_write_takes_the_documented_steps_in_their_order(
    tmp_path: Path, use_backend: UseBackend
) -> None:
    backend = FaultyBackend()
    use_backend(backend)
    await write_file(tmp_path / "file", NEW, atomic=True)
    assert backend.calls == [
        *("call", "call"),  # stat the target, create the temporary file
        *("write", "fsync", "close", "replace"),
        "call",  # sync the folder
    ]


async def test_the_permissions_of_a_replaced_file_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(OLD)
    for mode in (0o600, 0o640, 0o444, 0o4755):
        path.chmod(mode)
        await write_file(path, NEW, atomic=True)
        assert path.stat().st_mode & 0o7777 == mode & 0o777


@pytest.mark.parametrize("atomic", [False, True])
async def test_a_new_file_gets_the_mode_less_the_umask(tmp_path: Path, atomic: bool) -> None:
    umask = os.umask(0o027)
    try:
        await write_file(tmp_path / "usual", NEW, atomic=atomic)
        await write_file(tmp_path / "secret", NEW, atomic=atomic, mode=0o600)
    finally:
        os.umask(umask)
    assert (tmp_path / "usual").stat().st_mode & 0o777 == 0o640
    assert (tmp_path / "secret").stat().st_mode & 0o777 == 0o600


async def test_a_replacement_is_never_more_readable_than_the_old_file(
    tmp_path: Path, use_backend: UseBackend
) -> None:
    path = tmp_path / "file"
    path.write_bytes(OLD)
    path.chmod(0o600)
    modes: set[int] = set()

    def look(number: int, name: str) -> None:
        modes.update(each.stat().st_mode & 0o777 for each in tmp_path.iterdir())

    use_backend(FaultyBackend(afterwards=look))
    await write_file(path, NEW, atomic=True)
    assert modes == {0o600}


async def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    target, link = tmp_path / "folder" / "target", tmp_path / "link"
    target.write_bytes(OLD)
    link.symlink_to("folder/target")
    await write_file(link, NEW, atomic=True)
    assert link.is_symlink()
    assert target.read_bytes() == NEW
    assert os.listdir(tmp_path / "folder") == ["target"]


async def test_a_relative_path_and_a_name_of_the_greatest_length_are_valid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("file", "ü" * 127 + "x", "x" * 255):
        await write_file(name, NEW, atomic=True)
        assert Path(name).read_bytes() == NEW
    assert len(os.listdir()) == 3


@pytest.mark.parametrize("atomic", [False, True])
async def test_errors_name_the_file(tmp_path: Path, atomic: bool) -> None:
    with pytest.raises(FileNotFoundError) as missing:
        await write_file(tmp_path / "no" / "file", NEW, atomic=atomic)
    assert missing.value.filename == str(tmp_path / "no" / "file")
    with pytest.raises(FileNotFoundError) as nameless:
        await write_file("", NEW, atomic=atomic)
    assert nameless.value.filename == ""
    with pytest.raises(IsADirectoryError) as folder:
        await write_file(tmp_path, NEW, atomic=atomic)
    assert folder.value.filename == str(tmp_path)
    with pytest.raises(TypeError, match="encode it"):
        await write_file(tmp_path / "file", "text", atomic=atomic)  # type: ignore[arg-type]
    assert os.listdir(tmp_path) == []


async def test_only_a_regular_file_can_be_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(OSError, match="not a regular file") as caught:
        await write_file(tmp_path / "fifo", NEW, atomic=True)
    assert caught.value.filename == str(tmp_path / "fifo")
    assert os.listdir(tmp_path) == ["fifo"]


async def calls_of(path: Path, use_backend: UseBackend) -> list[str]:
    """Return the backend's calls of an undisturbed atomic write."""
    backend = FaultyBackend()
    use_backend(backend)
    await write_file(path, NEW, atomic=True)
    return backend.calls


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("existing", [False, True])
async def test_a_failure_of_any_step_leaves_the_old_file_and_no_other(
    tmp_path: Path, use_backend: UseBackend, existing: bool, number: int
) -> None:
    path = tmp_path / "file"
    if existing:
        path.write_bytes(OLD)
    calls = await calls_of(path, use_backend)
    renamed = calls.index("replace")
    for failing_call, name in enumerate(calls):
        path.unlink()
        if existing:
            path.write_bytes(OLD)
        done = failing_call > renamed

        def fault(at: int, _: str, failing_call: int = failing_call) -> None:
            if at == failing_call:
                raise system_error(number)

        # A failed close has closed the descriptor nevertheless.
        use_backend(
            FaultyBackend(afterwards=fault) if name == "close" else FaultyBackend(fault=fault)
        )
        with pytest.raises(OSError) as caught:
            await write_file(path, NEW, atomic=True)
        assert caught.value.errno == number, name
        if done:
            assert path.read_bytes() == NEW
        elif existing:
            assert path.read_bytes() == OLD
        assert os.listdir(tmp_path) == (["file"] if done or existing else []), name
        if not path.exists():
            path.touch()


async def test_an_ended_run_leaves_no_temporary_file(tmp_path: Path) -> None:
    """The run of the loop ends during the creation of the file, and cancels all tasks."""
    target = find_target(str(tmp_path / "file"))

    created_before = _Creation(target, 0o600)
    fd, temporary = created_before.run()
    os.fstat(fd)
    assert os.listdir(tmp_path) == [os.path.basename(temporary)]
    created_before.give_up()
    assert os.listdir(tmp_path) == []

    created_after = _Creation(target, 0o600)
    created_after.give_up()
    created_after.run()
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_created_file_with_a_lost_result_is_removed(
    tmp_path: Path, use_backend: UseBackend
) -> None:
    def lost(number: int, _: str) -> None:
        if number == 1:
            raise asyncio.CancelledError

    use_backend(FaultyBackend(afterwards=lost))
    with pytest.raises(asyncio.CancelledError):
        await write_file(tmp_path / "file", NEW, atomic=True)
    assert os.listdir(tmp_path) == []


async def test_a_partly_written_file_never_appears(tmp_path: Path, use_backend: UseBackend) -> None:
    path = tmp_path / "file"
    path.write_bytes(OLD)

    class FullDisk(FaultyBackend):
        async def write(self, fd: int, data: memoryview, offset: int) -> None:
            await current_backend().write(fd, data[: len(data) // 2], offset)
            raise system_error(errno.ENOSPC)

    use_backend(FullDisk())
    with pytest.raises(OSError, match="No space left") as caught:
        await write_file(path, NEW, atomic=True)
    assert caught.value.filename == str(path)
    assert path.read_bytes() == OLD
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize("moment", ["fault", "afterwards"])
async def test_a_cancellation_at_any_step_leaves_the_old_file_or_the_new_one(
    tmp_path: Path, use_backend: UseBackend, moment: str
) -> None:
    path = tmp_path / "file"
    path.write_bytes(OLD)
    calls = await calls_of(path, use_backend)
    outcomes = []
    for cancelling_call in range(len(calls)):
        path.write_bytes(OLD)
        with anyio.CancelScope() as scope:

            async def cancel(at: int, _: str, at_which: int = cancelling_call) -> None:
                if at == at_which:
                    scope.cancel()  # called within this turn of the loop
                    # Wait until the cancellation has reached the caller's await.
                    for _turn in range(5):
                        await anyio.lowlevel.checkpoint()

            use_backend(FaultyBackend(**{moment: cancel}))
            await write_file(path, NEW, atomic=True)
        assert scope.cancelled_caught, calls[cancelling_call]
        outcomes.append(path.read_bytes())
        assert os.listdir(tmp_path) == ["file"]
    renamed = calls.index("replace") + (moment == "afterwards")
    assert set(outcomes) <= {OLD, NEW}
    assert OLD in outcomes and outcomes[-1] == NEW
    assert outcomes == sorted(outcomes, key=(OLD, NEW).index)
    assert outcomes.index(NEW) <= renamed


async def test_a_cancelled_plain_write_leaves_no_descriptor(
    tmp_path: Path, use_backend: UseBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.files._whole_files.writing._PIECE", 1000)
    with anyio.CancelScope() as scope:

        async def cancel(number: int, name: str) -> None:
            if number == 3:
                scope.cancel()
            # The caller sees the cancellation only when the loop runs: immediate writes never wait.
            await anyio.lowlevel.checkpoint()

        backend = FaultyBackend(fault=cancel)
        use_backend(backend)
        await write_file(tmp_path / "file", b"x" * 100_000)
    assert scope.cancelled_caught
    assert backend.calls[-1] == "close"
    assert (tmp_path / "file").stat().st_size < 100_000
