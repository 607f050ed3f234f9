"""Operations whose data are all cached still let other tasks run.

Only benchmarks can measure the length of a turn. These tests count the steps in one turn.
"""

from __future__ import annotations

import codecs
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from zlib import crc32

import anyio
import anyio.lowlevel
import pytest

from penstock import files
from penstock.files._backend import current_backend
from penstock.files._log import append_log, log_reader
from penstock.files._log.log_format import encode_file_header, new_identity

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def counted_turns() -> AsyncIterator[Callable[[], int]]:
    """Count the turns of another task."""
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            await anyio.lowlevel.checkpoint()
            turns += 1

    async with anyio.create_task_group() as group:
        group.start_soon(count)
        await anyio.lowlevel.checkpoint()
        yield lambda: turns
        group.cancel_scope.cancel()


class LongestRun:
    """The largest number of steps in one turn."""

    def __init__(self, turns: Callable[[], int]) -> None:
        self._turns = turns
        self._turn = turns()
        self._run = 0
        self.longest = 0

    def step(self) -> None:
        turn = self._turns()
        self._run = self._run + 1 if turn == self._turn else 1
        self._turn = turn
        self.longest = max(self.longest, self._run)


async def test_reading_many_cached_files_lets_other_tasks_run(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"content")
    async with counted_turns() as turns:
        contents = await files.read_files([path] * 20_000)
        assert turns() > 5
    assert len(contents) == 20_000


@pytest.mark.parametrize("mode", ["r", "rb"])
async def test_a_loop_over_empty_lines_lets_other_tasks_run(mode: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"\n" * 600_000)
    async with files.open(path, mode) as file, counted_turns() as turns:
        run = LongestRun(turns)
        count = 0
        async for _ in file:
            run.step()
            count += 1
    assert count == 600_000
    assert run.longest < 100_000


