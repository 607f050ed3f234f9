"""Copying: every byte, or no target at all."""

from __future__ import annotations

import errno
import os
import random
import stat
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.uring import UringError, copy, write_many

DATA = random.Random(3).randbytes(300_007)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source"
    path.write_bytes(DATA)
    return path


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    size=st.integers(0, 70_000),
    block_size=st.sampled_from([1, 511, 4096, 10_000, 1 << 20]),
    queue_depth=st.integers(1, 40),
    mode=st.sampled_from(["auto", "safe", "fast"]),
)
def test_a_copy_equals_its_source(
    tmp_path: Path, size: int, block_size: int, queue_depth: int, mode: Any
) -> None:
    block_size = max(block_size, size // 300)  # at most some hundred operations
    (tmp_path / "from").write_bytes(DATA[:size])
    assert (
        copy(
            tmp_path / "from",
            tmp_path / "to",
            block_size=block_size,
            queue_depth=queue_depth,
            mode=mode,
        )
        == size
    )
    assert (tmp_path / "to").read_bytes() == DATA[:size]
    assert names(tmp_path) == {"from", "to"}


@pytest.mark.parametrize("policy", ["default", "none", "end"])
@pytest.mark.parametrize("fsync", [False, True])
def test_a_copy_may_be_made_durable(source: Path, policy: Any, fsync: bool) -> None:
    target = source.parent / "target"
    assert copy(str(source), os.fsencode(target), fsync=fsync, sync_policy=policy) == len(DATA)
    assert target.read_bytes() == DATA


def test_blocks_may_be_chosen_one_by_one(source: Path) -> None:
    asked = []

    def choose(offset: int, total: int, default: int) -> int:
        asked.append((offset, total, default))
        return 100_000 if offset < 150_000 else 7_777

    target = source.parent / "target"
    copy(source, target, block_size=50_000, buffer_size_cb=choose)
    assert target.read_bytes() == DATA
    assert asked[:3] == [
        (0, len(DATA), 50_000),
        (100_000, len(DATA), 50_000),
        (200_000, len(DATA), 50_000),
    ]
    with pytest.raises(ValueError, match="buffer_size_cb returned 0"):
        copy(source, target, buffer_size_cb=lambda *_: 0)
    assert target.read_bytes() == DATA


def test_progress_is_reported_and_may_cancel(source: Path) -> None:
    target = source.parent / "target"
    target.write_bytes(b"as it was")
    reported = []

    def progress(done: int, total: int) -> bool:
        reported.append((done, total))
        return done > 100_000

    with pytest.raises(UringError) as caught:
        copy(source, target, queue_depth=2, block_size=10_000, progress=progress)
    assert caught.value.errno == errno.ECANCELED
    assert target.read_bytes() == b"as it was"
    assert names(source.parent) == {"source", "target"}
    assert [total for _, total in reported] == [len(DATA)] * len(reported)
    reported.clear()
    copy(source, target, progress=lambda done, total: reported.append((done, total)))
    assert reported[-1] == (len(DATA), len(DATA))


def test_a_callbacks_exception_ends_the_copy(source: Path) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("from the callback")

    with pytest.raises(RuntimeError, match="from the callback"):
        copy(source, source.parent / "target", progress=fail)
    assert names(source.parent) == {"source"}


def test_a_missing_source_is_named(tmp_path: Path) -> None:
    with pytest.raises(UringError) as caught:
        copy(tmp_path / "nowhere", tmp_path / "target")
    assert isinstance(caught.value, FileNotFoundError)
    assert caught.value.filename == str(tmp_path / "nowhere")
    with pytest.raises(UringError) as caught:
        copy(tmp_path, tmp_path / "target")
    assert isinstance(caught.value, IsADirectoryError)
    assert caught.value.filename == str(tmp_path)
    assert names(tmp_path) == set()


@pytest.mark.parametrize(
    ("target", "kind"),
    [
        ("no folder/target", FileNotFoundError),
        ("", IsADirectoryError),
        ("source/target", NotADirectoryError),
        ("n" * 300, OSError),
        ("loop/target", OSError),
    ],
)
def test_an_error_names_an_impossible_target(
    source: Path, target: str, kind: type[Exception]
) -> None:
    (source.parent / "loop").symlink_to("loop")
    path = os.path.join(source.parent, target)
    with pytest.raises(UringError) as caught:
        copy(source, path)
    assert isinstance(caught.value, kind)
    assert caught.value.filename == path
    with pytest.raises(UringError) as caught:
        write_many([(path, b"data")])
    assert isinstance(caught.value, kind)
    assert caught.value.filename == path
    assert names(source.parent) == {"source", "loop"}


def test_a_target_that_cannot_be_replaced_is_refused(source: Path) -> None:
    with pytest.raises(ValueError, match="not a regular file"):
        copy(source, "/dev/null")
    with pytest.raises(ValueError, match="the source itself"):
        copy(source, source)
    assert source.read_bytes() == DATA


@pytest.mark.parametrize("character", ["n", "é", "漢", "\N{MUSICAL SYMBOL G CLEF}", "\udcff"])
def test_a_target_may_have_the_longest_name(source: Path, character: str) -> None:
    width = len(os.fsencode(character))
    path = source.parent / (character * (255 // width))
    copy(source, path)
    assert path.read_bytes() == DATA
    write_many([(path, b"data")])
    assert path.read_bytes() == b"data"
    assert len(names(source.parent)) == 2


def test_a_replaced_file_keeps_its_permissions_and_a_link_stays(source: Path) -> None:
    target = source.parent / "target"
    target.touch()
    target.chmod(0o604)
    link = source.parent / "link"
    link.symlink_to("target")
    copy(source, link)
    assert link.is_symlink()
    assert target.read_bytes() == DATA
    assert stat.S_IMODE(target.stat().st_mode) == 0o604


def test_a_file_of_unknown_size_is_read_to_its_end(tmp_path: Path) -> None:
    assert copy("/proc/self/status", tmp_path / "status") > 100
    assert (tmp_path / "status").read_bytes().startswith(b"Name:")


def test_a_pipe_is_read_to_its_end(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    writer = threading.Thread(target=fifo.write_bytes, args=(DATA,))
    writer.start()
    assert copy(fifo, tmp_path / "target", block_size=1000) == len(DATA)
    writer.join()
    assert (tmp_path / "target").read_bytes() == DATA


@pytest.mark.parametrize(
    "options",
    [
        {"queue_depth": 0},
        {"queue_depth": 1 << 20},
        {"block_size": 0},
        {"block_size": 1 << 40},
        {"mode": "quick"},
        {"sync_policy": "data"},
    ],
    ids=str,
)
def test_a_bad_argument_is_named(source: Path, options: Any) -> None:
    with pytest.raises(ValueError, match="must be"):
        copy(source, source.parent / "target", **options)
    assert names(source.parent) == {"source"}


def test_a_full_disk_leaves_no_file(source: Path) -> None:
    import resource
    import signal

    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
    try:
        with pytest.raises(OSError) as caught:
            copy(source, source.parent / "target", block_size=10_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)
    assert caught.value.errno == errno.EFBIG
    assert names(source.parent) == {"source"}


def test_the_target_may_have_a_name_of_255_bytes(source: Path) -> None:
    target = source.with_name("流" * 85)
    copy(source, target, fsync=True)
    assert target.read_bytes() == source.read_bytes()
    assert names(source.parent) == {source.name, target.name}


def test_a_callbacks_oserror_is_raised_unchanged(source: Path) -> None:
    failure = OSError("the screen is gone")

    def progress(done: int, total: int) -> bool:
        raise failure

    with pytest.raises(OSError) as caught:
        copy(source, source.with_name("target"), progress=progress)
    assert caught.value is failure
    assert names(source.parent) == {source.name}
