"""How long a file operation blocks the loop: the program of the page file_gaps.

    python benchmarks/file_gaps.py --peer penstock --operation lines --folder /tmp

Runs one operation beside a timer of 1 ms on the same loop. Prints one JSON line: ``gap``, the
longest time between two ticks, and ``seconds``, the duration of the operation. Files that it reads
are created first unless they exist.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    # Python puts the folder of a script on the path; the package is in a folder above.
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from benchmarks.measured_program import Unavailable, exit_code, loop_factory

TICK = 0.001
MIB = 1 << 20
LINE = "line {} of a file of text\n"
CHARACTERS = "some wörds of a text\n"


class Data:
    """The data of the operations. ``scale`` divides their amount, for a quick run."""

    def __init__(self, folder: Path, scale: int) -> None:
        self.folder = folder
        self.size = (1 << 30) // scale
        self.text_size = 200 * MIB // scale
        self.record_size = 100 * MIB // scale
        self.count = 1_000_000 // scale
        self.files = 50_000 // scale
        self.target = str(folder / "target")

    def _made(self, name: str, write: Callable[[Any], object]) -> str:
        path = self.folder / name
        if not path.exists():
            with path.open("wb") as file:
                write(file)
        return str(path)

    def large(self) -> str:
        """A file of random bytes."""
        piece = os.urandom(MIB)
        return self._made(
            "large", lambda file: [file.write(piece) for _ in range(max(1, self.size // MIB))]
        )

    def text(self) -> str:
        """A large text with characters beyond ASCII."""
        piece = CHARACTERS.encode() * 50_000
        return self._made(
            "text",
            lambda file: [file.write(piece) for _ in range(max(1, self.text_size // len(piece)))],
        )

    def lines(self) -> str:
        """Many short lines."""
        return self._made(
            "lines",
            lambda file: file.writelines(LINE.format(n).encode() for n in range(self.count)),
        )

    def small(self) -> list[str]:
        """Many small files."""
        names = [self._made(f"small-{n}", lambda file: file.write(b"x" * 4096)) for n in (0,)]
        content = Path(names[0]).read_bytes()
        for number in range(1, self.files):
            path = self.folder / f"small-{number}"
            if not path.exists():
                path.write_bytes(content)
            names.append(str(path))
        return names


Prepared = Callable[[], Awaitable[object]]


def on_penstock(operation: str, data: Data) -> Prepared:
    """The operation on ``penstock.files``."""
    from penstock import files

    async def each_line(path: str, mode: str) -> None:
        async with files.open(path, mode) as file:
            async for _ in file:
                pass

    async def read_text(path: str) -> str:
        async with files.open(path, encoding="utf-8") as file:
            return await file.read()

    async def write_text(text: str) -> None:
        async with files.open(data.target, "w", encoding="utf-8") as file:
            await file.write(text)

    async def read_bytes(path: str) -> bytes:
        async with files.open(path, "rb") as file:
            return await file.read()

    async def append(record: bytes) -> None:
        async with files.AppendLog(data.target) as log:
            await log.append(record)

    async def each_record(path: str) -> None:
        async for _ in files.read_log(path):
            pass

    def log() -> str:
        path = str(data.folder / "log")
        if not os.path.exists(path):
            from zlib import crc32

            from penstock.files._log.log_format import encode_file_header, new_identity

            identity, begin, payload = new_identity(), 24, b"a record"
            step = identity.header_size + len(payload)
            checksum = crc32(payload)
            with open(path, "wb") as file:
                file.write(encode_file_header(identity))
                for place in range(begin, begin + data.count * step, step):
                    header = identity.encode_header(begin, place, len(payload), checksum)
                    file.write(header + payload)
        return path

    return _chosen(
        operation,
        {
            "read": lambda: _with(read_bytes, data.large()),
            "read-file": lambda: _with(files.read_file, data.large()),
            "write-file": lambda: _with(files.write_file, data.target, os.urandom(data.size)),
            "copy": lambda: _with(files.copy, data.large(), data.target),
            "read-text": lambda: _with(read_text, data.text()),
            "write-text": lambda: _with(write_text, _text(data)),
            "lines": lambda: _with(each_line, data.lines(), "r"),
            "binary-lines": lambda: _with(each_line, data.lines(), "rb"),
            "small-files": lambda: _with(files.read_files, data.small()),
            "append": lambda: _with(append, os.urandom(data.record_size)),
            "records": lambda: _with(each_record, log()),
        },
    )


def on_aiofiles(operation: str, data: Data) -> Prepared:
    """The operation on aiofiles, which has only the methods of a file.

    Raises:
        Unavailable: if it has no such operation, or is not installed.
    """
    try:
        aiofiles: Any = importlib.import_module("aiofiles")
    except ImportError as error:
        raise Unavailable(f"aiofiles is not installed here: {error}") from error

    async def read(path: str, mode: str) -> object:
        encoding = None if "b" in mode else "utf-8"
        async with aiofiles.open(path, mode, encoding=encoding) as file:
            content: object = await file.read()
            return content

    async def write(content: bytes | str, mode: str) -> None:
        encoding = None if "b" in mode else "utf-8"
        async with aiofiles.open(data.target, mode, encoding=encoding) as file:
            await file.write(content)

    return _chosen(
        operation,
        {
            "read": lambda: _with(read, data.large(), "rb"),
            "read-file": lambda: _with(read, data.large(), "rb"),
            "write-file": lambda: _with(write, os.urandom(data.size), "wb"),
            "read-text": lambda: _with(read, data.text(), "r"),
            "write-text": lambda: _with(write, _text(data), "w"),
        },
    )


def _with(function: Callable[..., Awaitable[object]], *arguments: Any) -> Prepared:
    return lambda: function(*arguments)


def _text(data: Data) -> str:
    return CHARACTERS * (data.text_size // 2 // len(CHARACTERS))


def _chosen(operation: str, operations: dict[str, Callable[[], Prepared]]) -> Prepared:
    if operation not in operations:
        raise Unavailable("it has no such operation, or uses a thread for each line")
    return operations[operation]()


async def measure(operation: Prepared) -> dict[str, float]:
    """The longest gap of the timer while the operation runs."""
    longest = 0.0

    async def tick() -> None:
        nonlocal longest
        before = time.perf_counter()
        while True:
            await asyncio.sleep(TICK)
            now = time.perf_counter()
            longest = max(longest, now - before)
            before = now

    ticking = asyncio.ensure_future(tick())
    await asyncio.sleep(0.05)
    longest = 0.0
    begin = time.perf_counter()
    result = await operation()
    seconds = time.perf_counter() - begin
    await asyncio.sleep(2 * TICK)  # the tick that was overdue if the loop was blocked
    ticking.cancel()
    del result  # freeing a gigabyte is not part of the operation
    return {"gap": longest, "seconds": seconds}


PEERS = {"penstock": on_penstock, "aiofiles": on_aiofiles}
OPERATIONS = (
    *("read", "read-file", "write-file", "copy", "read-text", "write-text"),
    *("lines", "binary-lines", "small-files", "append", "records"),
)


def main() -> None:
    """Measure one operation of one peer."""
    parser = argparse.ArgumentParser(description="Gaps of a timer beside file operations")
    parser.add_argument("--peer", required=True, choices=PEERS)
    parser.add_argument("--operation", required=True, choices=OPERATIONS)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--scale", type=int, default=1, help="divides sizes and numbers")
    options = parser.parse_args()
    data = Data(options.folder, options.scale)
    operation = PEERS[options.peer](options.operation, data)
    factory = loop_factory("penstock" if options.peer == "penstock" else "asyncio")
    try:
        with asyncio.Runner(loop_factory=factory) as runner:
            figures = runner.run(measure(operation))
    finally:
        Path(data.target).unlink(missing_ok=True)
    print(json.dumps(figures))


if __name__ == "__main__":
    sys.exit(exit_code(main))
