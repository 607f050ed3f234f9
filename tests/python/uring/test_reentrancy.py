"""Python code in the middle of a call: conversions, destructors and signal handlers that close,
submit or discard.

Each program runs in its own process, because such code has crashed or hung.
"""

from __future__ import annotations

import sys

import pytest

from tests.python.uring.conftest import run_python

needs_python_buffers = pytest.mark.skipif(
    sys.version_info < (3, 12), reason="__buffer__ is from Python 3.12 on"
)

# A ring, a pipe that holds five bytes, and an object that acts in the middle of a call.
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
    'A descriptor, a truth value and a hash that first run a function.'
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


@pytest.mark.parametrize("act", ["c.close()", "c.submit()", "c.discard()", "c.prep_nop()"])
def test_a_tag_may_do_anything_while_many_are_prepared(act: str) -> None:
    program = f"""
tag = Index(lambda: {act})
try:
    c.prep_nop_many([1, tag])
except ValueError as error:
    assert str(error) == "the ring is closed"
    assert c.closed
else:
    c.submit()
    found = [each for each, _, _ in c.completions()]
    assert {{1, tag}} <= set(found), found
"""
    assert run_python(SETTING + program) == ""


@pytest.mark.parametrize("act", ["c.close()", "c.submit()", "c.discard()"])
@pytest.mark.parametrize("method", ["prep_read_many", "prep_write_many"])
def test_a_failed_prepare_removes_no_operation_submitted_meanwhile(method: str, act: str) -> None:
    # The last item is invalid, so the items before it must not be prepared either.
    program = f"""
memory = [bytearray(2) for _ in range(3)]
tags = [1, Index(lambda: {act}), 3, ["no hash"]]
c.prep_nop("before")
message = raises((TypeError, ValueError), c.{method}, {"reader" if "read" in method else "writer"},
                 memory + [bytearray(2)], [-1] * 4, tags)
if not c.closed:
    c.submit()
    found = c.completions()
    assert found == ([] if "discard" in {act!r} else [("before", 0, 0)]), found
    assert (c.prepared, c.in_flight) == (0, 0)
    c.close()
for each in memory:
    each.clear()  # no longer held
"""
    assert run_python(SETTING + program) == ""


@needs_python_buffers
@pytest.mark.parametrize("act", ["c.close()", "c.submit()", "c.discard()"])
def test_a_buffer_may_do_anything_while_many_are_prepared(act: str) -> None:
    program = f"""
class Buffer:
    def __buffer__(self, flags):
        {act}
        return memoryview(bytearray(2))
for last in (bytearray(2), b"read-only"):
    if c.closed:
        break
    try:
        c.prep_read_many(reader, [bytearray(2), Buffer(), last], [-1] * 3, [1, 2, 3])
    except (BufferError, ValueError) as error:
        assert c.closed or "read-only" in str(error) or "writable" in str(error), error
        assert c.in_flight == 0
    else:
        os.write(writer, b"6")
        found = {{(tag, result) for tag, result, _ in c.wait_completions(3, 30)}}
        assert found == {{(1, 2), (2, 2), (3, 2)}}
"""
    assert run_python(SETTING + program) == ""


def test_a_ring_closes_with_a_drained_operation_in_flight() -> None:
    program = """
for end in ("close", "collect"):
    ctx = UringCtx(8)
    idle, other = os.pipe()
    ctx.prep_read(idle, 10, -1, 1)
    ctx.prep_nop(2, drain=True)
    ctx.submit()
    if end == "close":
        ctx.close()
    else:
        import warnings
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            del ctx
            gc.collect()
"""
    assert run_python(SETTING + program) == ""


@pytest.mark.parametrize("kind", ["{}", "{'defer_taskrun': False}", "{'sqpoll': True}"])
def test_a_ring_closes_with_operations_waiting_after_a_drain(kind: str) -> None:
    program = f"""
ctx = UringCtx(8, **{kind})
idle, other = os.pipe()
memory = bytearray(10)
ctx.prep_read(idle, memory, -1, 1, hardlink=True)
ctx.prep_read(idle, 10, -1, 2)
ctx.prep_read(idle, 10, -1, 3, drain=True, force_async=True)
ctx.prep_timeout(1000, user_data=4)
ctx.submit()
ctx.close()
memory.clear()
"""
    assert run_python(SETTING + program) == ""


@pytest.mark.parametrize("raising", [True, False])
def test_a_signal_handler_may_close_the_ring_of_a_batch(raising: bool) -> None:
    program = f"""
idle, other = os.pipe()
def handler(*_):
    c.close()
    if {raising}:
        raise KeyError("handler")
signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 0.1)
message = raises((KeyError, ValueError), c.read_offsets, idle, 10, [0] * 20)
assert ("handler" if {raising} else "closed") in message
assert c.closed
"""
    assert run_python(SETTING + program) == ""


