"""Copies: like shutil's, but complete or without any effect."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.files import copy
from penstock.files._whole_files import copying
from tests.python.files.conftest import UseBackend
from tests.python.files.faulty_backend import FaultyBackend, failing, system_error

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("no_descriptor_left")]


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copying, "_PIECE", 5000)
    monkeypatch.setattr(copying, "_BUFFER", 3000)


def write_sparse(path: Path, size: int, data: dict[int, bytes]) -> None:
    with open(path, "wb") as file:
        for offset, content in data.items():
            file.seek(offset)
            file.write(content)
        file.truncate(size)


@pytest.mark.parametrize("size", [0, 1, 4095, 4096, 1 << 20, (20 << 20) + 7])
async def test_a_copy_has_the_content_and_the_permissions(tmp_path: Path, size: int) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(os.urandom(size))
    source.chmod(0o640)
    assert await copy(source, os.fsencode(target)) == size
    assert target.read_bytes() == source.read_bytes()
    assert target.stat().st_mode & 0o7777 == 0o640
    assert sorted(os.listdir(tmp_path)) == ["source", "target"]


EXTENTS = st.dictionaries(
    st.integers(0, 40).map(lambda page: page * 4096), st.binary(max_size=9000)
)


@pytest.mark.parametrize("loop", ["asyncio", "penstock", "trio"])
@pytest.mark.parametrize("by_kernel", [True, False])
def test_a_copy_equals_the_copy_of_shutil(
    loop: str,
    by_kernel: bool,
    run_on: Callable[..., Any],
    use_backend: UseBackend,
    monkeypatch: pytest.MonkeyPatch,
    small_pieces: None,
) -> None:
    if not by_kernel:
        use_backend(FaultyBackend(fault=failing("copy_range", number=errno.EXDEV)))

    @settings(
        max_examples=40,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    )
    @given(EXTENTS, st.integers(0, 200_000), st.sampled_from([0o600, 0o644, 0o400, 0o755]))
    def run(extents: dict[int, bytes], size: int, mode: int) -> None:
        with tempfile.TemporaryDirectory() as folder:
            source, ours, theirs = (Path(folder, name) for name in ("source", "ours", "theirs"))
            write_sparse(source, size, dict(sorted(extents.items())))
            source.chmod(mode)
            shutil.copy(source, theirs)
            assert run_on(loop, copy, source, ours) == size
            assert ours.read_bytes() == theirs.read_bytes()
            assert ours.stat().st_mode == theirs.stat().st_mode

    run()


@pytest.mark.parametrize("by_kernel", [True, False])
async def test_a_copy_keeps_holes(
    tmp_path: Path, use_backend: UseBackend, small_pieces: None, by_kernel: bool
) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    write_sparse(source, 64 << 20, {0: b"begin" * 2000, 32 << 20: b"middle" * 1000})
    if source.stat().st_blocks * 512 > 1 << 20:
        pytest.skip("this file system keeps no holes")
    if not by_kernel:
        use_backend(FaultyBackend(fault=failing("copy_range", number=errno.ENOSYS)))
    assert await copy(source, target) == 64 << 20
    assert target.stat().st_blocks * 512 < 1 << 20
    assert target.stat().st_size == 64 << 20
    with open(source, "rb") as a, open(target, "rb") as b:
        while piece := a.read(1 << 20):
            assert b.read(1 << 20) == piece


async def test_a_copy_of_an_empty_disk_image_is_one_hole(tmp_path: Path) -> None:
    write_sparse(tmp_path / "source", 1 << 30, {})
    assert await copy(tmp_path / "source", tmp_path / "target") == 1 << 30
    assert (tmp_path / "target").stat().st_size == 1 << 30
    assert (tmp_path / "target").stat().st_blocks * 512 < 1 << 20


async def test_a_clone_is_tried_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the file system shares blocks, no data are copied."""
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(b"shared" * 1000)
    asked = []

    def ioctl(fd: int, request: int, argument: int) -> int:
        assert request == copying.FICLONE
        os.pwrite(fd, os.pread(argument, 1 << 20, 0), 0)
        asked.append(argument)
        return 0

    monkeypatch.setattr(fcntl, "ioctl", ioctl)
    done: list[tuple[int, int]] = []
    assert await copy(source, target, progress=lambda *seen: done.append(seen)) == 6000
    assert len(asked) == 1
    assert done == [(6000, 6000)]
    assert target.read_bytes() == source.read_bytes()


async def test_a_clone_that_fails_for_another_reason_fails_the_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "source").write_bytes(b"x")

    def ioctl(fd: int, request: int, argument: int) -> int:
        raise system_error(errno.ENOSPC)

    monkeypatch.setattr(fcntl, "ioctl", ioctl)
    with pytest.raises(OSError, match="No space left") as caught:
        await copy(tmp_path / "source", tmp_path / "target")
    assert caught.value.filename == str(tmp_path / "target")
    assert os.listdir(tmp_path) == ["source"]


async def test_files_of_the_proc_file_system_are_copied(tmp_path: Path) -> None:
    """Their reported size is 0, so copy_file_range copies nothing."""
    size = await copy("/proc/self/status", tmp_path / "status")
    text = (tmp_path / "status").read_text()
    assert len(text) == size
    assert f"Pid:\t{os.getpid()}\n" in text


