"""When memory is exhausted, no completion is lost and no reference leaks."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.uring import UringCtx
from tests.python.conftest import skip_absent
from tests.python.uring.conftest import results

try:
    import _testcapi as testcapi
except ModuleNotFoundError:
    testcapi = None


@pytest.fixture(autouse=True)
def _failing_allocations() -> None:
    if testcapi is None:
        skip_absent("CPython's test modules are missing (Debian: libpython3.11-testsuite)")


def starved(allocation: int, function: Callable[[], Any]) -> Any:
    """Call it while only the allocation with this number fails; return None for a MemoryError."""
    testcapi.set_nomemory(allocation, allocation + 1)
    try:
        return function()
    except MemoryError:
        return None
    finally:
        testcapi.remove_mem_hooks()


@pytest.fixture
def file(tmp_path: Path) -> Any:
    (tmp_path / "file").write_bytes(b"x" * 5000)
    fd = os.open(tmp_path / "file", os.O_RDONLY)
    yield fd
    os.close(fd)


def test_a_completion_that_cannot_be_delivered_is_not_lost(ctx: UringCtx, file: int) -> None:
    for allocation in range(1, 40):
        tags = [(allocation, i) for i in range(4)]
        ctx.prep_read(file, 3000, 0, tags[0])
        ctx.prep_read(file, 3000, 3000, tags[1])
        ctx.prep_nop(tags[2])
        ctx.prep_read(file, 300, 4000, tags[3])
        ctx.submit_and_wait(4)
        found = starved(allocation, ctx.completions) or []
        found += ctx.completions()
        assert {tag: result if result == 0 else len(result) for tag, result, _ in found} == {
            tags[0]: 3000,
            tags[1]: 2000,
            tags[2]: 0,
            tags[3]: 300,
        }
        assert len(found) == 4


def test_an_operation_that_cannot_be_prepared_leaves_no_trace(ctx: UringCtx, file: int) -> None:
    memory = bytearray(100)
    for allocation in range(1, 20):
        tag = ("tag", allocation)
        for prepare in (
            lambda tag=tag: ctx.prep_read(file, 3000, 0, tag),
            lambda tag=tag: ctx.prep_read(file, memory, 0, tag),
            lambda tag=tag: ctx.prep_readv(file, [memory], 0, user_data=tag),
            lambda: ctx.prep_nop(),
            lambda: ctx.prep_nop_many([1, 2, "three"]),
            lambda: ctx.prep_openat("/nowhere", user_data="open"),
        ):
            done = starved(allocation, prepare)
            count = ctx.prepared
            assert (count > 0) or done is None
            assert ctx.discard() == count
            assert ctx.in_flight == 0
            memory.append(0)
            memory.pop()


def test_a_batch_with_an_undeliverable_result_still_finishes(ctx: UringCtx, file: int) -> None:
    for allocation in range(1, 60):
        blocks = starved(allocation, lambda: ctx.read_offsets(file, 1000, range(0, 5000, 1000)))
        assert blocks in (None, [b"x" * 1000] * 5)
        assert (ctx.in_flight, ctx.prepared) == (0, 0)
        assert ctx.completions() == []


def test_references_are_released(ctx: UringCtx, file: int) -> None:
    tag, memory = ("a tag",), bytearray(10)
    options: dict[str, Any] = {"user_data": tag}

    def use() -> None:
        ctx.prep_read(file, memory, 0, tag)
        ctx.wait_completions()
        ctx.prep_readv(file, [memory, memory], 0, **options)
        ctx.wait_completions()
        ctx.prep_read(file, 2000, 0, tag)
        ctx.discard()
        for wrong in (
            lambda: ctx.prep_read(file, b"read-only", 0, tag),
            lambda: ctx.prep_read(file, memory, -5, tag),
            lambda: ctx.prep_readv(file, [memory, b"read-only"], 0, **options),
            lambda: ctx.prep_read_many(file, [memory, b""], [0, 0], [tag, 2]),
            lambda: ctx.register_buffers([memory, b"read-only"]),
        ):
            with pytest.raises((BufferError, ValueError, TypeError)):
                wrong()
        ctx.prep_nop(tag)
        with pytest.raises(ValueError, match="in flight"):
            ctx.prep_read(file, memory, 0, tag)
        assert results(ctx.wait_completions()) == {tag: 0}
        ctx.register_buffers([memory])
        ctx.unregister_buffers()

    use()
    gc.collect()
    before = sys.getrefcount(tag), sys.getrefcount(memory)
    for _ in range(20):
        use()
    gc.collect()
    assert (sys.getrefcount(tag), sys.getrefcount(memory)) == before
    memory.append(1)
