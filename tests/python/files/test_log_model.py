"""Compares AppendLog with a list of records: appends, cancels, full disks, closes and crashes."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.abc import TaskStatus
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.files import AppendLog
from penstock.files._backend import current_backend
from tests.python.files.conftest import UseBackend
from tests.python.files.faulty_backend import FaultyBackend, system_error

PAYLOADS = st.one_of(st.binary(max_size=40), st.integers(0, 5000).map(lambda size: b"\7" * size))

# Appends of one commit, each with whether it is cancelled while it waits.
APPENDS = st.tuples(
    st.just("append"), st.lists(st.tuples(PAYLOADS, st.booleans()), min_size=1, max_size=6)
)
STEPS = st.lists(
    st.one_of(
        APPENDS,
        st.tuples(st.just("full disk"), st.lists(PAYLOADS, min_size=1, max_size=3)),
        st.tuples(st.just("reopen"), st.just(None)),
        # A crash leaves the durable data, then any prefix of the later data, or random bytes.
        st.tuples(st.just("crash"), st.one_of(st.integers(0, 100), st.binary(max_size=60))),
        st.tuples(st.just("iterate"), st.just(None)),
    ),
    max_size=12,
)


class Model:
    """The log, and the records that it must hold."""

    def __init__(self, path: Path, disk: FullDisk) -> None:
        self.path = path
        self.disk = disk
        self.records: list[bytes] = []
        self.log = AppendLog(path)

    async def append(self, appends: list[tuple[bytes, bool]]) -> None:
        kept: list[tuple[int, bytes]] = []

        async def append(payload: bytes, *, task_status: TaskStatus[anyio.CancelScope]) -> None:
            with anyio.CancelScope() as scope:
                task_status.started(scope)
                number = await self.log.append(payload)
                kept.append((number, payload))

        async with anyio.create_task_group() as group:
            for payload, cancelled in appends:
                scope = await group.start(append, payload)
                if cancelled:
                    scope.cancel()
        # Once this append is acknowledged, the fate of the cancelled appends before it is final.
        kept.append((await self.log.append(b"end"), b"end"))
        appends = [*appends, (b"end", False)]
        # A cancelled append may be in the log. Any other is there, at the number that it returned.
        found = [record async for record in self.log]
        assert found[: len(self.records)] == self.records
        new = found[len(self.records) :]
        for number, payload in kept:
            assert found[number] == payload
        assert is_subsequence(new, [payload for payload, _ in appends])
        certain = [payload for payload, cancelled in appends if not cancelled]
        assert is_subsequence(certain, new)
        self.records = found

    async def full_disk(self, payloads: list[bytes]) -> None:
        self.disk.full = True
        for payload in payloads:
            with pytest.raises(OSError, match="No space left"):
                await self.log.append(payload)
        self.disk.full = False

    async def reopen(self, _: None) -> None:
        await self.log.close()
        self.log = await AppendLog(self.path)
        assert self.log.recovered.torn == 0

    async def crash(self, remains: int | bytes) -> None:
        if isinstance(remains, int):
            before = self.log.size
            await self.log.append(b"not acknowledged" * 5)
            torn = self.path.read_bytes()[before:][:-1][:remains]
            os.truncate(self.path, before)
        else:
            torn = remains
        await self.log.close()
        with open(self.path, "ab") as file:
            file.write(torn)
        self.log = await AppendLog(self.path)
        assert self.log.recovered.torn == len(torn)

    async def iterate(self, _: None) -> None:
        assert [record async for record in self.log] == self.records


class FullDisk(FaultyBackend):
    """Accepts only half of a write while it is full."""

    full = False

    async def write(self, fd: int, data: bytes, offset: int) -> None:
        await current_backend().write(fd, data[: len(data) // 2] if self.full else data, offset)
        if self.full:
            raise system_error(errno.ENOSPC)


def is_subsequence(part: list[bytes], whole: list[bytes]) -> bool:
    rest = iter(whole)
    return all(item in rest for item in part)


@asynccontextmanager
async def modelled(disk: FullDisk) -> AsyncIterator[Model]:
    with tempfile.TemporaryDirectory() as folder:
        model = Model(Path(folder, "log"), disk)
        await model.log.open()
        try:
            yield model
        finally:
            await model.log.close()


@pytest.mark.parametrize("loop", ["asyncio", "penstock", "trio"])
def test_a_log_holds_what_its_model_holds(
    loop: str, run_on: Callable[..., Any], use_backend: UseBackend
) -> None:
    disk = FullDisk()
    use_backend(disk)

    async def follow(steps: list[tuple[str, Any]]) -> None:
        async with modelled(disk) as model:
            for name, argument in steps:
                await getattr(model, name.replace(" ", "_"))(argument)
                assert model.log.count == len(model.records)
                assert model.log.size == model.path.stat().st_size
            await model.reopen(None)
            await model.iterate(None)

    @settings(
        max_examples=50,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    )
    @given(STEPS)
    def run(steps: list[tuple[str, Any]]) -> None:
        run_on(loop, follow, steps)

    run()
