"""A file is closed after the calls that have begun, also where these have yielded to other tasks.

A descriptor that is closed too early is the next file's: a call would read or write that one.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from penstock import files
from penstock.files._backend import current_backend
from tests.python.files.test_cancelling import until
from tests.python.files.test_file_calls import work_for

pytestmark = pytest.mark.anyio

LARGE = 3 << 20  # more than is tried in the page cache


async def after_another(file: Any, read: Callable[[], Awaitable[Any]]) -> Any:
    """Read once more before, so that the clock is asked."""
    await file.pread(1, 0)
    return await read()


READS: dict[str, tuple[Callable[[Any], Awaitable[Any]], Any]] = {
    "pread": (lambda file: file.pread(LARGE, 0), b"a" * LARGE),
    "pread_many": (lambda file: file.pread_many(10, iter([0, 5])), [b"a" * 10] * 2),
    "pread_into": (lambda file: file.pread_into(bytearray(LARGE), 0), LARGE),
    "preadv": (lambda file: file.preadv([bytearray(10), bytearray(5)], 0), 15),
    "read": (lambda file: file.read(LARGE), b"a" * LARGE),
    "small": (lambda file: after_another(file, lambda: file.pread(10, 5)), b"a" * 10),
    "few": (lambda file: after_another(file, lambda: file.pread_many(2, [0])), [b"aa"]),
}


@pytest.mark.parametrize("owned", [True, False])
@pytest.mark.parametrize("name", READS)
async def test_a_read_that_has_yielded_reads_its_own_file(
    tmp_path: Path, name: str, owned: bool, anyio_backend_name: str
) -> None:
    if anyio_backend_name == "trio" and name in ("small", "few"):
        pytest.skip("the read before lets other tasks run: on trio each await does")
    path, other = tmp_path / "file", tmp_path / "other"
    path.write_bytes(b"a" * LARGE)
    other.write_bytes(b"b")
    read, expected = READS[name]
    fd = os.open(path, os.O_RDONLY)
    file = await files.open(fd, "rb", closefd=owned)
    begun = False
    found: list[Any] = []

    async def call() -> None:
        nonlocal begun
        work_for(0.003)  # the time slice of the task is over
        begun = True
        found.append(await read(file))

    async with anyio.create_task_group() as group:
        group.start_soon(call)
        await until(lambda: begun)
        await file.close()
        if not owned:
            os.close(fd)
        stand_in = os.open(other, os.O_RDWR)
    os.close(stand_in)
    assert found == [expected]


@pytest.mark.parametrize("name", READS)
async def test_a_file_is_not_detached_from_calls_that_have_begun(tmp_path: Path, name: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"a" * LARGE)
    read, expected = READS[name]
    file = await files.open(path, "rb")
    begun = False
    found: list[Any] = []

    async def call() -> None:
        nonlocal begun
        work_for(0.003)
        begun = True
        found.append(await read(file))

    async with anyio.create_task_group() as group:
        group.start_soon(call)
        await until(lambda: begun)
        if name not in ("pread_many", "preadv", "few"):  # which use a descriptor of their own
            with pytest.raises(RuntimeError, match="in flight"):
                file.detach()
    assert found == [expected]
    with file.detach() as raw:
        assert raw.read(3) == b"aaa"[: 0 if name == "read" else 3]


async def test_a_write_that_has_yielded_is_made_before_the_file_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"a" * 10)
    file = await files.open(path, "r+b")
    begun = False

    async def write() -> None:
        nonlocal begun
        work_for(0.003)
        begun = True
        assert await file.pwrite(bytearray(b"b" * 10), 0) == 10

    async with anyio.create_task_group() as group:
        group.start_soon(write)
        await until(lambda: begun)
        await file.close()
        assert path.read_bytes() == b"b" * 10


async def test_a_close_that_waits_begins_when_the_call_is_cancelled(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"a" * LARGE)
    file = await files.open(path, "rb")
    begun = False

    async def read() -> None:
        nonlocal begun
        work_for(0.003)
        begun = True
        await file.pread(LARGE, 0)

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(read)
            await until(lambda: begun)
            group.cancel_scope.cancel()
        await file.close()
        backend: Any = current_backend()
        await until(lambda: not backend.in_flight)
