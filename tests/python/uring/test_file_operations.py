"""Operations on files and their names, each compared with os."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from penstock.uring import PipeBuffer, StatxBuffer, UringCtx, UringError, constants, probe
from tests.python.uring.conftest import results


def one(ctx: UringCtx) -> Any:
    [(_, result, flags)] = ctx.wait_completions()
    assert flags == 0
    return result


def test_open_read_and_close(any_ctx: UringCtx, tmp_path: Path) -> None:
    any_ctx.prep_openat(tmp_path / "new", os.O_RDWR | os.O_CREAT, 0o640)
    fd = one(any_ctx)
    assert stat.S_IMODE(os.fstat(fd).st_mode) == 0o640
    assert not os.get_inheritable(fd)
    any_ctx.prep_close(fd)
    assert one(any_ctx) == 0
    with pytest.raises(OSError):
        os.fstat(fd)


@pytest.mark.parametrize("kind", [str, os.fsencode, Path])
def test_paths_may_have_every_type(ctx: UringCtx, tmp_path: Path, kind: Any) -> None:
    path = tmp_path / "päth"
    path.touch()
    ctx.prep_openat(kind(str(path)))
    os.close(one(ctx))


def test_a_path_with_a_null_byte_is_refused(ctx: UringCtx) -> None:
    with pytest.raises(ValueError, match="null byte"):
        ctx.prep_openat("a\0b")


def test_failures_are_negative_errnos(ctx: UringCtx, tmp_path: Path) -> None:
    ctx.prep_openat(tmp_path / "missing")
    assert one(ctx) == -errno.ENOENT
    ctx.prep_mkdir(tmp_path)
    assert one(ctx) == -errno.EEXIST


def test_paths_are_relative_to_dir_fd(ctx: UringCtx, tmp_path: Path) -> None:
    folder = os.open(tmp_path, os.O_RDONLY)
    try:
        ctx.prep_mkdir("made", 0o700, dir_fd=folder)
        assert one(ctx) == 0
        ctx.prep_openat("made/file", os.O_CREAT | os.O_WRONLY, dir_fd=folder)
        os.close(one(ctx))
        ctx.prep_rename("made/file", "moved", source_dir_fd=folder, target_dir_fd=folder)
        assert one(ctx) == 0
        ctx.prep_link("moved", "made/again", source_dir_fd=folder, target_dir_fd=folder)
        assert one(ctx) == 0
        ctx.prep_symlink("moved", "link", dir_fd=folder)
        assert one(ctx) == 0
        assert os.readlink(tmp_path / "link") == "moved"
        assert os.stat(tmp_path / "made/again").st_nlink == 2
        for name in ("moved", "made/again", "link"):
            ctx.prep_unlink(name, dir_fd=folder)
            assert one(ctx) == 0
        ctx.prep_unlink("made", dir_fd=folder, remove_dir=True)
        assert one(ctx) == 0
        assert os.listdir(tmp_path) == []
    finally:
        os.close(folder)


def test_rename_can_refuse_to_replace(ctx: UringCtx, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_text(name)
    no_replace = 1  # RENAME_NOREPLACE of renameat2(2)
    ctx.prep_rename(tmp_path / "a", tmp_path / "b", flags=no_replace)
    assert one(ctx) == -errno.EEXIST
    ctx.prep_rename(tmp_path / "a", tmp_path / "b")
    assert one(ctx) == 0
    assert (tmp_path / "b").read_text() == "a"


def test_statx_equals_stat(ctx: UringCtx, tmp_path: Path, letters: int) -> None:
    found = StatxBuffer()
    ctx.prep_statx(tmp_path / "letters", found)
    assert one(ctx) == 0
    expected = os.fstat(letters)
    seen = found.result()
    assert seen.is_regular()
    for ours, theirs in {
        "size": "st_size",
        "mode": "st_mode",
        "ino": "st_ino",
        "nlink": "st_nlink",
        "uid": "st_uid",
        "gid": "st_gid",
        "mtime_ns": "st_mtime_ns",
        "ctime_ns": "st_ctime_ns",
        "atime_ns": "st_atime_ns",
        "blocks": "st_blocks",
        "blksize": "st_blksize",
        "dev": "st_dev",
    }.items():
        assert getattr(seen, ours) == getattr(expected, theirs), ours
    ctx.prep_statx(letters, other := StatxBuffer())
    assert one(ctx) == 0
    assert other.result() == seen
    (tmp_path / "link").symlink_to("letters")
    ctx.prep_statx(tmp_path / "link", other, follow_symlinks=False)
    assert one(ctx) == 0
    assert stat.S_ISLNK(other.result().mode)


def test_fallocate_and_ftruncate_change_the_size(ctx: UringCtx, letters: int) -> None:
    ctx.prep_fallocate(letters, 0, 10_000)
    assert one(ctx) == 0
    assert os.fstat(letters).st_size == 10_000
    if not probe().supports("ftruncate"):
        pytest.skip("the kernel has no ftruncate operation")
    ctx.prep_ftruncate(letters, 150)
    assert one(ctx) == 0
    assert os.fstat(letters).st_size == 150


def test_syncing_and_advising_succeed(ctx: UringCtx, letters: int) -> None:
    ctx.prep_fsync(letters, user_data="fsync")
    ctx.prep_fsync(letters, datasync=True, user_data="fdatasync")
    ctx.prep_sync_file_range(letters, 0, 100, 2, user_data="range")
    ctx.prep_fadvise(letters, 0, 100, os.POSIX_FADV_WILLNEED, user_data="advice")
    assert set(results(ctx.wait_completions(4)).values()) == {0}


def test_splice_and_tee_move_data_through_pipes(
    ctx: UringCtx, letters: int, pipe: tuple[int, int]
) -> None:
    ctx.prep_splice(letters, pipe[1], 10, source_offset=95)
    assert one(ctx) == 10
    other_reader, other_writer = os.pipe()
    try:
        ctx.prep_tee(pipe[0], other_writer, 10)
        assert one(ctx) == 10
        assert os.read(other_reader, 99) == b"aaaaabbbbb"
        assert os.read(pipe[0], 99) == b"aaaaabbbbb"
    finally:
        os.close(other_reader)
        os.close(other_writer)


def test_files_are_opened_into_registered_places(ctx: UringCtx, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"content")
    ctx.register_files_sparse(4)
    ctx.prep_openat(tmp_path / "file", direct=2)
    assert one(ctx) == 0
    ctx.prep_read(2, 7, 0, fixed_file=True)
    assert one(ctx) == b"content"
    ctx.prep_openat(tmp_path / "file", direct="auto")
    place = one(ctx)
    assert place in (0, 1, 3)
    if probe().supports("fixed_fd_install"):
        ctx.prep_fixed_fd_install(place)
        fd = one(ctx)
        assert os.read(fd, 7) == b"content"
        os.close(fd)
    ctx.prep_close(2, fixed_file=True)
    assert one(ctx) == 0
    ctx.prep_read(2, 7, 0, fixed_file=True)
    assert one(ctx) == -errno.EBADF
    for wrong in (-1, "some", 1.5):
        with pytest.raises(ValueError, match="direct is"):
            ctx.prep_openat(tmp_path / "file", direct=wrong)  # type: ignore[arg-type]


def test_open_read_close_in_one_chain(ctx: UringCtx, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"short")
    ctx.register_files_sparse(1)
    ctx.prep_openat(tmp_path / "file", direct=0, link=True, skip_success=True)
    ctx.prep_read(0, 100, 0, "data", fixed_file=True, hardlink=True)
    ctx.prep_close(0, fixed_file=True, skip_success=True)
    ctx.submit()
    assert ctx.wait_completions(3) == [("data", b"short", 0)]
    assert ctx.in_flight == 0


def test_skip_success_is_refused_for_an_opening(ctx: UringCtx, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="would lose the descriptor"):
        ctx.prep_openat(tmp_path, skip_success=True)


def test_descriptors_of_untaken_completions_are_closed_with_the_ring(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    before = set(os.listdir("/proc/self/fd"))
    ctx = UringCtx(8)
    for _ in range(4):
        ctx.prep_openat(tmp_path / "file")
    ctx.submit_and_wait(4)
    assert len(set(os.listdir("/proc/self/fd")) - before) >= 5
    ctx.close()
    assert set(os.listdir("/proc/self/fd")) == before


def test_a_path_can_be_confined_to_a_folder(any_ctx: UringCtx, tmp_path: Path) -> None:
    (tmp_path / "inside").write_bytes(b"inside")
    (tmp_path / "out").symlink_to("/etc/passwd")
    folder = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    options: dict[str, Any] = {"dir_fd": folder, "resolve": constants.RESOLVE_BENEATH}
    fd = any_ctx.run(any_ctx.prep_openat2, "inside", **options)
    assert os.read(fd, 10) == b"inside"
    assert not os.get_inheritable(fd)
    os.close(fd)
    for name in ("out", "../inside"):
        with pytest.raises(UringError) as caught:
            any_ctx.run(any_ctx.prep_openat2, name, **options)
        assert caught.value.errno == errno.EXDEV
    fd = any_ctx.run(any_ctx.prep_openat2, "new", os.O_WRONLY | os.O_CREAT, 0o600, **options)
    assert os.fstat(fd).st_mode & 0o777 == 0o600
    os.close(fd)
    os.close(folder)


def test_a_pipe_is_made(any_ctx: UringCtx) -> None:
    ends = PipeBuffer()
    assert any_ctx.run(any_ctx.prep_pipe, ends) == 0
    reader, writer = ends.result()
    os.write(writer, b"through")
    assert os.read(reader, 10) == b"through"
    assert not os.get_inheritable(reader)
    os.close(reader)
    os.close(writer)