async def test_progress_is_reported_up_to_the_end(tmp_path: Path, small_pieces: None) -> None:
    source = tmp_path / "source"
    source.write_bytes(bytes(12_000))
    seen: list[tuple[int, int]] = []
    await copy(source, tmp_path / "target", progress=lambda done, total: seen.append((done, total)))
    assert seen == [(5000, 12_000), (10_000, 12_000), (12_000, 12_000)]


async def test_an_error_of_the_progress_function_ends_the_copy(
    tmp_path: Path, small_pieces: None
) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(bytes(12_000))
    target.write_bytes(b"old")

    def progress(done: int, total: int) -> None:
        raise KeyError("enough")

    with pytest.raises(KeyError, match="enough"):
        await copy(source, target, progress=progress)
    assert target.read_bytes() == b"old"
    assert sorted(os.listdir(tmp_path)) == ["source", "target"]


async def test_without_sync_a_copy_does_not_wait_for_the_disk(
    tmp_path: Path, use_backend: UseBackend
) -> None:
    backend = FaultyBackend()
    use_backend(backend)
    (tmp_path / "source").write_bytes(b"x")
    await copy(tmp_path / "source", tmp_path / "target", sync=False)
    assert "fsync" not in backend.calls
    await copy(tmp_path / "source", tmp_path / "target")
    assert backend.calls.count("fsync") == 1
    assert backend.calls[-2:] == ["call", "close"]  # the folder's sync, the source
    assert backend.calls.index("fsync") < backend.calls.index(
        "replace", backend.calls.index("fsync")
    )


async def test_sources_that_cannot_be_copied_are_refused(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"x")
    with pytest.raises(FileNotFoundError) as missing:
        await copy(tmp_path / "none", tmp_path / "target")
    assert missing.value.filename == str(tmp_path / "none")
    with pytest.raises(FileNotFoundError) as missing:
        await copy(source, tmp_path / "no" / "target")
    assert missing.value.filename == str(tmp_path / "no" / "target")
    with pytest.raises(IsADirectoryError):
        await copy(source, tmp_path)
    with pytest.raises(IsADirectoryError) as folder:
        await copy(tmp_path, tmp_path / "target")
    assert folder.value.filename == str(tmp_path)
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(OSError, match="not a regular file"):
        await copy(tmp_path / "fifo", tmp_path / "target")
    (tmp_path / "link").symlink_to("source")
    with pytest.raises(shutil.SameFileError):
        await copy(source, tmp_path / "link")
    assert source.read_bytes() == b"x"
    assert sorted(os.listdir(tmp_path)) == ["fifo", "link", "source"]


async def test_an_error_of_the_source_names_the_source(
    tmp_path: Path, use_backend: UseBackend
) -> None:
    (tmp_path / "source").write_bytes(b"x")

    def fault(_: int, name: str) -> None:
        if name in ("copy_range", "read"):
            raise system_error(errno.EXDEV if name == "copy_range" else errno.EIO)

    use_backend(FaultyBackend(fault=fault))
    with pytest.raises(OSError, match="Input/output error") as caught:
        await copy(tmp_path / "source", tmp_path / "target")
    assert caught.value.filename == str(tmp_path / "source")
    assert os.listdir(tmp_path) == ["source"]


@pytest.mark.parametrize("sparse", [False, True])
async def test_a_source_truncated_during_the_copy_gives_a_shorter_copy(
    tmp_path: Path, use_backend: UseBackend, small_pieces: None, sparse: bool
) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(b"x" * 12_000)
    if sparse:
        os.truncate(source, 1 << 20)

    def cut(_: int, name: str) -> None:
        if name == "copy_range":
            os.truncate(source, 7000)

    use_backend(FaultyBackend(afterwards=cut))
    assert await copy(source, target) == 7000
    assert target.read_bytes() == b"x" * 7000


async def test_a_failure_of_any_step_leaves_the_old_target_and_no_other_file(
    tmp_path: Path, use_backend: UseBackend, small_pieces: None
) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(b"new" * 4000)
    backend = FaultyBackend()
    use_backend(backend)
    await copy(source, target)
    for failing_call, name in enumerate(backend.calls):
        target.write_bytes(b"old")

        def fault(at: int, _: str, failing_call: int = failing_call) -> None:
            if at == failing_call:
                raise system_error(errno.EIO)

        use_backend(
            FaultyBackend(afterwards=fault) if name == "close" else FaultyBackend(fault=fault)
        )
        with pytest.raises(OSError) as caught:
            await copy(source, target)
        assert caught.value.errno == errno.EIO
        replaced = failing_call > backend.calls.index("replace")
        assert target.read_bytes() == (source.read_bytes() if replaced else b"old")
        assert sorted(os.listdir(tmp_path)) == ["source", "target"]


async def test_a_cancellation_at_any_step_leaves_the_old_target_or_the_whole_copy(
    tmp_path: Path, use_backend: UseBackend, small_pieces: None
) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(b"new" * 4000)
    backend = FaultyBackend()
    use_backend(backend)
    await copy(source, target)
    for cancelling_call in range(len(backend.calls)):
        target.write_bytes(b"old")
        with anyio.CancelScope() as scope:

            async def cancel(at: int, _: str, at_which: int = cancelling_call) -> None:
                if at == at_which:
                    scope.cancel()  # called within this turn of the loop
                    for _turn in range(5):
                        await anyio.lowlevel.checkpoint()

            use_backend(FaultyBackend(fault=cancel))
            await copy(source, target)
        assert scope.cancelled_caught
        assert target.read_bytes() in (b"old", source.read_bytes())
        assert sorted(os.listdir(tmp_path)) == ["source", "target"]
