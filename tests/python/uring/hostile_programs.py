"""Random programs whose Python code interferes during a ring's calls.

Conversions, comparisons, destructors, buffers, signal handlers and the garbage collector's
callbacks close, submit, discard, cancel, wait, register and prepare, also in nested calls. The
result of a program is not predicted. The checks: only documented exceptions occur, every batch is
complete and correct, no user_data is delivered twice, and a closed ring holds no references.

    python -m tests.python.uring.hostile_programs --programs 1000 --seed 1 --gc-threshold 1
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import gc
import os
import random
import signal
import sys
import tempfile
import warnings
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from penstock.uring import BufferPool, UringCtx

BLOCK = 64
BLOCKS = 16
# On few cores, a ring with a kernel thread waits for that thread most of the time.
SQPOLL: dict[str, Any] = {"sqpoll": True, "sqpoll_idle": 0.001}
KINDS: tuple[dict[str, Any], ...] = (*[{}] * 4, *[{"defer_taskrun": False}] * 4, SQPOLL)
DEEPEST = 3
MOST_ACTS = 120
TIME_LIMIT = 240.0  # seconds: far more than a program needs


class InterferenceError(Exception):
    """Raised by hostile code at random."""


DOCUMENTED = (
    ValueError,
    TypeError,
    KeyError,
    BufferError,
    OSError,
    RuntimeError,
    InterferenceError,
)


class Program:
    """One random program: a ring, its files and buffers, and the code that interferes."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.random = random.Random(seed)
        self.content = self.random.randbytes(BLOCK * BLOCKS)
        path = folder / "content"
        path.write_bytes(self.content)
        self.fd = os.open(path, os.O_RDWR)
        self.pipe = os.pipe()
        # An operation on an idle pipe delays all operations after a drain.
        self.drains = self.random.random() < 0.3
        self.source = self.fd if self.drains else self.pipe[0]
        self.depth = 0
        self.acts = 0
        self.attempts = 0
        self.memories: list[bytearray] = []
        self.tags: list[weakref.ref[Any]] = []
        self.rings: list[Any] = []
        self.ctx = self.open_ring()
        self.pool = BufferPool(4, BLOCK, registered=self.random.random() < 0.5)

    def open_ring(self) -> UringCtx:
        return UringCtx(self.random.choice([4, 16]), **self.random.choice(KINDS))

    # Actions of hostile code

    def interfere(self) -> None:
        """Run some calls in the middle of another call."""
        if self.depth >= DEEPEST or self.acts > MOST_ACTS or self.random.random() < 0.4:
            return
        self.depth += 1
        self.acts += 1
        try:
            self.attempt(self.random.choice(self.steps))
            if self.attempts > 0 and self.random.random() < 0.05:
                raise InterferenceError
        finally:
            self.depth -= 1

    def attempt(self, step: Callable[[Program], None]) -> None:
        with contextlib.suppress(*DOCUMENTED):
            self.attempts += 1
            try:
                step(self)
            finally:
                self.attempts -= 1

    # Hostile arguments

    def tag(self) -> Any:
        if self.random.random() < 0.3:
            return self.random.choice([None, self.random.randrange(6)])
        made = HostileTag(self, self.random.randrange(6))
        self.tags.append(weakref.ref(made))
        return made

    def descriptor(self, fd: int) -> Any:
        return HostileDescriptor(self, fd) if self.random.random() < 0.5 else fd

    def options(self) -> dict[str, Any]:
        names = ["link", "force_async", "skip_success", *(["drain"] if self.drains else [])]
        return {
            name: HostileTruth(self, self.random.random() < 0.2)
            for name in names
            if self.random.random() < 0.15
        }

    def memory(self) -> Any:
        if self.random.random() < 0.1:
            return b"read-only"
        memory = bytearray(BLOCK)
        self.memories.append(memory)
        if sys.version_info >= (3, 12) and self.random.random() < 0.5:
            return HostileBuffer(self, memory)
        return memory

    def target(self) -> Any:
        kind = self.random.randrange(4)
        if kind == 0:
            return BLOCK
        if kind == 1 and not self.pool.closed:
            return self.pool[self.random.randrange(len(self.pool))]
        if kind == 2 and self.rings:
            return self.random.choice(self.rings)
        return self.memory()

    # Steps

    def nop(self) -> None:
        self.ctx.prep_nop(self.tag(), **self.options())

    def read(self) -> None:
        fd = self.random.choice([self.fd, self.source])
        self.ctx.prep_read(self.descriptor(fd), self.target(), 0, self.tag(), **self.options())

    def read_vectors(self) -> None:
        memories = HostileSequence(self, [self.memory() for _ in range(3)])
        self.ctx.prep_readv(self.fd, memories, 0, user_data=self.tag(), **self.options())

    def write(self) -> None:
        data = self.content[:BLOCK]
        self.ctx.prep_write(self.descriptor(self.fd), data, 0, self.tag(), **self.options())

    def many(self) -> None:
        count = self.random.randrange(1, 6)
        tags = HostileSequence(self, [self.tag() for _ in range(count)])
        if self.random.random() < 0.3:
            self.ctx.prep_nop_many(tags)
            return
        targets = HostileSequence(self, [self.target() for _ in range(count)])
        fd = self.random.choice([self.fd, self.source])
        self.ctx.prep_read_many(self.descriptor(fd), targets, [0] * count, tags)

    def batch(self) -> None:
        numbers = [self.random.randrange(BLOCKS) for _ in range(self.random.randrange(40))]
        offsets = HostileSequence(self, [BLOCK * number for number in numbers])
        found = self.ctx.read_offsets(self.descriptor(self.fd), BLOCK, offsets)
        wanted = [self.content[BLOCK * each : BLOCK * (each + 1)] for each in numbers]
        assert found == wanted, "a batch with wrong blocks"

    def single(self) -> None:
        found = self.ctx.read(self.descriptor(self.fd), BLOCK, BLOCK)
        assert found == self.content[BLOCK : 2 * BLOCK], "a wrong block"

    def next(self) -> None:
        peek = self.random.random() < 0.5
        found = self.ctx.peek_completion() if peek else self.ctx.wait_completion(0.001)
        self.note([found] if found is not None else [])

    def feed(self) -> None:
        os.write(self.pipe[1], bytes(8))

    def submit(self) -> None:
        self.ctx.submit()

    def discard(self) -> None:
        self.ctx.discard()

    def take(self) -> None:
        self.note(self.ctx.completions(self.random.choice([None, 1])))

    def wait(self) -> None:
        timeout = HostileNumber(self, 0.002)
        self.note(self.ctx.wait_completions(self.random.randrange(3), timeout))  # type: ignore[arg-type]

    def cancel(self) -> None:
        if self.random.random() < 0.5:
            self.ctx.prep_cancel_all()
        else:
            self.ctx.prep_cancel(self.tag())

    def register(self) -> None:
        kind = self.random.randrange(5)
        if kind == 0:
            self.ctx.register_buffers(HostileSequence(self, [self.memory(), self.memory()]))
        elif kind == 1:
            self.ctx.unregister_buffers()
        elif kind == 2:
            self.ctx.register_buffers(self.pool)
        elif kind == 3:
            self.ctx.register_files(HostileSequence(self, [self.descriptor(self.fd)]))
        else:
            self.ctx.unregister_files()

    def buffer_ring(self) -> None:
        if self.rings and self.random.random() < 0.5:
            self.rings.pop().close()
        else:
            self.rings.append(self.ctx.register_buffer_ring(2, BLOCK))

    def new_pool(self) -> None:
        self.pool.close()
        self.pool = BufferPool(4, BLOCK, registered=HostileTruth(self, True))  # type: ignore[arg-type]

    def collect(self) -> None:
        gc.collect(0)

    def close(self) -> None:
        if self.random.random() < 0.3:
            old, self.ctx = self.ctx, self.open_ring()
            old.close()

    steps: tuple[Callable[[Program], None], ...] = (
        *(nop, read, read, read_vectors, write, many, many, many, batch, batch, single, single),
        *(feed, next, submit, submit, discard, take, take, wait, cancel, register, buffer_ring),
        *(new_pool, collect, close),
    )

    def note(self, completions: list[tuple[Any, Any, int]]) -> None:
        for tag, _, flags in completions:
            if isinstance(tag, HostileTag) and flags == 0:
                tag.deliveries += 1
                assert tag.deliveries == 1, "a user_data was delivered twice"

    # Execution

    def run(self) -> None:
        before = len(self.tags)
        with self.interrupted():
            for _ in range(40):
                self.attempt(self.random.choice(self.steps))
        self.acts = 1 << 30  # no more interference
        self.ctx.close()
        for each in self.rings:
            each.close()
        self.rings.clear()
        self.pool.close()
        gc.collect()
        held = [memory for memory in self.memories if is_exported(memory)]
        assert not held, f"{len(held)} buffers are held by closed rings"
        alive = [ref for ref in self.tags[before:] if ref() is not None]
        assert not alive, f"{len(alive)} user_data are held by closed rings"
        for fd in (self.fd, *self.pipe):
            os.close(fd)

    @contextlib.contextmanager
    def interrupted(self) -> Iterator[None]:
        """Let signal handlers and the collector's callbacks interfere in the block."""

        def handle(*_: object) -> None:
            self.interfere()

        def collecting(phase: str, _: object) -> None:
            if phase == "start":
                with contextlib.suppress(InterferenceError):
                    self.interfere()

        former = signal.signal(signal.SIGALRM, handle)
        if self.random.random() < 0.5:
            signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
        if self.random.random() < 0.5:
            gc.callbacks.append(collecting)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, former)
            if collecting in gc.callbacks:
                gc.callbacks.remove(collecting)


