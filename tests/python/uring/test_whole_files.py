"""read_many and write_many: whole files, in order, complete or not at all."""

from __future__ import annotations

import errno
import os
import random
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.uring import UringError, read_many, write_many
from penstock.uring._whole_files import many

WRITER = """
import sys
with open(sys.argv[1], "wb", buffering=0) as pipe:
    pipe.write(b"all of")
    pipe.write(b" it")
"""


@pytest.fixture(autouse=True, params=["cached", "ring"])
def _way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run each test with and without the page cache, because cached data bypass the ring."""
    if request.param == "ring":
        monkeypatch.setattr(many, "read_cached_file", lambda path: -errno.EAGAIN)


@pytest.fixture
def contents() -> dict[str, bytes]:
    source = random.Random(4)
    sizes = [
        0,
        1,
        4096,
        65_535,
        65_536,
        65_537,
        700_000,
        *(source.randrange(9000) for _ in range(60)),
    ]
    return {f"file {number}": source.randbytes(size) for number, size in enumerate(sizes)}


@pytest.mark.parametrize("queue_depth", [1, 7, 200])
def test_written_files_are_read_back(
    tmp_path: Path, contents: dict[str, bytes], queue_depth: int
) -> None:
    files = {tmp_path / name: data for name, data in contents.items()}
    assert write_many(files, queue_depth=queue_depth) == sum(map(len, contents.values()))
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == contents
    assert read_many(files, queue_depth=queue_depth) == list(contents.values())


def test_pairs_buffers_and_all_path_types_are_accepted(tmp_path: Path) -> None:
    pairs = [
        (str(tmp_path / "a"), bytearray(b"array")),
        (os.fsencode(tmp_path / "b"), memoryview(b"memory")),
        (tmp_path / "c", b""),
    ]
    assert write_many(iter(pairs), fsync=True) == 11
    assert read_many(path for path, _ in pairs) == [b"array", b"memory", b""]
    assert write_many([]) == 0
    assert read_many([]) == []


def test_files_of_unknown_size_are_read_to_their_end() -> None:
    status, maps = read_many(["/proc/self/status", "/proc/self/maps"])
    assert status.startswith(b"Name:")
    assert status.endswith(b"\n")
    assert maps.count(b"\n") > 100


def test_cached_files_and_others_keep_their_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(5)
    read_cached_file = many.read_cached_file
    monkeypatch.setattr(
        many,
        "read_cached_file",
        lambda path: read_cached_file(path) if chance.random() < 0.5 else -errno.EAGAIN,
    )
    paths = [tmp_path / str(number) for number in range(200)]
    for path in paths:
        path.write_text(path.name)
    assert read_many(paths, queue_depth=3) == [path.name.encode() for path in paths]


def test_a_pipe_is_opened_once_and_read_to_its_end(tmp_path: Path) -> None:
    """A separate opening to find the type would let the writer continue, and lose its reader."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with subprocess.Popen([sys.executable, "-c", WRITER, str(path)]) as writer:
        assert read_many(["/proc/self/stat", path])[1] == b"all of it"
        assert writer.wait(30) == 0


def test_one_file_may_be_read_many_times(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"same")
    assert read_many([tmp_path / "file"] * 300) == [b"same"] * 300


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "there").touch()
    before = set(os.listdir("/proc/self/fd"))
    with pytest.raises(FileNotFoundError, match="missing") as caught:
        read_many([tmp_path / "there", tmp_path / "missing", tmp_path / "there"])
    assert isinstance(caught.value, UringError)
    with pytest.raises(IsADirectoryError):
        read_many([tmp_path])
    with pytest.raises(ValueError, match="null byte"):
        read_many(["a\0b"])
    with pytest.raises(TypeError):
        read_many([5])  # type: ignore[list-item]
    assert set(os.listdir("/proc/self/fd")) == before


def test_a_file_that_cannot_be_written_is_named_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no folder"):
        write_many({tmp_path / "no folder" / "file": b"data"})
    with pytest.raises(IsADirectoryError):
        write_many({tmp_path: b"data"})
    with pytest.raises(ValueError, match="not a regular file"):
        write_many({"/dev/null": b"data"})
    with pytest.raises(TypeError, match="bytes-like"):
        write_many({tmp_path / "text": "data"})  # type: ignore[dict-item]
    assert list(tmp_path.iterdir()) == []


def test_a_write_cut_short_replaces_nothing(tmp_path: Path) -> None:
    import resource
    import signal

    (tmp_path / "old").write_bytes(b"as it was")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        with pytest.raises(UringError, match="old") as caught:
            write_many({tmp_path / "old": bytes(5000)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)
    assert caught.value.errno == errno.EFBIG
    assert [path.name for path in tmp_path.iterdir()] == ["old"]
    assert (tmp_path / "old").read_bytes() == b"as it was"


def test_a_replaced_file_keeps_its_permissions_and_a_link_stays(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "file").chmod(0o640)
    (tmp_path / "link").symlink_to("file")
    write_many({tmp_path / "link": b"new"})
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_bytes() == b"new"
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o640


def test_progress_is_reported_and_may_cancel(tmp_path: Path) -> None:
    reported: list[tuple[int, int]] = []
    files = {tmp_path / str(number): b"12" for number in range(50)}

    def progress(count: int, total: int) -> bool:
        reported.append((count, total))
        return count == 10

    with pytest.raises(UringError) as caught:
        write_many(files, queue_depth=4, progress=progress)
    assert caught.value.errno == errno.ECANCELED
    assert reported[9] == (10, 20)
    written = list(tmp_path.iterdir())
    assert 10 <= len(written) <= 14
    assert all(path.read_bytes() == b"12" for path in written)


def test_an_invalid_depth_is_refused(tmp_path: Path) -> None:
    for depth in (0, 5000):
        with pytest.raises(ValueError, match="queue_depth"):
            read_many([], queue_depth=depth)


def test_a_name_of_the_greatest_length_is_valid(tmp_path: Path) -> None:
    for name in ("流" * 85, "x" * 255):
        write_many({tmp_path / name: b"content"}, fsync=True)
        assert (tmp_path / name).read_bytes() == b"content"
    assert len(os.listdir(tmp_path)) == 2
