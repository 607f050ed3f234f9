"""Work on an io_uring ring without an event loop: the self-timing program of the uring page.

    python benchmarks/ring_work.py --contender penstock --workload NOPs --folder DIR

Prints one JSON line: ``operations``, ``seconds`` and ``cpu_seconds`` of the timed region. What was
read is compared with what was written, once before the timing.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib
import itertools
import json
import mmap
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

# Python puts the folder of a script on the path; the package is in a folder above.
sys.path[0] = str(Path(__file__).resolve().parent.parent)

from benchmarks.measured_program import Unavailable, exit_code  # noqa: E402

BATCH = 256
BATCHES = 64
BLOCK = 4096
DEPTH = 32
CACHED_BLOCKS = 1024
DIRECT_BLOCKS = 8192
SMALL_FILES = 1000

# One round of work; returns its number of operations.
Round = Callable[[], int]


class Wrong(Exception):
    """What was read differs from what was written."""


def block(number: int) -> bytes:
    """The content of a block of the file."""
    return number.to_bytes(8, "little") * (BLOCK // 8)


def make_file(folder: Path, blocks: int) -> Path:
    """The file that is read, created once and flushed."""
    path = folder / f"blocks-{blocks}"
    if not path.exists() or path.stat().st_size != blocks * BLOCK:
        with open(path, "wb") as file:
            for number in range(blocks):
                file.write(block(number))
            file.flush()
            os.fsync(file.fileno())
    return path


def make_files(folder: Path) -> list[str]:
    """The small files that are read whole."""
    small = folder / "small"
    small.mkdir(exist_ok=True)
    paths = [str(small / str(number)) for number in range(SMALL_FILES)]
    for number, path in enumerate(paths):
        if not os.path.exists(path):
            Path(path).write_bytes(block(number))
    return paths


def scattered(blocks: int) -> Iterator[list[int]]:
    """Endless batches of offsets across the file, the same for every contender.

    They are created in advance, so that their choice is not timed.
    """
    number = 0
    batches = []
    for _ in range(BATCHES):
        batch = []
        for _ in range(BATCH):
            number = (number * 1103515245 + 12345) & 0x7FFFFFFF
            batch.append((number >> 8) % blocks * BLOCK)
        batches.append(batch)
    return itertools.cycle(batches)


def check_blocks(read: Callable[[list[int]], list[bytes]], blocks: int) -> None:
    """Compare a batch with what was written."""
    offsets = next(scattered(blocks))
    if read(offsets) != [block(offset // BLOCK) for offset in offsets]:
        raise Wrong("the blocks read are not those that were written")


def open_file(stack: ExitStack, path: Path, flags: int = 0) -> int:
    """A descriptor that is closed at exit of the block."""
    fd = os.open(path, os.O_RDONLY | flags)
    stack.callback(os.close, fd)
    return fd


def penstock_work(workload: str, folder: Path, stack: ExitStack) -> Round:
    """``penstock.uring``."""
    from penstock.uring import BufferPool, UringCtx, UringError, read_many

    try:
        ctx = stack.enter_context(UringCtx(BATCH))
    except UringError as error:
        raise Unavailable(str(error)) from error
    tags = list(range(BATCH))

    def nops() -> int:
        ctx.prep_nop_many(tags)
        return len(ctx.wait_completions(BATCH))

    def nops_one_by_one() -> int:
        for tag in tags:
            ctx.prep_nop(tag)
        ctx.submit_and_wait(BATCH)
        return sum(1 for _tag, _result, _flags in ctx.completions())

    if workload == "NOPs":
        return nops
    if workload == "NOPs, one by one":
        return nops_one_by_one
    if workload == "small files":
        paths = make_files(folder)
        if read_many(paths) != [block(number) for number in range(SMALL_FILES)]:
            raise Wrong("the files read are not those that were written")
        return lambda: len(read_many(paths))
    if workload == "direct reads":
        direct = open_file(stack, make_file(folder, DIRECT_BLOCKS), os.O_DIRECT)
        pool = stack.enter_context(BufferPool(DEPTH, BLOCK, registered=True))
        stack.callback(ctx.close)
        wanted = scattered(DIRECT_BLOCKS)
        slots = list(range(DEPTH))
        buffers = list(pool)

        def direct_reads(keep: list[bytes] | None = None, offsets: list[int] | None = None) -> int:
            left = iter(next(wanted) if offsets is None else offsets)
            numbers = iter(range(BATCH))
            at: dict[int, int] = {}
            done = 0
            for slot in slots:
                ctx.prep_read(direct, buffers[slot], next(left), slot)
                at[slot] = next(numbers)
            while done < BATCH:
                for slot, result, _ in ctx.wait_completions():
                    done += 1
                    if result != BLOCK:
                        raise Wrong(f"a read returned {result}")
                    if keep is not None:
                        keep[at[slot]] = bytes(buffers[slot])
                    offset = next(left, None)
                    if offset is not None:
                        ctx.prep_read(direct, buffers[slot], offset, slot)
                        at[slot] = next(numbers)
            return BATCH

        def read_direct(offsets: list[int]) -> list[bytes]:
            kept = [b""] * BATCH
            direct_reads(kept, offsets)
            return kept

        check_blocks(read_direct, DIRECT_BLOCKS)
        return direct_reads
    fd = open_file(stack, make_file(folder, CACHED_BLOCKS))
    offsets = scattered(CACHED_BLOCKS)
    if workload == "cached reads, bytes":
        check_blocks(lambda some: ctx.read_offsets(fd, BLOCK, some), CACHED_BLOCKS)
        return lambda: len(ctx.read_offsets(fd, BLOCK, next(offsets)))
    if workload == "cached reads, tuples":

        def read_tuples(some: list[int]) -> list[bytes]:
            ctx.prep_read_many(fd, BLOCK, some, tags)
            read = {tag: data for tag, data, _ in ctx.wait_completions(BATCH)}
            return [read[tag] for tag in tags]

        def count_tuples() -> int:
            ctx.prep_read_many(fd, BLOCK, next(offsets), tags)
            return len(ctx.wait_completions(BATCH))

        check_blocks(read_tuples, CACHED_BLOCKS)
        return count_tuples
    pool = stack.enter_context(BufferPool(BATCH, BLOCK, registered=True))
    stack.callback(ctx.close)
    buffers = list(pool)

    def read_into(some: list[int]) -> int:
        ctx.prep_read_many(fd, buffers, some, tags)
        return len(ctx.wait_completions(BATCH))

    def check_into(some: list[int]) -> list[bytes]:
        read_into(some)
        return [bytes(buffer) for buffer in buffers]

    check_blocks(check_into, CACHED_BLOCKS)
    return lambda: read_into(next(offsets))


def pyuring_work(workload: str, folder: Path, stack: ExitStack) -> Round:
    """pyuring, by its fastest functions."""
    try:
        pyuring: Any = importlib.import_module("pyuring")
    except ImportError as error:
        raise Unavailable(f"pyuring is not installed here: {error}") from error
    ctx = stack.enter_context(pyuring.UringCtx(entries=BATCH))
    if workload == "NOPs, one by one":

        def nops() -> int:
            for _ in range(BATCH):
                ctx.nop()
            return BATCH

        return nops
    if workload == "cached reads, bytes":
        fd = open_file(stack, make_file(folder, CACHED_BLOCKS))
        offsets = scattered(CACHED_BLOCKS)

        def split(some: list[int]) -> list[bytes]:
            joined = ctx.read_offsets(fd, BLOCK, some)
            return [joined[at : at + BLOCK] for at in range(0, len(joined), BLOCK)]

        check_blocks(split, CACHED_BLOCKS)
        # One bytes object of all blocks: that is what it returns.
        return lambda: len(ctx.read_offsets(fd, BLOCK, next(offsets))) // BLOCK
    if workload == "small files":
        paths = make_files(folder)

        def read(path: str) -> bytes:
            fd = ctx.openat(path, os.O_RDONLY | os.O_CLOEXEC)
            data: bytes = ctx.read(fd, 65536)
            data += ctx.read(fd, 65536, len(data))
            ctx.close_fd(fd)
            return data

        if [read(path) for path in paths] != [block(number) for number in range(SMALL_FILES)]:
            raise Wrong("the files read are not those that were written")
        return lambda: len([read(path) for path in paths])
    if workload == "cached reads, tuples":
        fd = open_file(stack, make_file(folder, CACHED_BLOCKS))
        offsets = scattered(CACHED_BLOCKS)

        def read_tuples(some: list[int]) -> list[bytes]:
            buffers = [bytearray(BLOCK) for _ in some]
            for tag, at in enumerate(some):
                ctx.read_async(fd, buffers[tag], at, tag)
            ctx.submit()
            for _ in some:
                tag, result = ctx.wait_completion()
                if result != BLOCK:
                    raise Wrong(f"a read returned {result}")
            return [bytes(buffer) for buffer in buffers]

        check_blocks(read_tuples, CACHED_BLOCKS)
        return lambda: len(read_tuples(next(offsets)))
    if workload in {"cached reads, buffers", "direct reads"}:
        direct = workload == "direct reads"
        blocks, depth = (DIRECT_BLOCKS, DEPTH) if direct else (CACHED_BLOCKS, BATCH)
        fd = open_file(stack, make_file(folder, blocks), os.O_DIRECT if direct else 0)
        offsets = scattered(blocks)
        memory = mmap.mmap(-1, BLOCK * depth)
        begin = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        slots = [ctypes.c_void_p(begin + slot * BLOCK) for slot in range(depth)]

        def read_into(some: list[int], keep: list[bytes] | None = None) -> int:
            left = iter(enumerate(some))
            numbers = [0] * depth

            def ask(slot: int) -> None:
                numbers[slot], at = next(left)
                ctx.read_async_ptr(fd, slots[slot], BLOCK, at, slot)

            for slot in range(depth):
                ask(slot)
            ctx.submit()
            for done in range(BATCH):
                slot, result = ctx.wait_completion()
                if result != BLOCK:
                    raise Wrong(f"a read returned {result}")
                if keep is not None:
                    keep[numbers[slot]] = memory[slot * BLOCK : (slot + 1) * BLOCK]
                if done < BATCH - depth:
                    ask(slot)
                    ctx.submit()
            return BATCH

        def check_into(some: list[int]) -> list[bytes]:
            kept = [b""] * BATCH
            read_into(some, kept)
            return kept

        check_blocks(check_into, blocks)
        return lambda: read_into(next(offsets))
    raise Unavailable("pyuring has no batch of NOPs")


def os_work(workload: str, folder: Path, stack: ExitStack) -> Round:
    """Plain system calls of ``os``, one after the other."""
    if workload == "small files":
        paths = make_files(folder)

        def read(path: str) -> bytes:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            data = os.read(fd, 65536)
            data += os.read(fd, 65536)
            os.close(fd)
            return data

        def read_files() -> int:
            # All are kept, as read_many() returns them. Fresh memory costs half as much as reading
            # into memory that is freed at once.
            return len([read(path) for path in paths])

        return read_files
    direct = workload == "direct reads"
    blocks = DIRECT_BLOCKS if direct else CACHED_BLOCKS
    fd = open_file(stack, make_file(folder, blocks), os.O_DIRECT if direct else 0)
    offsets = scattered(blocks)
    if workload == "cached reads, bytes":
        check_blocks(lambda some: [os.pread(fd, BLOCK, at) for at in some], blocks)

        def read_bytes() -> int:
            # Each block is freed at once: keeping a batch of them costs os three times as much.
            for at in next(offsets):
                os.pread(fd, BLOCK, at)
            return BATCH

        return read_bytes
    if direct or workload == "cached reads, buffers":
        memory = memoryview(mmap.mmap(-1, BLOCK * BATCH))
        parts = [[memory[at : at + BLOCK]] for at in range(0, BLOCK * BATCH, BLOCK)]

        def read_into(some: list[int]) -> int:
            for part, at in zip(parts, some, strict=True):
                os.preadv(fd, part, at)
            return BATCH

        def check_into(some: list[int]) -> list[bytes]:
            read_into(some)
            return [bytes(part) for (part,) in parts]

        check_blocks(check_into, blocks)
        return lambda: read_into(next(offsets))
    raise Unavailable("os has no such system call")


CONTENDERS = {"penstock": penstock_work, "pyuring": pyuring_work, "os": os_work}
WORKLOADS = (
    "NOPs",
    "NOPs, one by one",
    "cached reads, bytes",
    "cached reads, tuples",
    "cached reads, buffers",
    "direct reads",
    "small files",
)


def timed(work: Round, seconds: float, warmup: float) -> dict[str, float]:
    """Run rounds for ``warmup`` seconds, then timed ones for ``seconds``."""
    warm = time.perf_counter() + warmup
    while time.perf_counter() < warm:
        work()
    operations = 0
    cpu_begin, begin = time.process_time(), time.perf_counter()
    end = begin + seconds
    while True:
        operations += work()
        now = time.perf_counter()
        if now >= end:
            break
    cpu_seconds = time.process_time() - cpu_begin
    return {"operations": operations, "seconds": now - begin, "cpu_seconds": cpu_seconds}


def main() -> None:
    """Measure one workload of one contender."""
    parser = argparse.ArgumentParser(description="Work on a ring without an event loop")
    parser.add_argument("--contender", required=True, choices=CONTENDERS)
    parser.add_argument("--workload", required=True, choices=WORKLOADS)
    parser.add_argument("--folder", required=True, type=Path, help="where the files are")
    parser.add_argument("--seconds", type=float, default=0.3)
    parser.add_argument("--warmup", type=float, default=0.1)
    arguments = parser.parse_args()
    with ExitStack() as stack:
        work = CONTENDERS[arguments.contender](arguments.workload, arguments.folder, stack)
        figures = timed(work, arguments.seconds, arguments.warmup)
    print(json.dumps(figures))


if __name__ == "__main__":
    sys.exit(exit_code(main))