class HostileTag:
    def __init__(self, program: Program, number: int) -> None:
        self.program = program
        self.number = number
        self.deliveries = 0

    def __hash__(self) -> int:
        self.program.interfere()
        return self.number

    def __eq__(self, other: object) -> bool:
        self.program.interfere()
        return self is other

    def __repr__(self) -> str:
        self.program.interfere()
        return "a hostile tag"

    def __del__(self) -> None:
        with contextlib.suppress(InterferenceError):
            self.program.interfere()


class HostileDescriptor:
    def __init__(self, program: Program, fd: int) -> None:
        self.program = program
        self.fd = fd

    def fileno(self) -> int:
        self.program.interfere()
        return self.fd


class HostileTruth:
    def __init__(self, program: Program, value: bool) -> None:
        self.program = program
        self.value = value

    def __bool__(self) -> bool:
        self.program.interfere()
        return self.value


class HostileNumber:
    def __init__(self, program: Program, value: float) -> None:
        self.program = program
        self.value = value

    def __float__(self) -> float:
        self.program.interfere()
        return self.value


class HostileSequence(list[Any]):
    def __init__(self, program: Program, items: list[Any]) -> None:
        super().__init__(items)
        self.program = program

    def __iter__(self) -> Iterator[Any]:
        for item in list.__iter__(self):
            self.program.interfere()
            yield item


