"""Compares random operations, links, cancels, discards, closes and collections with a model.

The model is exact to the byte. For each operation it holds the possible effects. The checks: every
operation completes exactly once; a read returns the bytes of the file, a cancelled read changes no
memory; no byte of the pipe is lost or delivered twice; buffers are free again afterwards.
"""

from __future__ import annotations

import contextlib
import errno
import gc
import itertools
import os
import random
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.uring import BufferPool, UringCtx, UringError
from tests.python.uring.conftest import KINDS, run_python

pytestmark = pytest.mark.slow

BLOCK = 64
BLOCKS = 24
RECORD = 8
MARGIN = b"\xa5" * 16

Check = Callable[[Any], None]


class Model:
    def __init__(self, folder: Path, kind: str, seed: int) -> None:
        self.random = random.Random(f"{kind} {seed}")
        self.kind = kind
        self.fd = os.open(folder / f"{kind}-{seed}", os.O_RDWR | os.O_CREAT)
        self.content = bytearray(self.random.randbytes(BLOCK * BLOCKS))
        os.write(self.fd, self.content)
        self.reader, self.writer = os.pipe()
        os.set_blocking(self.reader, True)
        self.records = itertools.count(1)
        self.sent: set[bytes] = set()
        self.received: list[bytes] = []
        self.pool = BufferPool(8, BLOCK, registered=self.random.random() < 0.5)
        self.tags = itertools.count()
        self.checks: dict[Any, Check] = {}
        self.reading: dict[int, int] = dict.fromkeys(range(BLOCKS), 0)
        self.writing: set[int] = set()
        self.open_ring()

    def open_ring(self) -> None:
        self.ctx = UringCtx(self.random.choice([4, 16, 64]), **KINDS[self.kind])

    def new_tag(self) -> Any:
        number = next(self.tags)
        return self.random.choice([number, f"tag {number}", (number, "tag"), number + (1 << 40)])

    def link(self) -> dict[str, bool]:
        chance = self.random.random()
        if self.ctx.prepared + 1 >= self.ctx.entries or chance > 0.25:
            return {}
        return {self.random.choice(["link", "hardlink"]): True}

    # Steps

    def nop(self) -> None:
        tag = self.new_tag()

        def check(result: Any) -> None:
            assert result in (0, -errno.ECANCELED)

        self.prepare(tag, check, lambda: self.ctx.prep_nop(tag, **self.link()))

    def read(self) -> None:
        block = self.random.randrange(BLOCKS)
        if block in self.writing:
            return
        at, tag = block * BLOCK, self.new_tag()
        expected = bytes(self.content[at : at + BLOCK])
        kind = self.random.choice(["size", "bytearray", "pool"])
        memory = bytearray(MARGIN + bytes(BLOCK) + MARGIN)
        view = memoryview(memory)[len(MARGIN) : -len(MARGIN)]
        buffer: Any = view
        if kind == "size":
            buffer = BLOCK
        elif kind == "pool":
            try:
                buffer = self.pool.acquire()
            except BufferError:
                return

        def check(result: Any) -> None:
            self.reading[block] -= 1
            if kind == "pool":
                found = bytes(buffer)
                buffer.release()
            else:
                found = bytes(view)
                assert memory.startswith(MARGIN)
                assert memory.endswith(MARGIN)
                view.release()
                memory.clear()  # no longer held
            if result == -errno.ECANCELED:
                assert kind == "pool" or found == bytes(BLOCK)
            elif kind == "size":
                assert result == expected
            else:
                assert result == BLOCK
                assert found == expected

        def prepare() -> None:
            self.ctx.prep_read(self.fd, buffer, at, tag, **self.link())
            self.reading[block] += 1

        def undo() -> None:
            if kind == "pool":
                buffer.release()

        self.prepare(tag, check, prepare, undo)

    def write(self) -> None:
        block = self.random.randrange(BLOCKS)
        if block in self.writing or self.reading[block]:
            return
        at, tag = block * BLOCK, self.new_tag()
        data = self.random.randbytes(BLOCK)
        source = self.random.choice([bytes, bytearray])(data)

        def check(result: Any) -> None:
            self.writing.discard(block)
            if result == -errno.ECANCELED:
                data_now = self.content[at : at + BLOCK]
            else:
                assert result == BLOCK
                data_now = bytearray(data)
            assert os.pread(self.fd, BLOCK, at) == data_now
            self.content[at : at + BLOCK] = data_now

        def prepare() -> None:
            self.ctx.prep_write(self.fd, source, at, tag, **self.link())
            self.writing.add(block)

        self.prepare(tag, check, prepare)

    def read_pipe(self) -> None:
        tag = self.new_tag()
        memory = bytearray(RECORD)
        by_size = self.random.random() < 0.5

        def check(result: Any) -> None:
            if by_size and isinstance(result, bytes):
                self.received.append(result)
            elif result == RECORD:
                self.received.append(bytes(memory))
            else:
                assert result in (-errno.ECANCELED, -errno.EINTR), result
                assert memory == bytes(RECORD)
            memory.clear()

        buffer: Any = RECORD if by_size else memory
        # Not linked: a later operation would wait for the pipe.
        self.prepare(tag, check, lambda: self.ctx.prep_read(self.reader, buffer, -1, tag))

    def write_pipe(self) -> None:
        record = next(self.records).to_bytes(RECORD, "big")
        self.sent.add(record)
        assert os.write(self.writer, record) == RECORD

    def cancel(self) -> None:
        tag = self.new_tag()
        if not self.checks:
            return
        target = self.random.choice(list(self.checks))

        def check(result: Any) -> None:
            assert result in (0, -errno.ENOENT, -errno.EALREADY, -errno.ECANCELED), result

        self.prepare(tag, check, lambda: self.ctx.prep_cancel(target, user_data=tag))

    def cancel_some(self) -> None:
        tag = self.new_tag()

        def check(result: Any) -> None:
            assert result >= 0 or result in (-errno.ENOENT, -errno.EALREADY, -errno.ECANCELED)

        prepare = self.random.choice(
            [
                lambda: self.ctx.prep_cancel_all(user_data=tag),
                lambda: self.ctx.prep_cancel_fd(self.reader, user_data=tag),
            ]
        )
        self.prepare(tag, check, prepare)

    def duplicate(self) -> None:
        if self.checks:
            with pytest.raises(ValueError, match="in flight already"):
                self.ctx.prep_nop(self.random.choice(list(self.checks)))

    def batch(self) -> None:
        if self.writing or not self.finish_chain():
            return
        offsets = [BLOCK * self.random.randrange(BLOCKS) for _ in range(self.random.randrange(99))]
        blocks = self.ctx.read_offsets(self.fd, BLOCK, offsets)
        assert blocks == [bytes(self.content[at : at + BLOCK]) for at in offsets]

    def submit(self) -> None:
        if self.finish_chain():
            self.ctx.submit()

    def take(self) -> None:
        limit = self.random.choice([None, 0, 1, 5])
        self.settle(self.ctx.completions(limit))

    def wait(self) -> None:
        if self.finish_chain():
            self.settle(self.ctx.wait_completions(self.random.randrange(4), 0.001))

    def collect(self) -> None:
        gc.collect(0)

    def close(self) -> None:
        if self.random.random() < 0.1:
            self.end_ring()
            self.open_ring()

    # Parts of steps

    def prepare(
        self,
        tag: Any,
        check: Check,
        prepare: Callable[[], object],
        undo: Callable[[], object] = lambda: None,
    ) -> None:
        try:
            prepare()
        except UringError as error:
            assert error.errno == errno.EBUSY
            assert self.ctx.prepared == self.ctx.entries
            undo()
            self.submit()
        else:
            assert tag not in self.checks
            self.checks[tag] = check

    def finish_chain(self) -> bool:
        """Prepare the end that an open chain needs before its submission."""
        tag = self.new_tag()
        try:
            self.ctx.prep_nop(tag)
        except UringError:
            return True  # full: link() reserves the last place for an end
        self.checks[tag] = lambda _: None
        return True

    def settle(self, completions: list[tuple[Any, Any, int]]) -> None:
        for tag, result, flags in completions:
            assert flags == 0
            self.checks.pop(tag)(result)

    def end_ring(self) -> None:
        if self.random.random() < 0.5:
            self.finish_chain()
            self.ctx.submit()
        if self.random.random() < 0.5:
            self.ctx.close()
        else:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ResourceWarning)
                del self.ctx
                gc.collect()
        # The results are now lost. Reads from the pipe may have consumed records.
        self.checks.clear()
        self.reading = dict.fromkeys(range(BLOCKS), 0)
        self.writing.clear()
        registered = self.pool.registered
        self.pool.close()
        self.pool = BufferPool(8, BLOCK, registered=registered)
        self.content = bytearray(os.pread(self.fd, BLOCK * BLOCKS, 0))
        os.set_blocking(self.reader, False)
        with contextlib.suppress(BlockingIOError):
            os.read(self.reader, 1 << 16)
        os.set_blocking(self.reader, True)
        self.sent.clear()
        self.received.clear()

    def finish(self) -> None:
        """Write to the pipe for all its reads, until no operation is in flight."""
        self.finish_chain()
        while self.ctx.in_flight:
            self.write_pipe()
            self.settle(self.ctx.wait_completions(1, 0.001))
        self.settle(self.ctx.completions())
        assert self.checks == {}
        os.set_blocking(self.reader, False)
        try:
            rest = os.read(self.reader, 1 << 16)
        except BlockingIOError:
            rest = b""
        self.received += [rest[i : i + RECORD] for i in range(0, len(rest), RECORD)]
        assert sorted(self.received) == sorted(self.sent)
        assert os.pread(self.fd, BLOCK * BLOCKS + 1, 0) == self.content
        self.ctx.close()
        self.pool.close()
        for fd in (self.fd, self.reader, self.writer):
            os.close(fd)