async def test_a_loop_over_the_records_of_a_log_lets_other_tasks_run(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log = new_identity()
    data = [encode_file_header(log)]
    for place in range(24, 24 + 60_000 * 29, 29):
        data += (log.encode_header(24, place, 1, crc32(b"x")), b"x")
    path.write_bytes(b"".join(data))
    async with counted_turns() as turns:
        run = LongestRun(turns)
        count = 0
        async for _ in files.read_log(path):
            run.step()
            count += 1
    assert count == 60_000
    assert run.longest < 20_000


async def test_a_task_that_works_for_long_between_cached_reads_yields_at_each(
    tmp_path: Path,
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"content")
    async with files.open(path, "rb") as file, counted_turns() as turns:
        run = LongestRun(turns)
        for _ in range(40):
            await file.pread(1, 0)
            run.step()
            end = time.perf_counter() + 0.003  # longer than the time slice of a task
            while time.perf_counter() < end:
                pass
    assert run.longest <= 2


async def test_tasks_that_yield_run_alternately(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(4096))
    done: list[int] = []

    async def read(number: int) -> None:
        async with files.open(path, "rb", buffering=0) as file:
            for _ in range(300):
                await file.pread(4096, 0)
                done.append(number)

    async with anyio.create_task_group() as group:
        for number in range(20):
            group.start_soon(read, number)
    assert sorted(done) == sorted(list(range(20)) * 300)


class Recorded:
    """A codec that records the sizes of its inputs."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        sizes = self.sizes

        class Decoder(codecs.getincrementaldecoder("latin-1")):  # type: ignore[misc]
            def decode(self, data: bytes, final: bool = False) -> str:
                sizes.append(len(data))
                return codecs.latin_1_decode(data)[0]

        class Encoder(codecs.getincrementalencoder("latin-1")):  # type: ignore[misc]
            def encode(self, text: str, final: bool = False) -> bytes:
                sizes.append(len(text))
                return codecs.latin_1_encode(text)[0]

        latin = codecs.lookup("latin-1")
        self._info = codecs.CodecInfo(
            latin.encode,
            latin.decode,
            latin.streamreader,
            latin.streamwriter,
            Encoder,
            Decoder,
            "recorded",
        )

    def find(self, name: str) -> codecs.CodecInfo | None:
        return self._info if name == "recorded" else None


@pytest.fixture
def recorded() -> Iterator[Recorded]:
    codec = Recorded()
    find = codec.find  # unregister compares by identity
    codecs.register(find)
    yield codec
    codecs.unregister(find)


TEXT = "0123456789abcde\n" * (1 << 18)


async def test_a_large_text_is_decoded_and_encoded_in_slices(
    recorded: Recorded, tmp_path: Path
) -> None:
    path = tmp_path / "file"
    async with files.open(path, "w", encoding="recorded", newline="\r\n") as file:
        assert await file.write(TEXT) == len(TEXT)
    written = sum(recorded.sizes)
    async with files.open(path, encoding="recorded") as file:
        assert await file.read(3) == TEXT[:3]
        assert await file.read() == TEXT[3:]
        assert await file.read() == ""
    assert path.read_bytes() == TEXT.encode().replace(b"\n", b"\r\n")
    assert sum(recorded.sizes) - written == path.stat().st_size
    assert max(recorded.sizes) <= 1 << 20


async def test_a_large_text_that_cannot_be_encoded_is_not_written_at_all(
    tmp_path: Path,
) -> None:
    path = tmp_path / "file"
    async with files.open(path, "w", encoding="ascii") as file:
        with pytest.raises(UnicodeEncodeError):
            await file.write(TEXT + "é")
        await file.write("after")
    assert path.read_text() == "after"


async def test_a_cancelled_large_read_keeps_the_position(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text(TEXT)
    async with files.open(path, encoding="utf-8") as file:
        assert await file.read(5) == TEXT[:5]
        text = ""
        with anyio.CancelScope() as scope:
            scope.cancel()
            text = await file.read()
        assert text + await file.read() == TEXT[5:]


async def test_a_large_record_is_checked_off_the_loop_without_a_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = threading.get_ident()
    elsewhere: list[int] = []

    def checked(data: bytes) -> int:
        if threading.get_ident() == here:
            assert len(data) < 1 << 20
        else:
            elsewhere.append(len(data))
        return crc32(data)

    monkeypatch.setattr(append_log, "crc32", checked)
    monkeypatch.setattr(log_reader, "crc32", checked)
    records = [b"small", bytes(3 << 20), b"", bytes(5 << 20), b"end"]
    async with files.AppendLog(tmp_path / "log") as log:
        async with anyio.create_task_group() as group:
            for record in records:
                group.start_soon(log.append, record)
        written = [record async for record in log]
    assert sorted(written) == sorted(records)
    assert [record async for record in files.read_log(tmp_path / "log")] == written
    assert sorted(elsewhere) == [3 << 20] * 3 + [5 << 20] * 3


async def test_a_large_record_that_was_cut_or_damaged_is_detected(tmp_path: Path) -> None:
    path = tmp_path / "log"
    async with files.AppendLog(path) as log:
        await log.append(b"first")
        await log.append(bytes(3 << 20))
        await log.append(b"last")
    whole = path.read_bytes()
    damaged = bytearray(whole)
    damaged[len(whole) // 2] ^= 1
    path.write_bytes(damaged)
    found = []
    with pytest.raises(files.LogDamaged, match="checksum"):
        async for record in files.read_log(path):
            found.append(record)
    assert found == [b"first"]
    for size in (len(whole) // 2, 24 + 29 + 24, 24 + 29 + 30):
        path.write_bytes(whole[:size])
        assert [record async for record in files.read_log(path)] == [b"first"]


async def test_a_yield_can_be_cancelled_and_abandoned() -> None:
    backend = current_backend()
    given_up = backend.yield_now()
    given_up.close()
    with anyio.CancelScope() as scope:
        scope.cancel()
        await backend.yield_now()
    await backend.yield_now()
