"""The process in which cases run on one loop: names of cases come in on standard input, one a line.

usage: python -m tests.conformance.reports.child MODULE:FACTORY SECONDS

Before and after each case a JSON line is written to standard output: a process that ends or stops
between the two shows which case did it.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import json
import logging
import os
import sys
import traceback
import warnings
from typing import Any

from tests.conformance.reports.case import Case, Factory, NotApplicable, Wrong
from tests.conformance.reports.rooms import CASES

# Stand-in for "the loop has no such method": a part of a loop that is not written yet.
ABSENT = (NotImplementedError,)


def factory_named(specification: str) -> Factory:
    module, _, attribute = specification.partition(":")
    factory: Factory = getattr(importlib.import_module(module), attribute)
    return factory


def judge(case: Case, factory: Factory, seconds: float) -> tuple[str, str]:
    """Run the case; return the outcome and what there is to say of it."""
    try:
        if case.takes_factory:
            case.program(factory, *case.arguments)
        else:
            run_on_new_loop(case, factory, seconds)
    except NotApplicable as exc:
        return "not applicable", str(exc)
    except ABSENT as exc:
        return "not applicable", f"not implemented: {absent_part(exc)}"
    except TimeoutError:
        return "hang", f"no end in {seconds:g} s"
    except Wrong as exc:
        return "wrong", str(exc)
    except BaseException as exc:
        return "wrong", f"{type(exc).__name__}: {exc}"[:300]
    return "right", ""


def absent_part(exc: BaseException) -> str:
    frames = traceback.extract_tb(exc.__traceback__)
    return str(exc) or (frames[-1].name if frames else "unknown")


def run_on_new_loop(case: Case, factory: Factory, seconds: float) -> None:
    loop = factory()
    asyncio.set_event_loop(loop)

    async def bounded() -> None:
        task = asyncio.ensure_future(case.program(loop, *case.arguments))
        done, _ = await asyncio.wait([task], timeout=seconds)
        if not done:
            task.cancel()
            await asyncio.wait([task], timeout=1)
            raise TimeoutError
        task.result()

    try:
        loop.run_until_complete(bounded())
        finish(loop)
    finally:
        asyncio.set_event_loop(None)
        loop.close()


def finish(loop: asyncio.AbstractEventLoop) -> None:
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    if tasks:
        loop.run_until_complete(asyncio.wait(tasks, timeout=5))
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.run_until_complete(loop.shutdown_default_executor())


def main() -> None:
    factory = factory_named(sys.argv[1])
    seconds = float(sys.argv[2])
    # The cases' own children write to standard output, which belongs to the reports.
    channel = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    cases = {case.name: case for case in CASES}

    def tell(**line: Any) -> None:
        print(json.dumps(line), file=channel, flush=True)

    for name in sys.stdin.read().split("\n"):
        if name:
            tell(start=name)
            outcome, detail = judge(cases[name], factory, seconds)
            gc.collect()
            tell(end=name, outcome=outcome, detail=detail)


if __name__ == "__main__":
    main()
