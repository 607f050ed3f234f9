"""File work that times itself: the program of the pages files and files_pyuring.

    python benchmarks/file_io.py --peer penstock --workload cached-reads --folder /tmp

Prints one JSON line: ``operations``, ``seconds``, ``cpu_seconds`` (of all threads of the process,
including the kernel's workers for it), and ``begin`` and ``end`` of the timed region in wall-clock
time.
The workload ``phases`` has these figures twice, under ``write`` and ``read``; ``ticker`` has
``lateness``, a list of seconds, instead of operations. What is read is compared with what was
written before the clock starts, and its length with each repetition.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import mmap
import os
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

if __name__ == "__main__":
    # Python puts the folder of a script on the path; the package is in a folder above.
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from benchmarks.file_peers import PEERS, load_peer
from benchmarks.file_peers.peer import AsyncPeer, Data, Peer, aligned_buffer
from benchmarks.file_peers.plain_os import Files as PlainFiles
from benchmarks.measured_program import Unavailable, exit_code

CACHED_SIZE = 64 << 20
DIRECT_SIZE = 16 << 20
SMALL_BLOCK = 4096
RECORDS, RECORD_SIZE = 200, 1024
TICK = 0.001
TICKER_BLOCK = 1 << 20
COMPARED = 8  # of a set of larger files

Repetition = Callable[[], Awaitable[int]]
Prepare = Callable[[], None]


class Wrong(Exception):
    """What a peer has read differs from what was written."""


class Work:
    """One workload of one peer: the preparation, the timed part, and its number of operations."""

    def __init__(self, peer: Peer, folder: Path, options: argparse.Namespace) -> None:
        self.peer = peer
        self.folder = folder
        self.options = options

    async def cached_reads(self) -> tuple[Prepare, Repetition]:
        """4 KiB reads of a cached file, 32 in flight."""
        depth = self.peer.depth
        path, size = self._filled("cached", self.options.size or CACHED_SIZE)
        await self._check_reads(path)

        async def repetition() -> int:
            read = await self.peer.read_regions(path, size, SMALL_BLOCK, depth)
            check_length(read, size)
            return size // SMALL_BLOCK

        return nothing, repetition

    async def direct_reads(self) -> tuple[Prepare, Repetition]:
        """4 KiB reads that bypass the page cache, 32 in flight."""
        depth = self.peer.depth
        path, size = self._filled("direct", self.options.size or DIRECT_SIZE)
        os.sync()

        async def repetition() -> int:
            read = await self.peer.read_regions_directly(path, size, SMALL_BLOCK, depth)
            check_length(read, size)
            return size // SMALL_BLOCK

        return nothing, repetition

    async def small_files(self) -> tuple[Prepare, Repetition]:
        """Many files of 4 KiB: open, read, close."""
        contents = []
        paths = []
        for number in range(self.options.files or 10_000):
            contents.append(number.to_bytes(4, "big") * (SMALL_BLOCK // 4))
            paths.append(str(self.folder / str(number)))
            Path(paths[-1]).write_bytes(contents[-1])
        if await self.peer.read_many(paths) != contents:
            raise Wrong("the small files were read wrong")

        async def repetition() -> int:
            read = await self.peer.read_many(paths)
            check_length(sum(map(len, read)), SMALL_BLOCK * len(paths))
            return len(paths)

        return nothing, repetition

    async def write_files(self) -> tuple[Prepare, Repetition]:
        """Several larger new files, written whole or in blocks."""
        return await self._larger_files(write=True, read=False)

    async def read_files(self) -> tuple[Prepare, Repetition]:
        """The same files, read."""
        return await self._larger_files(write=False, read=True)

    async def write_read_files(self) -> tuple[Prepare, Repetition]:
        """Written, then read back."""
        return await self._larger_files(write=True, read=True)

    async def log(self) -> tuple[Prepare, Repetition]:
        """Records that are appended concurrently, each of them durable."""
        path = str(self.folder / "log")
        records = [os.urandom(RECORD_SIZE) for _ in range(RECORDS)]

        def remove() -> None:
            if os.path.exists(path):
                os.unlink(path)

        async def repetition() -> int:
            await self.peer.append(path, records)
            return len(records)

        return remove, repetition

    async def _larger_files(self, *, write: bool, read: bool) -> tuple[Prepare, Repetition]:
        files = LargerFiles(self.peer, self.folder, self.options)
        await files.try_out(files.paths)

        def prepare() -> None:
            if write:
                files.remove(files.paths)
            elif self.options.clear_cache:
                files.forget()

        async def repetition() -> int:
            if write:
                await files.write(files.paths)
            if read:
                await files.read(files.paths)
            return len(files.paths)

        return prepare, repetition

    async def _check_reads(self, path: str) -> None:
        if await self.peer.read_whole(path) != Path(path).read_bytes():
            raise Wrong("the file was read wrong")

    def _filled(self, name: str, size: int) -> tuple[str, int]:
        path = self.folder / name
        path.write_bytes(os.urandom(1 << 20) * (size >> 20) or os.urandom(size))
        return str(path), path.stat().st_size


class LargerFiles:
    """Several files of the same size that the peer writes and reads back, whole or in blocks."""

    def __init__(self, peer: Peer, folder: Path, options: argparse.Namespace) -> None:
        self.peer = peer
        self.size = options.size or 2 << 20
        self.block = options.block or 0
        self.paths = [str(folder / f"larger-{number}") for number in range(options.files or 8)]
        self.data: Data = os.urandom(self.size)
        if peer.direct:
            memory = aligned_buffer(self.size)
            memory.write(self.data)
            self.data = memoryview(memory)
        peer.get_ready(len(self.paths), self.size)

    async def write(self, paths: Sequence[str]) -> None:
        """Let the peer write the files."""
        await self.peer.write_all(paths, self.data, self.block)

    async def read(self, paths: Sequence[str]) -> None:
        """Let the peer read the files."""
        read = await self.peer.read_all(paths, self.size, self.block)
        check_length(read, self.size * len(paths))

    async def try_out(self, paths: Sequence[str]) -> None:
        """Let the peer write all files and read one, and check its content."""
        await self.write(paths)
        self.compare(paths)
        if not self.peer.direct and await self.peer.read_whole(paths[0]) != self.data:
            raise Wrong("the file was read wrong")

    def compare(self, paths: Sequence[str]) -> None:
        """Check the content of the files.

        Raises:
            Wrong: if it differs from what was written.
        """
        for path in paths:
            if Path(path).read_bytes() != self.data:
                raise Wrong("a file was written wrong")

    def remove(self, paths: Sequence[str]) -> None:
        """Remove the files. Truncating one instead would wait for its write-back."""
        for path in paths:
            os.unlink(path)

    def warm_memory(self) -> None:
        """Touch and free as much memory as all files take.

        A virtual machine returns memory that was idle for some seconds to its host, and the next
        use waits for the host, several times as long as copying takes. Without this call, the
        contender that follows a pause would pay for that.
        """
        size = len(self.paths) * self.size
        with mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
            with contextlib.suppress(OSError):  # a kernel without huge pages
                memory.madvise(mmap.MADV_HUGEPAGE)
            for page in range(0, size, mmap.PAGESIZE):
                memory[page] = 1

    def forget(self) -> None:
        """Evict all files from the page cache, for which they must be on the disk."""
        for path in self.paths:
            fd = os.open(path, os.O_RDONLY)
            os.fdatasync(fd)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(fd)


def check_length(read: int, expected: int) -> None:
    """Check how many bytes were read.

    Raises:
        Wrong: if it is another number.
    """
    if read != expected:
        raise Wrong(f"{read} bytes were read instead of {expected}")


WORKLOADS = {
    "cached-reads": Work.cached_reads,
    "direct-reads": Work.direct_reads,
    "small-files": Work.small_files,
    "write": Work.write_files,
    "read": Work.read_files,
    "write-read": Work.write_read_files,
    "log": Work.log,
}
PHASES = "phases"


def nothing() -> None:
    """The preparation of a workload that needs none."""


class Stopwatch:
    """Total time of the repetitions, the start of the first and the end of the last."""

    def __init__(self) -> None:
        self.operations = 0
        self.seconds = 0.0
        self.cpu_seconds = 0.0
        self.begin = 0.0
        self.end = 0.0

    async def time(self, repetition: Repetition) -> None:
        """Run one more repetition."""
        self.begin = self.begin or time.time()
        cpu_begin, begin = time.process_time(), time.perf_counter()
        self.operations += await repetition()
        self.seconds += time.perf_counter() - begin
        self.cpu_seconds += time.process_time() - cpu_begin
        self.end = time.time()


async def timed(work: Work, options: argparse.Namespace) -> dict[str, object]:
    """Repeat the workload for ``options.seconds`` after a warm-up; sum the timed parts."""
    prepare, repetition = await WORKLOADS[options.workload](work)
    warm = time.perf_counter() + options.warmup
    while time.perf_counter() < warm:
        prepare()
        await repetition()
    watch = Stopwatch()
    while True:
        prepare()
        await watch.time(repetition)
        if watch.seconds >= options.seconds or options.once:
            return vars(watch)


async def timed_phases(work: Work, options: argparse.Namespace) -> dict[str, object]:
    """Write files and read them back, with a clock for each phase.

    A few of the files are written and read for the warm-up, and compared before the clocks start
    and after they have stopped; gigabytes would take longer than what is measured.
    """
    files = LargerFiles(work.peer, work.folder, options)
    few = files.paths[:COMPARED]
    await files.try_out(few)
    warm = time.perf_counter() + options.warmup
    while time.perf_counter() < warm:
        files.remove(few)
        await files.write(few)
        await files.read(few)
    files.remove(few)

    async def write() -> int:
        await files.write(files.paths)
        return len(files.paths)

    async def read() -> int:
        await files.read(files.paths)
        return len(files.paths)

    writing, reading = Stopwatch(), Stopwatch()
    if not options.once:
        files.warm_memory()
    await writing.time(write)
    if not options.once:
        files.warm_memory()
    while True:
        if not reading.seconds or reading.seconds < options.seconds:
            if options.clear_cache:
                files.forget()
            await reading.time(read)
        if options.once or min(writing.seconds, reading.seconds) >= options.seconds:
            break
        if writing.seconds < options.seconds:
            files.remove(files.paths)
            await writing.time(write)
    files.compare(few)
    return {"write": vars(writing), "read": vars(reading)}


async def ticker(peer: Peer, folder: Path, size: int) -> dict[str, object]:
    """How late a timer of 1 ms is while a large file is written on the same loop."""
    late: list[float] = []

    async def tick() -> None:
        while True:
            due = time.perf_counter() + TICK
            await asyncio.sleep(TICK)
            late.append(time.perf_counter() - due)

    data = os.urandom(TICKER_BLOCK) * min(size // TICKER_BLOCK, 64)
    task = asyncio.create_task(tick())
    await asyncio.sleep(0.05)
    late.clear()
    cpu_begin, begin = time.process_time(), time.perf_counter()
    for number in range(max(1, size // len(data))):
        await peer.write_blocks(str(folder / str(number)), data, TICKER_BLOCK)
        await asyncio.sleep(0)
    seconds = time.perf_counter() - begin
    cpu_seconds = time.process_time() - cpu_begin
    # The timer that was overdue if the loop was blocked.
    await asyncio.sleep(2 * TICK)
    task.cancel()
    return {"seconds": seconds, "cpu_seconds": cpu_seconds, "lateness": late}


def main() -> None:
    """Measure one workload of one peer."""
    parser = argparse.ArgumentParser(description="File work of Penstock and its peers")
    parser.add_argument("--peer", required=True, choices=PEERS)
    parser.add_argument("--workload", required=True, choices=[*WORKLOADS, PHASES, "ticker"])
    parser.add_argument("--folder", type=Path, required=True, help="on the disk that is measured")
    parser.add_argument("--files", type=int, help="how many files")
    parser.add_argument("--size", type=int, help="bytes of a file")
    parser.add_argument("--block", type=int, help="bytes of a read or write; 0: whole files")
    parser.add_argument("--depth", type=int, default=32, help="operations in flight")
    parser.add_argument(
        "--direct", action="store_true", help="larger files that bypass the page cache"
    )
    parser.add_argument(
        "--clear-cache", action="store_true", help="read larger files that are not in the cache"
    )
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--warmup", type=float, default=0.1)
    parser.add_argument("--once", action="store_true", help="a single repetition, to be traced")
    options = parser.parse_args()
    peer = load_peer(options.peer)
    peer.depth, peer.direct = options.depth, options.direct
    if peer.direct and not peer.takes_direct:
        raise Unavailable("its program here has no aligned buffer for files, as O_DIRECT needs")
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        if options.workload == "ticker":
            figures = run_ticker(peer, folder, options.size or 1 << 30)
        else:
            repeat = timed_phases if options.workload == PHASES else timed
            figures = peer.run(repeat(Work(peer, folder, options), options))
    print(json.dumps(figures))


def run_ticker(peer: Peer, folder: Path, size: int) -> dict[str, object]:
    """Run on the peer's loop; plain calls block asyncio's.

    Raises:
        Unavailable: if it is a ring without a loop.
    """
    if isinstance(peer, AsyncPeer):
        return peer.run(ticker(peer, folder, size))
    if isinstance(peer, PlainFiles):
        return asyncio.run(ticker(peer, folder, size))
    raise Unavailable("it has no event loop")


if __name__ == "__main__":
    sys.exit(exit_code(main))
