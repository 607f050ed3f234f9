"""What `files.Path`, batches and watches cost beside the standard library.

    python benchmarks/file_paths.py --rounds 9

Prints CPU and wall time as ratios to the blocking calls of the standard library, which are measured
in the same process, in turn: the median with the lowest and the highest round. Below 1 the row is
faster than the standard library. All files are in the kernel's caches.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import random
import shutil
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import penstock
from penstock import files

FILES = 100_000
CALLS = 10_000
BATCH = 32

Times = tuple[float, float]


@dataclass
class Row:
    """One comparison: a blocking call, and what replaces it."""

    name: str
    blocking: Callable[[], object]
    awaited: Callable[[], Awaitable[object]]


def make_tree(top: pathlib.Path, folders: int) -> None:
    """Divide 100,000 files among folders, a hundred folders in each."""
    for number in range(folders):
        folder = top / str(number // 100) / str(number)
        folder.mkdir(parents=True)
        for file in range(FILES // folders):
            (folder / str(file)).touch()


def walk_row(top: pathlib.Path, name: str) -> Row:
    """Compare `os.walk` with `Path.walk`."""

    def blocking() -> int:
        return sum(len(others) for _, _, others in os.walk(top))

    async def awaited() -> int:
        count = 0
        async for _, _, others in files.Path(top).walk():
            count += len(others)
        return count

    return Row(name, blocking, awaited)


def search_row(top: pathlib.Path) -> Row:
    """Compare `rglob` of both."""

    def blocking() -> int:
        return sum(1 for _ in top.rglob("*"))

    async def awaited() -> int:
        count = 0
        async for _ in files.Path(top).rglob("*"):
            count += 1
        return count

    return Row("rglob of 100,000 files", blocking, awaited)


def question_rows(path: pathlib.Path) -> list[Row]:
    """Compare questions about one cached file."""
    ours, name = files.Path(path), str(path)

    async def exists() -> None:
        for _ in range(CALLS):
            await ours.exists()

    async def stat() -> None:
        for _ in range(CALLS):
            await files.stat(name)

    async def stat_many() -> None:
        for _ in range(CALLS // 100):
            await files.stat_many([name] * 100)

    async def access() -> None:
        for _ in range(CALLS):
            await files.access(name, os.R_OK)

    return [
        Row("Path.exists", lambda: [path.exists() for _ in range(CALLS)], exists),
        Row("stat", lambda: [os.stat(name) for _ in range(CALLS)], stat),
        Row("stat_many, 100 a call", lambda: [os.stat(name) for _ in range(CALLS)], stat_many),
        Row("access", lambda: [os.access(name, os.R_OK) for _ in range(CALLS)], access),
    ]


def read_rows(path: pathlib.Path, fd: int, file: files.BinaryFile) -> list[Row]:
    """Compare cached reads of 4 KiB at random offsets."""
    chance = random.Random(1)
    offsets = [chance.randrange(path.stat().st_size - 4096) for _ in range(BATCH)]

    def blocking() -> None:
        for _ in range(CALLS // BATCH):
            [os.pread(fd, 4096, offset) for offset in offsets]

    async def pread_many() -> None:
        for _ in range(CALLS // BATCH):
            await file.pread_many(4096, offsets)

    async def pread() -> None:
        for _ in range(CALLS // BATCH):
            [await file.pread(4096, offset) for offset in offsets]

    return [
        Row("pread_many of 4 KiB, 32 a call", blocking, pread_many),
        Row("pread of 4 KiB, one a call", blocking, pread),
    ]


def now() -> Times:
    """Return CPU and wall time."""
    return time.process_time(), time.perf_counter()


def since(begin: Times) -> Times:
    """Return the CPU and wall time since then."""
    return time.process_time() - begin[0], time.perf_counter() - begin[1]


async def compare(row: Row, rounds: int) -> str:
    """Measure both in turn; return a line of the table."""
    ratios: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        begin = now()
        row.blocking()
        theirs = since(begin)
        begin = now()
        await row.awaited()
        ours = since(begin)
        for kind in (0, 1):
            ratios[kind].append(ours[kind] / theirs[kind])
    cells = [f"{statistics.median(each):.2f} ({min(each):.2f}-{max(each):.2f})" for each in ratios]
    return f"| {row.name:<32} | {cells[0]:>18} | {cells[1]:>18} |"


async def watch_latency(folder: pathlib.Path, rounds: int) -> str:
    """Measure the time from a creation to the item that reports it."""
    taken = []
    async with files.watch(folder, step=0) as changes:
        for number in range(20 * rounds):
            begin = time.perf_counter()
            (folder / f"made-{number}").touch()
            await anext(changes)
            taken.append(1000 * (time.perf_counter() - begin))
    middle, late = statistics.median(taken), statistics.quantiles(taken, n=20)[-1]
    return f"watch(step=0), from the creation to its item: median {middle:.2f} ms, 95 % {late:.2f}"


async def measure(folder: pathlib.Path, rounds: int) -> None:
    """Print all rows."""
    many, few = folder / "few-folders", folder / "many-folders"
    make_tree(many, 1000)
    make_tree(few, 10_000)
    single = folder / "single"
    single.write_bytes(os.urandom(1 << 20))
    print(f"| {'':<32} | {'CPU':>18} | {'wall':>18} |")
    print(f"| {'-' * 32} | {'-' * 17}: | {'-' * 17}: |")
    fd = os.open(single, os.O_RDONLY)
    async with files.open(single, "rb") as file:
        rows = [
            walk_row(many, "walk of 100,000 files, 100 each"),
            walk_row(few, "walk of 100,000 files, 10 each"),
            search_row(many),
            *question_rows(single),
            *read_rows(single, fd, file),
        ]
        for row in rows:
            print(await compare(row, rounds), flush=True)
    os.close(fd)
    watched = folder / "watched"
    watched.mkdir()
    print(await watch_latency(watched, rounds))


def main() -> None:
    """Measure in a temporary folder."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--folder", type=pathlib.Path, help="where to make the files")
    parser.add_argument("--rounds", type=int, default=9, help="of each row (9)")
    options = parser.parse_args()
    folder = pathlib.Path(tempfile.mkdtemp(dir=options.folder))
    try:
        penstock.run(measure(folder, options.rounds))
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
