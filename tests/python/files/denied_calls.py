"""Calls every function of ``penstock.files`` where a sandbox denies a system call.

Run as a program: ``denied_calls.py ERRNO NAME,NUMBER,... ...``. It forks a child for each case,
which denies the calls with these numbers, and prints a line for each function that failed. A name
that ends with :data:`LATE` denies them when the loop has begun to use its engine.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import struct
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

import penstock
from penstock import files

SECONDS = 20
NOT_TRIED = 77
LATE = " late"


def deny(error: int, calls: list[int]) -> None:
    """Make these system calls fail with ``error`` from now on, as a container's filter does."""
    load, jump_if_equal, return_value = 0x20, 0x15, 0x06
    allow, fail = 0x7FFF0000, 0x00050000
    code = struct.pack("HBBI", load, 0, 0, 0)
    for index, call in enumerate(calls):
        code += struct.pack("HBBI", jump_if_equal, len(calls) - index, 0, call)
    code += struct.pack("HBBI", return_value, 0, 0, allow)
    code += struct.pack("HBBI", return_value, 0, 0, fail | error)
    memory = ctypes.create_string_buffer(code)
    program = struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(memory))
    libc = ctypes.CDLL(None)
    no_new_privileges, seccomp, filter_mode = 38, 22, 2
    if libc.prctl(no_new_privileges, 1, 0, 0, 0) or libc.prctl(seccomp, filter_mode, program, 0, 0):
        os._exit(NOT_TRIED)


async def whole_files(folder: Path) -> None:
    data = bytes(200_000)
    await files.write_file(folder / "a", data)
    await files.write_file(folder / "a", data[1:], atomic=True)
    assert await files.read_file(folder / "a") == data[1:]
    assert await files.read_files([folder / "a"] * 3) == [data[1:]] * 3
    assert await files.copy(folder / "a", folder / "b") == len(data) - 1
    assert (folder / "b").read_bytes() == data[1:]


async def sparse_copy(folder: Path) -> None:
    with (folder / "sparse").open("wb") as file:
        file.truncate(1 << 20)
        file.seek(1 << 19)
        file.write(b"middle")
    await files.copy(folder / "sparse", folder / "sparse.copy")
    assert (folder / "sparse.copy").read_bytes() == (folder / "sparse").read_bytes()


async def names(folder: Path) -> None:
    (folder / "name").write_bytes(b"123")
    assert (await files.stat(folder / "name")).st_size == 3
    assert (await files.stat(folder / "name")).st_mtime == (folder / "name").stat().st_mtime
    await files.rename(folder / "name", folder / "other")
    await files.replace(folder / "other", folder / "name")
    await files.link(folder / "name", folder / "linked")
    await files.unlink(folder / "linked")
    await files.mkdir(folder / "made")
    assert "made" in await files.os.listdir(folder)
    assert "made" in {entry.name for entry in await files.scandir(folder)}
    await files.rmdir(folder / "made")
    assert await files.os.path.exists(folder / "name")


async def text(folder: Path) -> None:
    async with files.open(folder / "text", "w+") as file:
        await file.writelines(["hello\n", "world\n"])
        await file.seek(0)
        assert await file.readlines() == ["hello\n", "world\n"]
        await file.truncate(3)
        await file.fsync()
    async with files.open(folder / "text", "a") as file:
        await file.write("p")
    async with files.open(folder / "text") as file:
        assert [line async for line in file] == ["help"]


async def binary(folder: Path) -> None:
    async with files.open(folder / "binary", "wb+", buffering=0) as file:
        assert await file.write(b"0123456789") == 10
        assert await file.pwrite(b"ab", 4) == 2
        assert await file.pread(4, 3) == b"3ab6"
        target = bytearray(3)
        assert await file.pread_into(target, 7) == 3
        assert target == b"789"
        await file.fdatasync()
    async with files.open(folder / "binary", "rb", flags=os.O_DIRECT) as file:
        assert await file.read(4096) == b"0123ab6789"


async def log(folder: Path) -> None:
    async with files.AppendLog(folder / "log") as log:
        await log.append(b"record")
    async with files.AppendLog(folder / "log") as log:
        assert [record async for record in log] == [b"record"]
    assert [record async for record in files.read_log(folder / "log")] == [b"record"]


async def pipes(folder: Path) -> None:
    reader, writer = os.pipe()
    async with files.open(reader, "rb") as out, files.open(writer, "wb", buffering=0) as into:
        waiting = asyncio.ensure_future(out.readline())
        await asyncio.sleep(0)
        await into.write(b"line\n")
        assert await waiting == b"line\n"
    os.mkfifo(folder / "fifo")
    opening = asyncio.ensure_future(files.read_file(folder / "fifo"))
    await files.write_file(folder / "fifo", b"through")
    assert await opening == b"through"


async def temporary(folder: Path) -> None:
    async with files.tempfile.NamedTemporaryFile(dir=folder) as file:
        await file.write(b"x")
    async with files.tempfile.TemporaryDirectory(dir=folder):
        pass


FUNCTIONS: list[Callable[[Path], Awaitable[None]]] = [
    *(whole_files, sparse_copy, names, text, binary, log, pipes, temporary)
]


async def try_all(case: str, loop: str, late: Callable[[], None] | None) -> None:
    if late is not None:
        with tempfile.TemporaryDirectory() as name:
            await whole_files(Path(name))
        late()
    for function in FUNCTIONS:
        with tempfile.TemporaryDirectory() as name:
            try:
                await asyncio.wait_for(function(Path(name)), SECONDS)
            except Exception as error:
                print(f"{case}: {loop}: {function.__name__}: {error!r}", flush=True)


def run_case(error: int, case: str) -> None:
    """Run all functions with the calls of one case denied; for a process of its own."""
    name, *calls = case.split(",")
    numbers = [int(call) for call in calls]
    if name.endswith(LATE):
        penstock.run(try_all(case, "penstock", lambda: deny(error, numbers)))
    else:
        deny(error, numbers)
        penstock.run(try_all(case, "penstock", None))
        asyncio.run(try_all(case, "asyncio", None))


def main() -> None:
    error, *cases = sys.argv[1:]
    for case in cases:
        child = os.fork()
        if child == 0:
            run_case(int(error), case)
            sys.stdout.flush()
            os._exit(0)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if code == NOT_TRIED:
            sys.exit(code)
        if code:
            print(f"{case}: exit code {code}", flush=True)


if __name__ == "__main__":
    main()
