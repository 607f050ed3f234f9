"""Compares random reads, writes, cancels, closes and garbage collections with a model, by byte.

A file consists of slots, and the model holds the content of each. Tasks read and write slots until
they are cancelled, at any moment; the file is also closed at any moment. A read must return the
model's bytes. A write that was cancelled, or ended by the close, may or may not happen. No task
uses its slot until the file is closed; then the slot holds either the old or the new bytes, whole.
At the end, no additional descriptor is open.

Through the page cache, most operations complete before a task can cancel them. With O_DIRECT, all
of them are in flight for a while.
"""

from __future__ import annotations

import asyncio
import gc
import os
import random
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from penstock import files
from penstock.files._backend import current_backend
from tests.python.files.open_files import open_files

pytestmark = pytest.mark.slow

SLOTS = 24
SLOT = 8192
GUARD = 4096
TASKS = 10
ENGINES = ("uring", "threads")


class Torn(AssertionError):
    """A read returned bytes that no task wrote in this place."""


class Model:
    """The content of each slot; a cancelled write leaves several possibilities."""

    def __init__(self, path: Path, chance: random.Random) -> None:
        self.path = path
        self.chance = chance
        self.slots = [self.fresh(number) for number in range(SLOTS)]
        self.uncertain: dict[int, list[bytes]] = {}
        self.writing: set[int] = set()
        self.reading = [0] * SLOTS
        path.write_bytes(b"".join(self.slots))

    def fresh(self, slot: int) -> bytes:
        """Return bytes that name their slot, and occur nowhere else."""
        return (bytes([slot]) + self.chance.randbytes(7)) * (SLOT // 8)

    def readable(self) -> int | None:
        """Return a slot whose content is certain now, and stays so during a read."""
        free = [n for n in range(SLOTS) if n not in self.uncertain and n not in self.writing]
        return self.chance.choice(free) if free else None

    def writable(self) -> int | None:
        """Return a slot that no operation uses."""
        slot = self.readable()
        return None if slot is None or self.reading[slot] else slot

    def check(self, slot: int, data: bytes | memoryview) -> None:
        if data != self.slots[slot]:
            raise Torn(f"slot {slot}: {bytes(data[:16])!r}…")

    def settle(self) -> None:
        """Check that each slot holds one of its possibilities, once the file is closed."""
        assert not self.writing and not any(self.reading)
        data = self.path.read_bytes()
        assert len(data) == SLOTS * SLOT
        for slot in range(SLOTS):
            found = data[slot * SLOT : (slot + 1) * SLOT]
            if found not in self.uncertain.get(slot, [self.slots[slot]]):
                raise Torn(f"slot {slot} after closing: {found[:16]!r}…")
            self.slots[slot] = found
        self.uncertain.clear()


class ConcurrentTasks:
    """Tasks on one file, until it is closed."""

    def __init__(self, model: Model, file: Any) -> None:
        self.model = model
        self.chance = model.chance
        self.file = file
        self.done = {"reads": 0, "writes": 0, "cancelled": 0}
        self.failure: BaseException | None = None
        self._progress: asyncio.Future[None] | None = None

    async def work(self) -> None:
        actions = (self.read, self.read, self.read_into, self.write, self.write, self.abandon)
        while True:
            await self.chance.choice(actions)()
            if self.chance.random() < 0.3:
                await asyncio.sleep(0)

    async def read(self) -> None:
        slot = self.model.readable()
        if slot is None:
            await asyncio.sleep(0)
            return
        self.model.reading[slot] += 1
        try:
            data = await self.file.pread(SLOT, slot * SLOT)
            self.model.check(slot, data)
            self.count("reads")
        finally:
            self.model.reading[slot] -= 1

    async def read_into(self) -> None:
        slot = self.model.readable()
        if slot is None:
            await asyncio.sleep(0)
            return
        buffer = files.aligned_buffer(SLOT + 2 * GUARD)
        buffer[:] = b"\xa5" * len(buffer)
        self.model.reading[slot] += 1
        try:
            view = buffer[GUARD : GUARD + SLOT]
            assert await self.file.pread_into(view, slot * SLOT) == SLOT
            self.model.check(slot, view)
            self.count("reads")
        finally:
            self.model.reading[slot] -= 1
            assert buffer[:GUARD] == buffer[-GUARD:] == b"\xa5" * GUARD

    async def write(self) -> None:
        slot = self.model.writable()
        if slot is None:
            await asyncio.sleep(0)
            return
        old, new = self.model.slots[slot], self.model.fresh(slot)
        self.model.writing.add(slot)
        self.model.uncertain[slot] = [old, new]
        try:
            # A buffer without another reference.
            data = files.aligned_buffer(SLOT)
            data[:] = new
            assert await self.file.pwrite(data, slot * SLOT) == SLOT
        finally:
            self.model.writing.discard(slot)
        del self.model.uncertain[slot]
        self.model.slots[slot] = new
        self.count("writes")

    async def abandon(self) -> None:
        """Begin operations that no task awaits."""
        backend = current_backend()
        descriptor = self.file.fileno()
        for _ in range(3):
            offset = self.chance.randrange(SLOTS) * SLOT
            operation = backend.read(descriptor, SLOT, offset, GUARD)
            operation.start()
            if self.chance.random() < 0.5:
                operation.close()
        if self.chance.random() < 0.02:
            gc.collect()

    def count(self, what: str) -> None:
        self.done[what] += 1
        if self._progress is not None and not self._progress.done():
            self._progress.set_result(None)

    async def progress(self) -> None:
        """Wait until an operation has succeeded, if any can."""
        if self.model.readable() is not None:
            self._progress = asyncio.get_running_loop().create_future()
            await self._progress

    async def run_turns(self, turns: int) -> None:
        """Run tasks, cancel some of them each turn, and close the file while the others use it."""
        tasks = {asyncio.ensure_future(self.work()) for _ in range(TASKS)}
        for _ in range(turns):
            for _ in range(self.chance.choice((0, 1, 1, 3, 20))):
                await asyncio.sleep(0)
            for _ in range(self.chance.choice((0, 0, 1, 4))):
                await self.progress()
            for task in self.chance.sample(sorted(tasks, key=id), self.chance.randrange(4)):
                task.cancel()
                self.done["cancelled"] += 1
                tasks.remove(task)
                self.ending(task)
                tasks.add(asyncio.ensure_future(self.work()))
            if self.chance.random() < 0.1:
                gc.collect()
        closing = asyncio.ensure_future(self.file.close())
        if self.chance.random() < 0.5:
            await asyncio.sleep(0)
            closing.cancel()
        for task in tasks:
            task.cancel()
        for result in await asyncio.gather(*tasks, closing, return_exceptions=True):
            # A closed file refuses calls, and its descriptor is no longer valid.
            assert isinstance(result, (asyncio.CancelledError, ValueError, type(None))), result
        await self.file.close()

    def ending(self, task: asyncio.Future[None]) -> None:
        """Check that a cancelled task ends as cancelled, and not with a wrong byte."""
        task.add_done_callback(self._check)

    def _check(self, task: asyncio.Future[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            self.failure = task.exception()
            if self._progress is not None and not self._progress.done():
                self._progress.set_result(None)


async def until_settled(path: Path) -> None:
    """Wait until no descriptor of the file is open: a cancelled close still continues."""
    async with asyncio.timeout(40):
        while str(path) in open_files():  # noqa: ASYNC110 # no event exists for this
            await asyncio.sleep(0.001)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("flags", [0, os.O_DIRECT], ids=["cached", "direct"])
@pytest.mark.parametrize("seed", range(4))
def test_every_byte_is_where_it_was_written(
    engine: str, seed: int, flags: int, tmp_path: Path, run_on_engine: Callable[..., Any]
) -> None:
    chance = random.Random(seed)
    path = tmp_path / "slots"
    model = Model(path, chance)
    totals = {"reads": 0, "writes": 0, "cancelled": 0}

    async def main() -> None:
        for _ in range(6):
            file = await files.open(path, "r+b", buffering=0, flags=flags)
            tasks_on_file = ConcurrentTasks(model, file)
            await tasks_on_file.run_turns(turns=60)
            if tasks_on_file.failure is not None:
                raise tasks_on_file.failure
            await until_settled(path)
            model.settle()
            for name, count in tasks_on_file.done.items():
                totals[name] += count

    run_on_engine(engine, main())
    assert totals["reads"] > 50 and totals["writes"] > 20 and totals["cancelled"] > 50


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("seed", range(3))
def test_whole_files_are_old_or_new_and_leave_no_descriptor(
    engine: str, seed: int, tmp_path: Path, run_on_engine: Callable[..., Any]
) -> None:
    chance = random.Random(seed)
    paths = [tmp_path / str(number) for number in range(8)]
    contents = [chance.randbytes(chance.randrange(1, 50_000)) for _ in paths]
    for path, content in zip(paths, contents, strict=True):
        path.write_bytes(content)
    target = tmp_path / "target"
    target.write_bytes(b"first")
    possible = {b"first"}

    async def read_some() -> None:
        chosen = chance.sample(range(8), 5)
        found = await files.read_files([paths[n] for n in chosen], queue_depth=3)
        assert found == [contents[n] for n in chosen]

    async def open_and_close() -> None:
        number = chance.randrange(8)
        async with files.open(paths[number], "rb") as file:
            assert await file.read() == contents[number]

    async def write_target() -> None:
        data = chance.randbytes(30_000)
        possible.add(data)
        await files.write_file(target, data, atomic=True)

    async def copy_one() -> None:
        number = chance.randrange(8)
        possible.add(contents[number])
        await files.copy(paths[number], target, sync=False)

    async def attempt(action: Callable[[], Coroutine[Any, Any, None]], turns: int) -> None:
        task = asyncio.ensure_future(action())
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        (result,) = await asyncio.gather(task, return_exceptions=True)
        assert result is None or isinstance(result, asyncio.CancelledError), result

    async def main() -> None:
        actions = (read_some, open_and_close, write_target, copy_one)
        for _ in range(60):
            await asyncio.gather(
                *(attempt(chance.choice(actions), chance.randrange(30)) for _ in range(4))
            )
            assert target.read_bytes() in possible
            if chance.random() < 0.1:
                gc.collect()
        await until_settled(target)
        for path in paths:
            await until_settled(path)

    run_on_engine(engine, main())
    assert sorted(os.listdir(tmp_path)) == sorted([*map(str, range(8)), "target"])
