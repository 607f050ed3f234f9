"""Sequences of operations that run concurrently on one ring.

A job is a generator. It yields a step, which is a function that prepares one operation with a given
``user_data``, and receives the operation's result, possibly a negative errno.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from penstock.uring._context import UringCtx

Result = TypeVar("Result")
Step = Callable[[int], object]
Job = Generator[Step, Any, Result]


def run_jobs(ctx: UringCtx, jobs: Iterable[Job[Result]], depth: int) -> list[Result]:
    """Run jobs, ``depth`` at a time, and return their results in order.

    After a failure no further job is started. Running jobs continue to their end, so that they can
    clean up; then the first failure is raised.
    """
    results: dict[int, Result] = {}
    waiting = enumerate(jobs)
    running: dict[int, Job[Result]] = {}
    failure: BaseException | None = None

    def advance(number: int, job: Job[Result], result: Any) -> None:
        nonlocal failure
        try:
            step = job.send(result)
            step(number)
        except StopIteration as end:
            running.pop(number, None)
            results[number] = end.value
        except BaseException as error:
            running.pop(number, None)
            failure = failure or error
        else:
            running[number] = job

    exhausted = False
    while True:
        while failure is None and not exhausted and len(running) < depth:
            try:
                number, job = next(waiting)
            except StopIteration:
                exhausted = True
                break
            except BaseException as error:
                failure = error
                break
            advance(number, job, None)
        if not running:
            break
        try:
            completions = ctx.wait_completions()
        except BaseException as error:
            if failure is not None:
                raise
            failure = error
            continue
        for number, result, _ in completions:
            advance(number, running[number], result)
    if failure is not None:
        raise failure
    return [results[number] for number in sorted(results)]
