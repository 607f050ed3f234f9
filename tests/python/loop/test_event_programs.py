"""Random programs have the same course on asyncio's loop and on Penstock's."""

from __future__ import annotations

import pytest

from . import event_programs, sock_programs
from .conftest import penstock_factory
from .random_programs import Kind, gc_threshold

BATCH = 25
KINDS = [
    *(pytest.param(kind, id=name) for name, kind in event_programs.KINDS.items()),
    *(pytest.param(kind, id=f"sock calls, {name}") for name, kind in sock_programs.KINDS.items()),
]


@pytest.fixture
def loop_name() -> str:
    return "both"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("batch", range(4))
def test_a_program_has_the_same_course(kind: Kind[object], batch: int) -> None:
    run_batch(kind, batch * BATCH)


@pytest.mark.parametrize("kind", KINDS)
def test_it_has_it_with_garbage_collected_all_the_time(kind: Kind[object]) -> None:
    with gc_threshold(1):
        run_batch(kind, 1000)


def run_batch(kind: Kind[object], first: int) -> None:
    penstock_factory()
    for seed in range(first, first + BATCH):
        program = kind.make(seed)
        difference = kind.difference(program)
        assert difference is None, f"seed {seed}: {difference}\n{program}"
