"""Several reads, writes or questions as one call, on every loop."""

from __future__ import annotations

import errno
import io
import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock import files
from penstock.files._backend import Operation, current_backend
from penstock.files._in_flight import results_of

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("no_descriptor_left")]


@pytest.fixture
def data_file(tmp_path: Path) -> Path:
    path = tmp_path / "data"
    path.write_bytes(random.Random(1).randbytes(300_000))
    return path


@pytest.mark.parametrize("size", [0, 1, 4096, 100_000])
async def test_many_reads_are_those_of_os_pread(data_file: Path, size: int) -> None:
    chance = random.Random(size)
    offsets = [chance.randrange(310_000) for _ in range(100)]
    async with files.open(data_file, "rb") as file:
        found = await file.pread_many(size, offsets)
        assert await file.pread_many(size, iter(offsets[:3])) == found[:3]
        assert await file.pread_many(size, []) == []
        assert await file.tell() == 0
    fd = os.open(data_file, os.O_RDONLY)
    try:
        assert found == [os.pread(fd, size, offset) for offset in offsets]
    finally:
        os.close(fd)


async def test_many_reads_go_to_the_engine_where_nothing_is_cached(
    data_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with files.open(data_file, "rb") as file:
        backend = current_backend()

        class Cold:
            def __getattr__(self, name: str) -> object:
                return getattr(backend, name)

            def read_many_cached(self, fd: int, size: int, offsets: list[int]) -> tuple[None, ...]:
                return (None,) * len(offsets)

        file._backend = Cold()
        offsets = list(range(0, 290_000, 1000))
        whole = data_file.read_bytes()
        assert await file.pread_many(512, offsets) == [whole[at : at + 512] for at in offsets]
        file._backend = backend


async def test_operations_that_are_started_together_begin_in_order(data_file: Path) -> None:
    backend = current_backend()
    whole = data_file.read_bytes()

    def reads(fd: int, *offsets: int) -> Iterator[Operation[bytes]]:
        for offset in offsets:
            yield backend.read(fd, 10, offset)
        raise ValueError("no more")

    async with files.open(data_file, "rb") as file:
        begun: list[Operation[bytes]] = []
        source = reads(file.fileno(), 5, 0, 7, 9)
        assert backend.start_many(source, 2, begun.append) == 2
        with pytest.raises(ValueError, match="no more"):
            backend.start_many(source, 3, begun.append)
        assert [await each for each in begun] == [whole[at : at + 10] for at in (5, 0, 7, 9)]
        assert backend.start_many(iter([]), 3, begun.append) == 0
        # An operation on its own is submitted as before.
        assert await backend.read(file.fileno(), 10, 3) == whole[3:13]


async def test_no_more_operations_are_in_flight_than_the_limit(data_file: Path) -> None:
    backend = current_backend()
    async with files.open(data_file, "rb") as file:
        begun: list[Operation[bytes]] = []
        most = 0

        def reads() -> Iterator[Operation[bytes]]:
            nonlocal most
            for offset in range(0, 100_000, 1000):
                most = max(most, sum(each.in_flight for each in begun))
                begun.append(backend.read(file.fileno(), 10, offset))
                yield begun[-1]

        found = await results_of(backend, reads(), 5)
        whole = data_file.read_bytes()
        assert found == [whole[at : at + 10] for at in range(0, 100_000, 1000)]
        assert most < 5


async def test_many_reads_see_what_was_written(tmp_path: Path) -> None:
    async with files.open(tmp_path / "file", "w+b") as file:
        await file.write(b"abcdef")
        assert await file.pread_many(2, [0, 2, 4, 6]) == [b"ab", b"cd", b"ef", b""]
        with pytest.raises(ValueError, match="negative"):
            await file.pread_many(2, [0, -1])
        with pytest.raises(ValueError, match="negative"):
            await file.pread_many(-1, [0])
    with pytest.raises(ValueError, match="closed"):
        await file.pread_many(2, [0])
    async with files.open(tmp_path / "file", "ab") as file:
        with pytest.raises(io.UnsupportedOperation):
            await file.pread_many(2, [0])


async def test_several_buffers_are_read_and_written(tmp_path: Path) -> None:
    async with files.open(tmp_path / "file", "w+b") as file:
        assert await file.pwritev([b"ab", bytearray(b"cde"), memoryview(b"f")], 3) == 6
        assert await file.pwritev([b"x" * 50_000, b"y" * 50_000], 9) == 100_000
        assert await file.pwritev([], 0) == 0
        one, two, three = bytearray(5), bytearray(7), bytearray(3)
        assert await file.preadv([one, two, three], 0) == 15
        assert bytes(one + two + three) == b"\0\0\0abcdefxxxxxx"
        assert await file.preadv([one, two, three], 100_003) == 6
        assert bytes(one + two[:1]) == b"yyyyyy"
        with pytest.raises(ValueError, match="negative"):
            await file.preadv([one], -1)
        assert await file.tell() == 0


async def test_the_status_of_many_files_is_that_of_each(tmp_path: Path) -> None:
    paths = [tmp_path / f"{number}" for number in range(200)]
    for number, path in enumerate(paths):
        path.write_bytes(b"x" * number)
    found = await files.stat_many(paths)
    assert [status.st_size for status in found] == list(range(200))
    assert await files.stat_many([]) == []
    missing = tmp_path / "missing"
    with pytest.raises(FileNotFoundError) as error:
        await files.stat_many([paths[0], missing, paths[1]])
    assert error.value.filename == missing
    some = await files.stat_many([paths[0], missing], missing_ok=True, queue_depth=1)
    assert some == [os.stat(paths[0]), None]
    mixed = [missing if number % 3 == 0 else path for number, path in enumerate(paths)]
    assert await files.stat_many(iter(mixed), missing_ok=True) == [
        None if path is missing else os.stat(path) for path in mixed
    ]
    with pytest.raises(ValueError, match="queue_depth 0"):
        await files.stat_many(paths, queue_depth=0)


async def test_access_is_that_of_os(tmp_path: Path) -> None:
    for mode in (0o000, 0o444, 0o644, 0o755):
        path = tmp_path / f"{mode:o}"
        path.touch()
        path.chmod(mode)
        for wanted in (os.F_OK, os.R_OK, os.W_OK, os.X_OK, os.R_OK | os.X_OK):
            assert await files.access(path, wanted) == os.access(path, wanted)
    (tmp_path / "broken").symlink_to("nowhere")
    for name in ("missing", "broken", "644/below", "n" * 300):
        assert not await files.access(tmp_path / name, os.F_OK)
    assert await files.access(tmp_path / "broken", os.F_OK, follow_symlinks=False) == os.access(
        tmp_path / "broken", os.F_OK, follow_symlinks=False
    )
    assert await files.access(tmp_path, os.F_OK, effective_ids=True)
    with pytest.raises(ValueError, match="null"):
        await files.access("a\0b", os.F_OK)


async def test_space_is_reserved_and_freed(tmp_path: Path) -> None:
    path = tmp_path / "file"
    async with files.open(path, "w+b") as file:
        await file.fallocate(0, 1 << 20, keep_size=True)
        assert (path.stat().st_size, path.stat().st_blocks >= 2048) == (0, True)
        await file.fallocate(0, 1 << 20)
        assert path.stat().st_size == 1 << 20
        await file.write(b"x" * 8192)
        await file.punch_hole(0, 4096)
        assert await file.pread(8192, 0) == bytes(4096) + b"x" * 4096
        assert await file.tell() == 8192
        with pytest.raises(OSError) as refused:
            await file.punch_hole(0, 0)
        assert refused.value.filename == str(path) or refused.value.filename == path
        for call in (file.fallocate, file.punch_hole):
            for begin, size in ((1 << 64, 4096), (4096, (1 << 64) + 4096)):
                with pytest.raises(OSError) as refused:
                    await call(begin, size)
                assert refused.value.errno == errno.EFBIG
        assert await file.pread(8192, 0) == bytes(4096) + b"x" * 4096
        assert path.stat().st_size == 1 << 20
    async with files.open(path, "rb") as file:
        with pytest.raises(io.UnsupportedOperation):
            await file.fallocate(0, 1)


async def test_attributes_space_and_folders(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()
    assert (await files.statvfs(path)).f_bsize == os.statvfs(path).f_bsize
    await files.sync_folder(tmp_path)
    with pytest.raises(FileNotFoundError) as missing:
        await files.sync_folder(tmp_path / "missing")
    assert missing.value.filename == str(tmp_path / "missing")
    with pytest.raises(FileNotFoundError):
        await files.sync_folder("")
    with pytest.raises(NotADirectoryError):
        await files.sync_folder(path)
    await files.sync_folder(os.fsencode(tmp_path))
    try:
        await files.setxattr(path, "user.kind", b"test")
    except OSError:
        pytest.skip("the file system has no extended attributes")
    assert await files.getxattr(path, "user.kind") == b"test"
    assert "user.kind" in await files.listxattr(path)
    await files.removexattr(path, "user.kind")
    assert "user.kind" not in await files.listxattr(path)
