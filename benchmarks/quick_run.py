"""Every page once, with few and short rounds: a first impression, which is never published."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.measure.errors import MEASURING_ERRORS, reason
from benchmarks.measure.native import BENCHMARKS
from benchmarks.measure.page import Report, Say
from benchmarks.measure.publish import write_json
from benchmarks.measure.reproduced import lacking_rows as lacking_published_rows
from benchmarks.measure.summary import lacking_rows, summary_table

FOLDER = BENCHMARKS.parent / "build" / "bench" / "quick"
SECONDS = 540.0
"""No page begins later than this, so that the run ends within 10 minutes."""

NARROWER = {"files_pyuring", "cpp_websocket_client", "cpp_websocket_steps"}
"""Pages whose quick form leaves rows out: the large sets of files, the many messages."""

TITLE = """\
# Quick run: a first impression, not a result

Few and short rounds on a machine that may be busy. Ratios can differ from those of `make bench` in
either direction.
"""


def run_all(
    names: Sequence[str],
    measure: Callable[[str], Report],
    say: Say,
    *,
    folder: Path = FOLDER,
    seconds: float = SECONDS,
    clock: Callable[[], float] = time.monotonic,
) -> int:
    """Measure the pages, keep their results in ``folder``, and print the summary at the end.

    The exit code is 0 only if every page was measured, and none lacks Penstock or the floor.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    begin = clock()
    failures, left_out = [], []
    for name in names:
        if clock() - begin > seconds:
            left_out.append(name)
            continue
        page_begin = clock()
        try:
            report = measure(name)
        except MEASURING_ERRORS as error:
            failures.append(f"{name}: {reason(error)}")
            continue
        failures += [f"{name}: {failure}" for failure in report.failures]
        write_json(
            folder / f"{name}.json", replace(report, results={"quick": True, **report.results})
        )
        say(f"{name}: {clock() - page_begin:.0f} s")
    print(f"{TITLE}\n{summary_table(folder)}")
    measured = {path.stem for path in folder.glob("*.json")} - NARROWER
    failures += [
        f"without a row that is promised: {row}"
        for row in (*lacking_rows(folder), *lacking_published_rows(folder, measured))
    ]
    if left_out:
        failures.append(f"left out after {seconds:.0f} s: {', '.join(left_out)}")
    for failure in failures:
        say(f"benchmarks/run.py --quick: {failure}")
    return 1 if failures else 0