class HostileBuffer:
    """Exports a bytearray's memory (Python 3.12)."""

    def __init__(self, program: Program, memory: bytearray) -> None:
        self.program = program
        self.memory = memory

    def __buffer__(self, flags: int) -> memoryview:
        self.program.interfere()
        return memoryview(self.memory)

    def __release_buffer__(self, view: memoryview) -> None:
        view.release()
        with contextlib.suppress(InterferenceError):
            self.program.interfere()


def is_exported(memory: bytearray) -> bool:
    try:
        memory.append(0)
    except BufferError:
        return True
    return False


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--programs", type=int, default=1000, help="how many (default: 1000)")
    parser.add_argument(
        "--seed", type=int, default=1, help="of the first program; the others follow"
    )
    parser.add_argument(
        "--gc-threshold", type=int, help="number of objects between garbage collections"
    )
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", ResourceWarning)
    if arguments.gc_threshold is not None:
        gc.freeze()
        gc.set_threshold(arguments.gc_threshold)
    acts = findings = 0
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(arguments.seed, arguments.seed + arguments.programs):
            faulthandler.dump_traceback_later(TIME_LIMIT, exit=True)
            program = Program(seed, Path(folder))
            try:
                program.run()
            except Exception as error:
                findings += 1
                print(f"seed {seed}: {type(error).__name__}: {error}", flush=True)
            acts += len(program.tags)
            del program
    faulthandler.cancel_dump_traceback_later()
    last = arguments.seed + arguments.programs - 1
    print(f"seeds {arguments.seed} to {last}: {acts} hostile tags, {findings} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
