"""Random programs have the same events on asyncio's loop and on Penstock's."""

from __future__ import annotations

import asyncio
import inspect
from asyncio.selector_events import (  # type: ignore[attr-defined]
    _SelectorDatagramTransport,
    _SelectorTransport,
)

import pytest

from . import (
    datagram_programs,
    event_programs,
    server_programs,
    sock_programs,
    watcher_programs,
)
from .conftest import penstock_factory
from .event_sequences import Program
from .random_programs import Kind, gc_threshold

BATCH = 25
# Debian 12's CPython 3.11.2 is such a one.
READS_WHILE_PAUSED = pytest.mark.skipif(
    "pause_reading" not in vars(_SelectorTransport),
    reason="this CPython's asyncio reads although connection_made has paused",
)
COUNTS_HEADERS_ONCE = pytest.mark.skipif(
    "header" in inspect.getsource(_SelectorDatagramTransport.sendto)
    and "header" not in inspect.getsource(_SelectorDatagramTransport._sendto_ready),
    reason="this CPython's asyncio adds the headers of queued datagrams and never subtracts them",
)
KINDS = [
    *(
        pytest.param(kind, id=name, marks=() if name == "tls" else READS_WHILE_PAUSED)
        for name, kind in event_programs.KINDS.items()
    ),
    *(pytest.param(kind, id=f"sock calls, {name}") for name, kind in sock_programs.KINDS.items()),
    *(pytest.param(kind, id=name) for name, kind in watcher_programs.KINDS.items()),
    # Not on TCP: when a reset arrives depends on the kernel's load.
    pytest.param(
        server_programs.KINDS["server on unix"], id="server on unix", marks=READS_WHILE_PAUSED
    ),
    *(
        pytest.param(kind, id=name, marks=COUNTS_HEADERS_ONCE)
        for name, kind in datagram_programs.KINDS.items()
    ),
]


@pytest.fixture
def loop_name() -> str:
    return "both"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("batch", range(4))
def test_a_program_has_the_same_events(kind: Kind[object], batch: int) -> None:
    run_batch(kind, batch * BATCH)


@pytest.mark.parametrize("kind", KINDS)
def test_a_program_has_the_same_events_under_constant_garbage_collection(
    kind: Kind[object],
) -> None:
    with gc_threshold(1):
        run_batch(kind, 1000)


@pytest.mark.parametrize(
    ("end", "last"),
    [
        ("peer close", ["eof", ("state", True, False), ("lost", "NoneType"), "--"]),
        ("peer drop", [("state", True, False), "--", "eof", ("lost", "NoneType")]),
    ],
)
def test_a_paused_tls_connection_whose_peer_has_ended_is_closed_alike(
    end: str, last: list[object]
) -> None:
    kind = event_programs.KINDS["tls"]
    bodies = [[("pause_reading", 0)], [(end, 0)], [("write", 17000)], [("close", 0), ("state", 0)]]
    program = Program("tls", [(0, body) for body in bodies])
    assert kind.difference(program) is None
    events = kind.run(penstock_factory(), program).events[0]
    assert events == ["made", "--", "--", "--", *last]


def test_an_aborted_connection_may_have_sent_less_of_the_data_in_its_buffer() -> None:
    kind = event_programs.KINDS["unix"]
    program = kind.make(8002143)
    expected = kind.run(asyncio.SelectorEventLoop, program)
    found = kind.run(penstock_factory(), program)
    assert expected.discarded == found.discarded == {0}
    assert found.events == expected.events
    assert kind.difference(program) is None


def test_a_message_after_small_ones_waits_for_no_more_turns_of_a_computing_task() -> None:
    kind = event_programs.KINDS["unix"]
    steps = [[("send", 3000)], [("send", 15_000)], [("send", 60_000)]]
    program = Program("unix", [(0, body) for body in steps], computes=True)
    found = kind.run(penstock_factory(), program)
    assert {place: turns for place, turns in found.latencies.items() if place[0] in {0, 1}} == {
        (0, 0): [2, 2],
        (1, 0): [2, 2],
    }
    assert kind.difference(program) is None
    found.latencies[1, 0][1] += 1
    later = kind.compare(program, kind.run(asyncio.SelectorEventLoop, program), found)
    assert later is not None and (later.expected, later.found) == ([2, 2], [2, 3])


def run_batch(kind: Kind[object], first: int) -> None:
    penstock_factory()
    for seed in range(first, first + BATCH):
        program = kind.make(seed)
        difference = kind.difference(program)
        assert difference is None, f"seed {seed}: {difference}\n{program}"