def test_a_signal_handler_that_raises_ends_a_batch_that_waits() -> None:
    program = """
idle, other = os.pipe()
def handler(*_):
    raise KeyError("handler")
signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 0.1)
raises(KeyError, c.read_offsets, idle, 10, [0] * 20)
assert (c.in_flight, c.prepared) == (0, 0)
assert c.read_offsets(reader, 5, [0]) == [b"12345"]
c.close()
"""
    assert run_python(SETTING + program) == ""


@pytest.mark.parametrize("act", ["c.close()", "c.discard()", "c.submit()", "c.prep_nop()"])
def test_a_tags_destructor_may_do_anything_during_a_discard(act: str) -> None:
    program = f"""
class Tag:
    def __del__(self):
        {act}
for _ in range(4):
    c.prep_nop(Tag())
assert c.discard() == 4
c.close()
"""
    assert run_python(SETTING + program) == ""


@pytest.mark.parametrize("act", ["c.close()", "c.discard()", "c.submit()", "c.completions()"])
def test_a_descriptor_may_do_anything_in_the_middle_of_a_batch(act: str) -> None:
    program = f"""
fd = os.open("/dev/zero", os.O_RDONLY)
calls = []
def act():
    calls.append(1)
    if len(calls) <= 2:
        {act}
try:
    blocks = c.read_offsets(Index(act, fd), 4, range(20))
except (ValueError, UringError) as error:
    assert c.closed, error
else:
    assert blocks == [bytes(4)] * 20, blocks
    c.close()
"""
    assert run_python(SETTING + program) == ""


def test_a_batch_whose_reads_a_signal_handler_discards_has_no_gaps() -> None:
    program = """
fd = os.open("/dev/zero", os.O_RDONLY)
class Ends(Exception): pass
def handler(*_):
    c.discard()
signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
for _ in range(300):
    try:
        blocks = c.read_offsets(fd, 4, range(100))
    except UringError as error:
        assert "taken back" in str(error), error
    else:
        assert blocks == [bytes(4)] * 100
signal.setitimer(signal.ITIMER_REAL, 0)
c.close()
"""
    assert run_python(SETTING + program) == ""


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


def test_a_nested_initialisation_of_a_pool_or_ring_is_refused() -> None:
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


def test_a_tag_prepared_during_a_comparison_is_in_flight() -> None:
    program = """
class Tag:
    def __init__(self, act=None):
        self.act = act
    def __hash__(self):
        return 77
    def __eq__(self, other):
        act, self.act = self.act, None
        if act is not None:
            act()
        return type(other) is Tag and self.act is other.act is None and False
twin = "twin"
class Twin:
    def __hash__(self):
        return 77
    def __eq__(self, other):
        return type(other) is Twin
c.prep_nop(Tag(lambda: c.prep_nop(Twin())))
assert "in flight already" in raises(ValueError, c.prep_nop, Twin())
assert c.prepared == 2
c.close()
"""
    assert run_python(SETTING + program) == ""


@pytest.mark.parametrize("call", ["c.read_offsets(idle, 1, [0] * 20)", "c.wait_completions(3)"])
def test_a_signal_handler_may_fork_in_the_middle_of_a_wait(call: str) -> None:
    program = f"""
idle, other = os.pipe()
child = None
def handler(*_):
    global child
    child = os.fork()
    if child:
        os.write(other, bytes(20))
        assert os.waitpid(child, 0)[1] == 0
signal.signal(signal.SIGALRM, handler)
for tag in range(3):
    c.prep_read(idle if "wait" in {call!r} else reader, 1, -1, tag)
c.submit()
signal.setitimer(signal.ITIMER_REAL, 0.1)
try:
    found = {call}
except RuntimeError as error:
    assert child == 0 and "child of fork" in str(error), error
    c.close()
    os._exit(0)
assert child != 0
assert len(found) in (3, 20)
"""
    assert run_python(SETTING + program) == ""


def test_an_object_released_by_a_completion_may_close_or_fork() -> None:
    program = """
c.close()
class Tag:
    def __init__(self, act): self.act = act
    def __del__(self): self.act()
def fork():
    child = os.fork()
    if child == 0:
        c.close()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
for act in (fork, lambda: c.close()):
    for count in (1, 5):
        c = UringCtx(8)
        for number in range(6):
            c.prep_nop(Tag(act) if number == count else number, skip_success=True)
        try:
            c.submit()
        except ValueError:
            assert c.closed
        c.close()
"""
    assert run_python(SETTING + program) == ""


@pytest.mark.parametrize(
    "call", ["c.read(Index(act, zero), 1)", "c.read_offsets(zero, 1, [0] * 9)"]
)
def test_a_call_does_not_join_a_chain_begun_during_the_call(call: str) -> None:
    program = f"""
idle, other = os.pipe()
zero = os.open("/dev/zero", os.O_RDONLY)
def act(*_):
    c.prep_read(idle, 1, -1, "first", link=True)
if "offsets" in {call!r}:
    act()
message = raises(ValueError, lambda: {call})
assert "linked to a next one" in message
assert (c.prepared, c.in_flight) == (1, 1)
assert c.discard() == 1
"""
    assert run_python(SETTING + program) == ""
