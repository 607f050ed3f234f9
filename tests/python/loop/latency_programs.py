"""Random mixtures of loads: an event waits for no more steps than on asyncio's loop.

python -m tests.python.loop.latency_programs --programs N --seed S --gc-threshold N
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from .conftest import LoopFactory
from .latency_events import KINDS_OF_EVENTS
from .latency_loads import LOADS, SIZES, measure
from .random_programs import Difference, Kind, main


@dataclass(frozen=True)
class Program:
    """Loads that run side by side, and the event that they delay."""

    loads: tuple[str, ...]
    event: str
    between: int


def make_program(seed: int) -> Program:
    choices = random.Random(f"latency {seed}")
    loads = tuple(choices.choices(sorted(LOADS.keys() - SIZES.keys()), k=choices.randint(1, 4)))
    return Program(loads, choices.choice(list(KINDS_OF_EVENTS)), choices.randint(40, 80))


def run_program(new_loop: LoopFactory, program: Program) -> list[int]:
    return measure(new_loop, program.loads, program.event, between=program.between)


def compare(program: Program, expected: list[int], found: list[int]) -> Difference | None:
    """Allow one step more of each other load: which one is first depends on the loop."""
    if max(found) <= max(expected) + len(program.loads) - 1:
        return None
    return Difference("steps before the event", expected, found)


def shorter(program: Program) -> list[Program]:
    """Programs with one load less."""
    return [
        replace(program, loads=program.loads[:n] + program.loads[n + 1 :])
        for n in range(len(program.loads))
        if len(program.loads) > 1
    ]


KINDS = {"latency": Kind(make_program, run_program, compare, shorter)}

if __name__ == "__main__":
    main(KINDS)
