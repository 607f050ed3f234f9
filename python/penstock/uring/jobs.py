"""Sequences of operations that run side by side on one ring.

A job is a generator: it yields a step, a function that prepares one operation with a given
``user_data``, and is sent the operation's result, a negative errno included.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from penstock.uring.context import UringCtx

Result = TypeVar("Result")
Step = Callable[[int], object]
Job = Generator[Step, Any, Result]


def run_jobs(ctx: UringCtx, jobs: Iterable[Job[Result]], depth: int) -> list[Result]:
    """Run jobs, ``depth`` at a time, and return what they return, in their order.

    When one fails no other is started, those that run go on to their end, and then the first
    failure is raised: a job is never abandoned halfway, so that it can clean up after itself.
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