STEPS = [
    *[Model.nop] * 3,
    *[Model.read] * 8,
    *[Model.write] * 6,
    *[Model.read_pipe] * 4,
    *[Model.write_pipe] * 3,
    *[Model.cancel] * 4,
    *[Model.cancel_some] * 1,
    *[Model.duplicate] * 1,
    *[Model.batch] * 1,
    *[Model.submit] * 4,
    *[Model.take] * 4,
    *[Model.wait] * 3,
    *[Model.collect] * 1,
    *[Model.close] * 1,
]


@pytest.mark.parametrize("seed", range(int(os.environ.get("PENSTOCK_FUZZ_SEEDS", "12"))))
@pytest.mark.parametrize("kind", KINDS)
def test_random_operations_agree_with_the_model(tmp_path: Path, kind: str, seed: int) -> None:
    model = Model(tmp_path, kind, seed)
    for _ in range(300):
        model.random.choice(STEPS)(model)
    model.finish()


@pytest.mark.parametrize("options", ["", "--gc-threshold 1"])
def test_python_code_in_the_middle_of_any_call_keeps_the_ring_consistent(options: str) -> None:
    program = f"""
import runpy, sys
sys.argv = ["", "--programs", "40", "--seed", "1", *{options!r}.split()]
runpy.run_module("tests.python.uring.hostile_programs", run_name="__main__")
"""
    assert "40: " in (output := run_python(program, seconds=300))
    assert ", 0 findings" in output
