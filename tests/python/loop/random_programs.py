"""Runs any number of random programs on asyncio's loop and on Penstock's, and compares them.

    python -m tests.python.loop.event_programs --programs 1000 --seed 1 --gc-threshold 1

Program number n depends only on the seed S + n.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import sys
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from .conftest import LoopFactory

P = TypeVar("P")


@dataclass
class Difference:
    """The first difference of two sequences of events."""

    place: str
    expected: Any
    found: Any

    def __str__(self) -> str:
        return f"{self.place}\n  asyncio:  {self.expected!r}\n  penstock: {self.found!r}"


@dataclass
class Kind(Generic[P]):
    """A kind of programs: generation from a seed, execution on a loop, comparison.

    `shorter` returns reduced variants of a program, to find the shortest that fails.
    """

    make: Callable[[int], P]
    run: Callable[[LoopFactory, P], Any]
    compare: Callable[[P, Any, Any], Difference | None]
    shorter: Callable[[P], list[P]] = lambda program: []
    judged: bool = True
    """Whether asyncio's run is the reference; otherwise Penstock's is compared with None."""

    def difference(self, program: P) -> Difference | None:
        from penstock import new_event_loop

        expected = self.run(asyncio.SelectorEventLoop, program) if self.judged else None
        return self.compare(program, expected, self.run(new_event_loop, program))

    def shortest(self, program: P, attempts: int = 400) -> P:
        """Return the smallest variant of the program that still differs."""
        found = True
        while found:
            found = False
            for candidate in self.shorter(program):
                attempts -= 1
                if attempts < 0:
                    return program
                if self.difference(candidate) is not None:
                    program, found = candidate, True
                    break
        return program


@contextmanager
def gc_threshold(threshold: int | None) -> Any:
    """Collect garbage after `threshold` allocations; None keeps the default."""
    before = gc.get_threshold()
    if threshold is not None:
        gc.set_threshold(threshold)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def main(kinds: dict[str, Kind[Any]]) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--programs", type=int, default=1000, help="of each kind")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--gc-threshold", type=int)
    parser.add_argument("--kind", choices=kinds, action="append", help="default: all")
    options = parser.parse_args()
    logging.getLogger("asyncio").disabled = True  # warnings about writes to lost connections
    differing = 0
    chosen = options.kind or list(kinds)
    last = options.seed + options.programs - 1
    with gc_threshold(options.gc_threshold):
        for name in chosen:
            kind = kinds[name]
            before = differing
            for seed in range(options.seed, options.seed + options.programs):
                program = kind.make(seed)
                difference = kind.difference(program)
                if difference is None:
                    continue
                differing += 1
                shortest = kind.shortest(program)
                print(f"{name}, seed {seed}: {kind.difference(shortest) or difference}")
                print(f"  program: {shortest}", flush=True)
            print(
                f"{name}: {options.programs} programs, seeds {options.seed} to {last}:",
                f"{differing - before} differ",
                flush=True,
            )
    count = len(chosen) * options.programs
    print(f"{', '.join(chosen)}: {count} programs, seeds {options.seed} to {last}:", end=" ")
    print(f"{differing} differ")
    sys.exit(1 if differing else 0)
