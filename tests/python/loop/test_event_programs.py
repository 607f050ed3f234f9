"""Random programs have the same course on asyncio's loop and on Penstock's."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from .conftest import penstock_factory
from .event_programs import Course, Hooks, Operation, Program, Steps, run_program

READ_ANOTHER = st.tuples(st.just("other socket"), st.sampled_from([1, 60_000]))
SENT_AT_ONCE = st.sampled_from([0, 1, 100, 1000])


def simple(*names: str) -> st.SearchStrategy[Operation]:
    return st.tuples(st.sampled_from(names), st.just(0))


def operations(
    writes: st.SearchStrategy[int], ends: tuple[str, ...], *, scheduling: bool = True
) -> list[st.SearchStrategy[Operation]]:
    return [
        st.tuples(st.sampled_from(["write", "write mutable"]), writes),
        *([st.tuples(st.just("soon"), st.integers(0, 9))] if scheduling else []),
        st.tuples(st.just("limit"), st.sampled_from([1000, 65536])),
        READ_ANOTHER,
        simple("pause_reading", "resume_reading", "state"),
        simple(*ends),
    ]


def steps(
    own: list[st.SearchStrategy[Operation]], peers: tuple[str, ...]
) -> st.SearchStrategy[Steps]:
    act = st.lists(
        st.one_of(*own, st.tuples(st.just("send"), SENT_AT_ONCE), simple(*peers)), max_size=4
    )
    # By itself: where a socket is readable and writable at once, the cut of reads would show.
    receive = st.tuples(st.just("receive"), st.sampled_from([1, 100_000, 1 << 24])).map(
        lambda operation: [operation]
    )
    return st.lists(st.one_of(act, act, receive), max_size=8)


def hooks(
    own: list[st.SearchStrategy[Operation]], names: tuple[str, ...]
) -> st.SearchStrategy[Hooks]:
    body = st.lists(st.one_of(*own, simple("raise")), min_size=1, max_size=3)
    # asyncio loses a connection twice that is ended in resume_writing.
    harmless = st.lists(st.tuples(st.just("soon"), st.integers(0, 9)), max_size=2)
    return st.fixed_dictionaries(
        {}, optional=dict.fromkeys(names, body) | {"resume_writing": harmless}
    )


PLAIN = operations(st.sampled_from([0, 1, 5000, 70_000, 300_000]), ("close", "abort", "write_eof"))
# Nothing is left to the moment at which a peer reads: what fits into the socket has arrived.
# asyncio takes one more turn from abort() to connection_lost.
TLS = operations(st.sampled_from([0, 1, 5000, 17_000]), ("close", "abort"), scheduling=False)


@pytest.fixture
def loop_name() -> str:
    return "both"


@settings(max_examples=80)
@given(
    steps=steps(PLAIN, ("peer shutdown", "peer close")),
    hooks=hooks(PLAIN, ("connection_made", "data", "eof_received", "pause_writing")),
    buffered=st.booleans(),
    keep_open_on_eof=st.booleans(),
)
def test_a_plain_connection_has_the_same_course(
    steps: Steps, hooks: Hooks, buffered: bool, keep_open_on_eof: bool
) -> None:
    program = Program(steps, hooks, buffered=buffered, keep_open_on_eof=keep_open_on_eof)
    compare(program)


@settings(max_examples=40)
@given(
    steps=steps(TLS, ("peer close",)),
    # asyncio drops what is written in connection_made when the handshake's end has not been sent.
    hooks=hooks(TLS, ("data", "eof_received")),
    buffered=st.booleans(),
)
def test_a_tls_connection_has_the_same_course(steps: Steps, hooks: Hooks, buffered: bool) -> None:
    program = Program(steps, hooks, buffered=buffered, tls=True)
    # asyncio's own error: aborted while it goes on after a pause, it "cannot switch state".
    try:
        expected = run_program(asyncio.SelectorEventLoop, program)
    except RuntimeError:
        assume(False)
    assume(("reported", "RuntimeError") not in expected.events)
    compare(program, expected)


def compare(program: Program, expected: Course | None = None) -> None:
    expected = expected or run_program(asyncio.SelectorEventLoop, program)
    course = run_program(penstock_factory(), program)
    assert course.events == expected.events
    assert course.peer == expected.peer
