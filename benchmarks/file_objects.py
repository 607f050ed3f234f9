"""What an open file costs, call by call: the program of the page files_objects.

    python benchmarks/file_objects.py --peer penstock --work open-read-close --folder /tmp

Does one kind of work with one library, for ``--seconds``, after a warm-up. Prints one JSON line:
``cpu_us`` and ``wall_us``, microseconds for each unit of the work, of which there are ``units``.
Everything that is read is in the page cache.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import json
import os
import random
import sys
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any
from zlib import crc32

if __name__ == "__main__":
    # Python puts the folder of a script on the path; the package is in a folder above.
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from benchmarks.measured_program import Unavailable, exit_code, loop_factory

LINES = 20_000
CALLS = 500
TASKS = 64
BATCH = 32
RECORDS = 20_000
SMALL_FILES = 10_000

Question = Callable[[str], Awaitable[object]]
"""What is asked about a path."""


class Data:
    """The files that are read and written."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lines = str(folder / "lines")
        self.written = str(folder / "written")
        self.small = str(folder / "small")
        self.large = str(folder / "large")
        self.tree = str(folder / "tree")
        self.many = str(folder / "many")
        self.text = [f"sample {number:>9}, 21.50\n" for number in range(LINES)]
        self.bytes = [line.encode() for line in self.text]
        chance = random.Random(1)
        self.offsets = [chance.randrange((1 << 20) - 4096) for _ in range(BATCH)]
        self.log = str(folder / "log")
        Path(self.lines).write_text("".join(self.text))
        Path(self.small).write_text(
            "sixty-three characters and the end of a line make one of 64 B\n" * 64
        )
        Path(self.large).write_bytes(os.urandom(1 << 20))
        for number in range(200):
            for file in range(10):
                path = Path(self.tree, str(number % 10), str(number), str(file))
                path.parent.mkdir(parents=True, exist_ok=True)
                path.touch()

    def write_small_files(self, count: int = SMALL_FILES) -> None:
        """Make a folder of ``count`` files of 4 KiB."""
        os.makedirs(self.many, exist_ok=True)
        for number in range(count):
            Path(self.many, str(number)).write_bytes(number.to_bytes(4, "big") * 1024)

    def write_log(self) -> None:
        """Make an append log of ``RECORDS`` records, one commit each."""
        from penstock.files._log.log_format import encode_file_header, new_identity

        log = new_identity()
        parts = [encode_file_header(log)]
        place = len(parts[0])
        for number in range(RECORDS):
            payload = b"%0100d" % number
            parts += (log.encode_header(place, place, len(payload), crc32(payload)), payload)
            place += log.header_size + len(payload)
        Path(self.log).write_bytes(b"".join(parts))


