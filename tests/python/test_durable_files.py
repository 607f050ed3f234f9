"""Files that get their name in one step: complete, without leftovers, under every valid name."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import _durable_files
from penstock._durable_files import (
    NotRegularFileError,
    create_temporary,
    find_leftovers,
    find_target,
    put_file,
    put_in_place,
    sync_folder,
    temporary_path,
    write_fully,
)

LONGEST = 255


def writer(data: bytes) -> Callable[[int], None]:
    return lambda descriptor: write_fully(descriptor, data)


def put(path: Path, data: bytes, *, overwrite: bool = True, mode: int = 0o666) -> None:
    os.close(put_file(path, writer(data), overwrite=overwrite, mode=mode))


@given(
    st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1).filter(
        lambda name: name not in (".", "..") and len(os.fsencode(name)) <= LONGEST
    )
)
def test_temporary_name_fits_and_is_text_if_the_name_is(name: str) -> None:
    folder, temporary = os.path.split(temporary_path(f"/folder/{name}"))
    assert folder == "/folder"
    assert len(os.fsencode(temporary)) <= LONGEST
    assert temporary.startswith(f".{name[:1]}")
    assert temporary.endswith(".tmp")
    os.fsencode(temporary).decode("utf-8")


@pytest.mark.parametrize("name", ["a", "x" * LONGEST, "流" * 85, "ü" * 127 + "x"])
def test_file_is_created_under_every_valid_name(tmp_path: Path, name: str) -> None:
    put(tmp_path / name, b"content")
    assert (tmp_path / name).read_bytes() == b"content"
    assert os.listdir(tmp_path) == [name]


def test_descriptor_refers_to_the_file_and_stays_writable(tmp_path: Path) -> None:
    descriptor = put_file(tmp_path / "file", writer(b"one"))
    os.write(descriptor, b" two")
    os.close(descriptor)
    assert (tmp_path / "file").read_bytes() == b"one two"


def test_replaced_file_keeps_its_permissions_and_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"old")
    (tmp_path / "file").chmod(0o4640)
    (tmp_path / "link").symlink_to("file")
    put(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_bytes() == b"new"
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o640


def test_dangling_link_points_to_the_new_file(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("file")
    put(tmp_path / "link", b"new")
    assert (tmp_path / "file").read_bytes() == b"new"


def test_relative_name_is_unaffected_by_a_change_of_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path)
    put_file_there = find_target("file")
    monkeypatch.chdir(tmp_path / "other")
    os.close(put_file(put_file_there, writer(b"here")))
    assert (tmp_path / "file").read_bytes() == b"here"


@pytest.mark.parametrize("hard_links", [True, False])
def test_existing_file_is_kept_without_overwrite(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hard_links: bool
) -> None:
    def no_link(source: str, target: str) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM), source)

    if not hard_links:
        monkeypatch.setattr(_durable_files.os, "link", no_link)
    put(tmp_path / "file", b"first", overwrite=False)
    with pytest.raises(FileExistsError) as caught:
        put(tmp_path / "file", b"second", overwrite=False)
    assert caught.value.filename == str(tmp_path / "file")

    def write_while_another_comes(descriptor: int) -> None:
        (tmp_path / "late").write_bytes(b"the other's")

    with pytest.raises(FileExistsError) as late:
        put_file(tmp_path / "late", write_while_another_comes, overwrite=False)
    assert late.value.filename == str(tmp_path / "late")
    assert (tmp_path / "file").read_bytes() == b"first"
    assert (tmp_path / "late").read_bytes() == b"the other's"
    assert sorted(os.listdir(tmp_path)) == ["file", "late"]


@pytest.mark.parametrize("step", ["fsync", "fchmod", "replace"])
def test_failed_step_leaves_the_old_file_unchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def fail(*arguments: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(_durable_files.os, step, fail)
    with pytest.raises(OSError) as caught:
        put(path, b"new")
    assert (caught.value.errno, caught.value.filename) == (errno.EIO, str(path))
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


def test_writers_exception_propagates_and_leaves_no_files(tmp_path: Path) -> None:
    class Stopped(BaseException):
        pass

    def fill(descriptor: int) -> None:
        os.write(descriptor, b"half")
        raise Stopped

    with pytest.raises(Stopped):
        put_file(tmp_path / "file", fill)
    assert os.listdir(tmp_path) == []


def test_only_regular_files_are_replaced_and_errors_name_the_path(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "loop").symlink_to("loop")
    for name, kind in (
        ("fifo", NotRegularFileError),
        ("", IsADirectoryError),
        ("no/file", FileNotFoundError),
        ("fifo/file", NotADirectoryError),
        ("loop", OSError),
    ):
        with pytest.raises(kind) as caught:
            put(tmp_path / name, b"")
        assert caught.value.filename == str(tmp_path / name)
    with pytest.raises(FileNotFoundError):
        find_target("")
    assert sorted(os.listdir(tmp_path)) == ["fifo", "loop"]


def test_leftovers_belong_to_the_file(tmp_path: Path) -> None:
    final = str(tmp_path / "run.journal")
    mine, other = find_target(final), find_target(str(tmp_path / "run.journal.2"))
    left = []
    for target in (mine, other, mine):
        descriptor, temporary = create_temporary(target)
        os.close(descriptor)
        left.append(temporary)
    (tmp_path / ".run.journal.notes.tmp").touch()
    assert sorted(find_leftovers(final)) == sorted([left[0], left[2]])
    put_in_place(left[0], mine)
    assert find_leftovers(final) == [left[2]]
    assert find_leftovers(str(tmp_path / ("x" * LONGEST))) == []


def test_folder_is_synced_by_the_name_of_a_file_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = []
    monkeypatch.setattr(_durable_files.os, "fsync", lambda fd: synced.append(os.fstat(fd).st_ino))
    monkeypatch.chdir(tmp_path)
    sync_folder(str(tmp_path / "file"))
    sync_folder("file")
    assert synced == [tmp_path.stat().st_ino] * 2
    with pytest.raises(FileNotFoundError) as caught:
        sync_folder(str(tmp_path / "no" / "file"))
    assert caught.value.filename == str(tmp_path / "no")
