"""``files.map``: content, life, and files that become shorter."""

from __future__ import annotations

import errno
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from penstock import files
from tests.python.conftest import not_sanitized
from tests.python.files.conftest import child_environment
from tests.python.files.test_cancelling import caught_in_flight

pytestmark = pytest.mark.anyio

PAGE = os.sysconf("SC_PAGESIZE")
CONTENT = bytes(range(256)) * 1024 + b"the end"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "content"
    path.write_bytes(CONTENT)
    return path


def file_maps(path: Path) -> int:
    return Path("/proc/self/maps").read_text().count(str(path))


async def test_a_mapped_file_is_its_content(path: Path, no_descriptor_left: None) -> None:
    async with files.map(path) as mapped:
        assert len(mapped) == len(CONTENT)
        for part in (
            slice(None),
            slice(5, 300),
            slice(-7, None),
            slice(300, 5),
            slice(10**9, None),
            slice(None, None, 1000),
            slice(None, None, -777),
        ):
            assert mapped[part] == CONTENT[part]
        assert [mapped[0], mapped[255], mapped[-1]] == [0, 255, ord("d")]
        for index in len(CONTENT), -len(CONTENT) - 1:
            with pytest.raises(IndexError):
                mapped[index]
        with pytest.raises(TypeError, match="not str"):
            mapped["0"]  # type: ignore[call-overload]
        with memoryview(mapped) as view:
            assert view.readonly
            assert view == CONTENT
        found = re.search(rb"the (\w+)", mapped)
        assert found is not None
        assert found[1] == b"end"
        del found
        assert not mapped.lost
        assert file_maps(path)
    assert mapped.closed
    assert not file_maps(path)
    with pytest.raises(ValueError, match="closed"):
        mapped[0]
    with pytest.raises(ValueError, match="closed"):
        memoryview(mapped)
    with pytest.raises(ValueError, match="closed"):
        await mapped.populate()
    await mapped.close()


async def test_an_empty_file_and_what_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    async with files.map(tmp_path / "empty") as mapped:
        assert (len(mapped), mapped[:], bytes(mapped)) == (0, b"", b"")
    with pytest.raises(FileNotFoundError, match="missing"):
        await files.map(tmp_path / "missing")
    for other in tmp_path, "/dev/null":
        with pytest.raises(ValueError, match="not a regular file"):
            await files.map(other)
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(ValueError, match="not a regular file"):
        await files.map(tmp_path / "fifo")


async def test_a_map_in_use_is_not_closed(path: Path) -> None:
    mapped = await files.map(path, populate=False)
    view = memoryview(mapped)
    with pytest.raises(BufferError, match="memoryviews"):
        await mapped.close()
    assert view[:4] == CONTENT[:4]
    view.release()
    await mapped.close()
    assert not file_maps(path)


async def test_a_file_that_becomes_shorter_loses_its_end_only(path: Path) -> None:
    async with files.map(path) as mapped, files.map(path) as other:
        os.truncate(path, 2 * PAGE)
        assert mapped[: 2 * PAGE] == CONTENT[: 2 * PAGE]
        assert not mapped.lost
        with pytest.raises(OSError, match="shorter") as caught:
            mapped[5 * PAGE :]
        assert caught.value.errno == errno.EIO
        assert caught.value.filename == path
        assert mapped.lost
        assert not other.lost
        with memoryview(other) as view:
            assert view[: 2 * PAGE] == CONTENT[: 2 * PAGE]
            assert bytes(view[2 * PAGE :]) == bytes(len(CONTENT) - 2 * PAGE)
        assert other.lost
        with pytest.raises(OSError, match="shorter"):
            await other.populate()
    async with files.map(path) as fresh:
        assert fresh[:] == CONTENT[: 2 * PAGE]


async def test_populating_finds_what_is_missing(path: Path) -> None:
    async with files.map(path, populate=False) as mapped:
        await mapped.populate(PAGE, 10)
        os.truncate(path, 0)
        with pytest.raises(OSError, match="shorter"):
            await mapped.populate(PAGE)
        with pytest.raises(ValueError, match="negative"):
            await mapped.populate(-1)


async def test_a_map_is_closed_after_a_cancelled_populate(path: Path) -> None:
    os.truncate(path, 32 << 20)
    for _ in range(5):
        async with files.map(path, populate=False) as mapped:
            await caught_in_flight(mapped.populate)
        assert mapped.closed
    assert not file_maps(path)


async def test_a_cancelled_map_leaves_nothing_mapped(path: Path) -> None:
    with anyio.CancelScope() as scope:
        scope.cancel()
        await files.map(path)
    async with files.map(path):  # behind the other's thread
        pass
    assert not file_maps(path)


OTHER_FAULTS = """
import ctypes, mmap, os, signal, sys
import penstock
from penstock import files

async def main():
    async with files.map(sys.argv[1]) as mapped:
        os.truncate(sys.argv[1], 0)
        try:
            mapped[5:]
        except OSError:
            print("survived", flush=True)
    if sys.argv[2] == "sent":
        os.kill(os.getpid(), signal.SIGBUS)
    with open(sys.argv[1], "r+b") as file:
        file.truncate(mmap.PAGESIZE)
        foreign = mmap.mmap(file.fileno(), 0)
        file.truncate(0)
        foreign[0]

penstock.run(main())
"""


@not_sanitized("the sanitizer itself ends a process at SIGBUS")
@pytest.mark.parametrize("how", ["fault", "sent"])
def test_other_faults_stay_fatal(path: Path, how: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", OTHER_FAULTS, str(path), how],
        capture_output=True,
        text=True,
        env=child_environment(),
        timeout=60,
        check=False,
    )
    assert ended.stdout == "survived\n"
    assert ended.returncode == -signal.SIGBUS
    assert "Bus error" in ended.stderr  # told by the handler that was there before
