"""What Python code may do in the middle of a call: conversions, destructors and signal handlers
that close, submit or discard.

Each program runs in a process of its own, because what it asks for has crashed or hung.
"""

from __future__ import annotations

import pytest

from tests.python.uring.conftest import run_python

# A ring, a pipe with five bytes in it, and what a program does with both in the middle of a call.
SETTING = """
import atexit, gc, os, signal
from penstock.uring import BufferPool, UringCtx, UringError

c = UringCtx(entries=8)
atexit.register(lambda: c.close())
reader, writer = os.pipe()
os.write(writer, b"12345")

def raises(kind, call, *arguments, **options):
    try:
        found = call(*arguments, **options)
    except kind as error:
        return str(error)
    raise AssertionError(f"no {kind.__name__}, but {found!r}")

class Index:
    'A descriptor, a truth and a hash that do something first.'
    def __init__(self, act, number=5):
        self.act, self.number = act, number
    def fileno(self):
        self.act()
        return self.number
    def __bool__(self):
        self.act()
        return False
    def __hash__(self):
        self.act()
        return self.number
"""


@pytest.mark.parametrize("when", ["open", "closed"])
def test_a_pool_cannot_be_initialised_again(when: str) -> None:
    program = f"""
pool = BufferPool(64, 4096)
buffers = list(pool)
if {when!r} == "closed":
    pool.close()
assert "once" in raises(RuntimeError, pool.__init__, 1, 16)
assert (len(pool), pool.size) == (64, 4096)
for each in buffers:
    if {when!r} == "closed":
        raises(ValueError, memoryview, each)
    else:
        memoryview(each)[:] = bytes(4096)
"""
    assert run_python(SETTING + program) == ""


def test_a_pool_or_ring_that_is_initialised_while_it_is_initialised_is_so_once() -> None:
    program = """
pool = BufferPool.__new__(BufferPool)
def again():
    BufferPool.__init__(pool, 2, 1 << 20)
assert "once" in raises(RuntimeError, pool.__init__, 64, 16, registered=Index(again))
assert (len(pool), pool.size) == (2, 1 << 20)
memoryview(pool[1])[:] = bytes(1 << 20)
pool.close()

from penstock._uring import Ring
ring = Ring.__new__(Ring)
class Number:
    def __index__(self):
        Ring.__init__(ring, 4, 0, 8, 0, 0)
        return 8
before = len(os.listdir("/proc/self/fd"))
assert "once" in raises(RuntimeError, ring.__init__, 8, 0, 8, Number(), 0)
assert ring.entries == 4
ring.close()
assert len(os.listdir("/proc/self/fd")) == before
"""
    assert run_python(SETTING + program) == ""