class BuiltIn:
    """The built-in ``open`` and ``os``. Each method does the work of a whole row."""

    def __init__(self, data: Data) -> None:
        self.data = data
        self.fd = os.open(data.large, os.O_RDONLY)

    def open_read_close(self, mode: str, encoding: str | None = None) -> int:
        for _ in range(CALLS):
            with open(self.data.small, mode, encoding=encoding) as file:
                file.read()
        return CALLS

    def iterate(self, mode: str) -> int:
        with open(self.data.lines, mode) as file:
            return sum(1 for _ in file)

    def read_lines(self, mode: str) -> int:
        with open(self.data.lines, mode) as file:
            return len(file.readlines())

    def write_lines(self, mode: str, lines: list[Any]) -> int:
        with open(self.data.written, mode) as file:
            file.writelines(lines)
        return len(lines)

    def each_line(self, mode: str) -> int:
        count = 0
        with open(self.data.lines, mode) as file:
            while file.readline():
                count += 1
        return count

    def small_writes(self, mode: str, line: Any) -> int:
        with open(self.data.written, mode) as file:
            for _ in range(LINES):
                file.write(line)
        return LINES

    def read_batch(self) -> int:
        for _ in range(CALLS // BATCH):
            [os.pread(self.fd, 4096, offset) for offset in self.data.offsets]
        return CALLS // BATCH * BATCH

    def read_each(self) -> int:
        for _ in range(CALLS // BATCH):
            for offset in self.data.offsets:
                os.pread(self.fd, 4096, offset)
        return CALLS // BATCH * BATCH

    def read_log(self) -> int:
        """Read the log's file in pieces, and look at nothing."""
        with open(self.data.log, "rb", buffering=0) as file:
            while file.read(1 << 20):
                pass
        return RECORDS

    def read_folder(self) -> int:
        """Read every file of a folder, with as few calls as ``os`` needs."""
        found = []
        for name in os.listdir(self.data.many):
            fd = os.open(f"{self.data.many}/{name}", os.O_RDONLY)
            found.append((name, os.read(fd, 65536)))
            os.close(fd)
        return len(found)

    def ask(self, question: Callable[[str], object]) -> int:
        for _ in range(CALLS):
            question(self.data.small)
        return CALLS

    def walk(self) -> int:
        return sum(len(names) for _, _, names in os.walk(self.data.tree))


def on_built_in(work: str, data: Data) -> Callable[[], int]:
    """The work, blocking."""
    plain = BuiltIn(data)
    works: dict[str, Callable[[], int]] = {
        "open-read-close": lambda: plain.open_read_close("rb"),
        "open-read-close-tasks": lambda: plain.open_read_close("rb"),
        "open-read-close-text": lambda: plain.open_read_close("r", "utf-8"),
        "iterate-bytes": lambda: plain.iterate("rb"),
        "iterate-text": lambda: plain.iterate("r"),
        "readlines-bytes": lambda: plain.read_lines("rb"),
        "readlines-text": lambda: plain.read_lines("r"),
        "writelines-bytes": lambda: plain.write_lines("wb", data.bytes),
        "writelines-text": lambda: plain.write_lines("w", data.text),
        "readline-bytes": lambda: plain.each_line("rb"),
        "readline-text": lambda: plain.each_line("r"),
        "write-bytes": lambda: plain.small_writes("wb", data.bytes[0]),
        "write-text": lambda: plain.small_writes("w", data.text[0]),
        "pread": plain.read_each,
        "pread-many": plain.read_batch,
        "log-replay": plain.read_log,
        "log-open": plain.read_log,
        "stat": lambda: plain.ask(os.stat),
        "stat-many": lambda: plain.ask(os.stat),
        "exists": lambda: plain.ask(os.path.exists),
        "isfile": lambda: plain.ask(os.path.isfile),
        "access": lambda: plain.ask(lambda path: os.access(path, os.R_OK)),
        "walk": plain.walk,
        "scan": plain.read_folder,
    }
    return works[work]


class Library:
    """An asynchronous library: how it opens a file, and whom it asks."""

    def __init__(
        self,
        open_file: Callable[..., Any],
        questions: dict[str, Callable[[str], Awaitable[object]]],
    ) -> None:
        self.open = open_file
        self.questions = questions


def on_library(work: str, data: Data, library: Library) -> Callable[[], Awaitable[int]]:
    """The work with an asynchronous library.

    Raises:
        Unavailable: if the library has nothing for it.
    """

    async def open_read_close(count: int, mode: str, encoding: str | None = None) -> int:
        for _ in range(count):
            async with library.open(data.small, mode, encoding=encoding) as file:
                await file.read()
        return count

    async def in_tasks() -> int:
        each = CALLS // TASKS + 1
        return sum(await asyncio.gather(*(open_read_close(each, "rb") for _ in range(TASKS))))

    async def iterate(mode: str) -> int:
        count = 0
        async with library.open(data.lines, mode) as file:
            async for _ in file:
                count += 1
        return count

    async def read_lines(mode: str) -> int:
        async with library.open(data.lines, mode) as file:
            return len(await file.readlines())

    async def write_lines(mode: str, lines: list[Any]) -> int:
        async with library.open(data.written, mode) as file:
            await file.writelines(lines)
        return len(lines)

    async def each_line(mode: str) -> int:
        count = 0
        async with library.open(data.lines, mode) as file:
            while await file.readline():
                count += 1
        return count

    async def small_writes(mode: str, line: Any) -> int:
        async with library.open(data.written, mode) as file:
            for _ in range(LINES):
                await file.write(line)
        return LINES

    async def ask(question: Callable[[str], Awaitable[object]]) -> int:
        for _ in range(CALLS):
            await question(data.small)
        return CALLS

    works: dict[str, Callable[[], Awaitable[int]]] = {
        "open-read-close": lambda: open_read_close(CALLS, "rb"),
        "open-read-close-tasks": in_tasks,
        "open-read-close-text": lambda: open_read_close(CALLS, "r", "utf-8"),
        "iterate-bytes": lambda: iterate("rb"),
        "iterate-text": lambda: iterate("r"),
        "readlines-bytes": lambda: read_lines("rb"),
        "readlines-text": lambda: read_lines("r"),
        "writelines-bytes": lambda: write_lines("wb", data.bytes),
        "writelines-text": lambda: write_lines("w", data.text),
        "readline-bytes": lambda: each_line("rb"),
        "readline-text": lambda: each_line("r"),
        "write-bytes": lambda: small_writes("wb", data.bytes[0]),
        "write-text": lambda: small_writes("w", data.text[0]),
    }
    works |= {name: partial(ask, each) for name, each in library.questions.items()}
    if work not in works:
        raise Unavailable("it has no such call")
    return works[work]


def on_penstock(work: str, data: Data) -> Callable[[], Awaitable[int]]:
    """The work with ``penstock.files``."""
    from penstock import files

    async def read_batch() -> int:
        async with files.open(data.large, "rb") as file:
            for _ in range(CALLS // BATCH):
                await file.pread_many(4096, data.offsets)
        return CALLS // BATCH * BATCH

    async def read_each() -> int:
        async with files.open(data.large, "rb") as file:
            for _ in range(CALLS // BATCH):
                for offset in data.offsets:
                    await file.pread(4096, offset)
        return CALLS // BATCH * BATCH

    async def replay() -> int:
        count = 0
        async for _ in files.read_log(data.log):
            count += 1
        return count

    async def open_log() -> int:
        async with files.AppendLog(data.log) as log:
            return log.count

    async def ask_many() -> int:
        return len(await files.stat_many([data.small] * CALLS))

    async def walk() -> int:
        count = 0
        async for _, _, names in files.Path(data.tree).walk():
            count += len(names)
        return count

    async def scan() -> int:
        return len([entry async for entry in files.scan(data.many, contents=True)])

    own: dict[str, Callable[[], Awaitable[int]]] = {
        "pread": read_each,
        "pread-many": read_batch,
        "log-replay": replay,
        "log-open": open_log,
        "stat-many": ask_many,
        "walk": walk,
        "scan": scan,
    }
    questions: dict[str, Question] = {
        "stat": files.stat,
        "exists": files.ospath.exists,
        "isfile": files.ospath.isfile,
        "access": lambda path: files.access(path, os.R_OK),
    }
    return own[work] if work in own else on_library(work, data, Library(files.open, questions))


def on_aiofiles(work: str, data: Data) -> Callable[[], Awaitable[int]]:
    """The work with aiofiles."""
    aiofiles: Any = _imported("aiofiles")
    functions: Any = _imported("aiofiles.os")
    questions = {
        "stat": functions.stat,
        "exists": functions.path.exists,
        "isfile": functions.path.isfile,
        "access": lambda path: functions.access(path, os.R_OK),
    }
    return on_library(work, data, Library(aiofiles.open, questions))


def on_anyio(work: str, data: Data) -> Callable[[], Awaitable[int]]:
    """The work with AnyIO."""
    anyio: Any = _imported("anyio")

    class Opening:
        def __init__(self, *arguments: Any, **options: Any) -> None:
            self._opening = anyio.open_file(*arguments, **options)

        async def __aenter__(self) -> Any:
            self._file = await self._opening
            return self._file

        async def __aexit__(self, *_: object) -> None:
            await self._file.aclose()

    path = anyio.Path(data.small)
    questions: dict[str, Question] = {
        "stat": lambda _: path.stat(),
        "exists": lambda _: path.exists(),
        "isfile": lambda _: path.is_file(),
    }
    return on_library(work, data, Library(Opening, questions))


def on_aiofile(work: str, data: Data) -> Callable[[], Awaitable[int]]:
    """The work with aiofile, which has no ``readlines`` and ``writelines``, and asks nothing."""
    aiofile: Any = _imported("aiofile")
    if work.startswith(("readlines", "writelines")):
        raise Unavailable("it has no such call")

    def open_file(path: str, mode: str, *, encoding: str | None = None) -> Any:
        options = {} if encoding is None else {"encoding": encoding}
        return aiofile.async_open(path, mode, **options)

    return on_library(work, data, Library(open_file, {}))


def on_caio(work: str, data: Data) -> Callable[[], Awaitable[int]]:
    """The reads with caio, which knows descriptors only."""
    caio: Any = _imported("caio")
    if work != "pread":
        raise Unavailable("it has no such call")
    fd = os.open(data.large, os.O_RDONLY)
    context: Any = None

    async def read_each() -> int:
        nonlocal context
        if context is None:
            context = caio.AsyncioContext()
        for _ in range(CALLS // BATCH):
            for offset in data.offsets:
                await context.read(4096, fd, offset)
        return CALLS // BATCH * BATCH

    return read_each


def _imported(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise Unavailable(f"{name} is not installed here: {error}") from error


PEERS: dict[str, tuple[str, Callable[[str, Data], Callable[[], Awaitable[int]]]]] = {
    "penstock": ("penstock", on_penstock),
    "penstock@asyncio": ("asyncio", on_penstock),
    "penstock@uvloop": ("uvloop", on_penstock),
    "aiofiles": ("asyncio", on_aiofiles),
    "aiofiles@uvloop": ("uvloop", on_aiofiles),
    "aiofiles@penstock": ("penstock", on_aiofiles),
    "anyio": ("asyncio", on_anyio),
    "aiofile": ("asyncio", on_aiofile),
    "caio": ("asyncio", on_caio),
}
"""The loop, and the work."""

WORKS = (
    *("open-read-close", "open-read-close-tasks", "open-read-close-text"),
    *("iterate-bytes", "iterate-text", "readlines-bytes", "readlines-text"),
    *("writelines-bytes", "writelines-text", "readline-bytes", "readline-text"),
    *("write-bytes", "write-text", "pread", "pread-many", "log-replay", "log-open"),
    *("stat", "stat-many", "exists", "isfile", "access", "walk", "scan"),
)


def figures(units: int, begin: tuple[float, float]) -> dict[str, float]:
    """What the units have cost since ``begin``."""
    cpu, wall = time.process_time() - begin[0], time.perf_counter() - begin[1]
    return {"cpu_us": 1e6 * cpu / units, "wall_us": 1e6 * wall / units, "units": units}


def measure_blocking(work: Callable[[], int], seconds: float) -> dict[str, float]:
    """Do the work again and again."""
    work()
    begin, units = (time.process_time(), time.perf_counter()), 0
    while time.perf_counter() - begin[1] < seconds:
        units += work()
    return figures(units, begin)


async def measure_awaited(work: Callable[[], Awaitable[int]], seconds: float) -> dict[str, float]:
    """Do the work again and again, in one task."""
    await work()
    begin, units = (time.process_time(), time.perf_counter()), 0
    while time.perf_counter() - begin[1] < seconds:
        units += await work()
    return figures(units, begin)


def main() -> None:
    """Measure one kind of work."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--peer", required=True, choices=["built-in", *PEERS])
    parser.add_argument("--work", required=True, choices=WORKS)
    parser.add_argument("--folder", required=True, type=Path)
    parser.add_argument("--seconds", type=float, default=0.3)
    options = parser.parse_args()
    data = Data(options.folder)
    if options.work.startswith("log-"):
        data.write_log()
    if options.work == "scan":
        data.write_small_files()
    if options.peer == "built-in":
        print(json.dumps(measure_blocking(on_built_in(options.work, data), options.seconds)))
        return
    loop, make = PEERS[options.peer]

    async def measured() -> dict[str, float]:
        return await measure_awaited(make(options.work, data), options.seconds)

    with asyncio.Runner(loop_factory=loop_factory(loop)) as runner:
        print(json.dumps(runner.run(measured())))


if __name__ == "__main__":
    sys.exit(exit_code(main))
