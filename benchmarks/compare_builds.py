"""Compares two builds of the project, or two result files: ``benchmarks/run.py compare OLD NEW``.

OLD and NEW are two checkouts, each with its extension module built for the running interpreter
(``scripts/setup build`` there), or two JSON files of one page. Checkouts are measured side by side,
old new old new, by the page's own programs of each; floors and peers are left out, and the loads
are those of the checkout that this command belongs to. Options after ``--`` are the page's own.

A row's figure is the median of the ratios of its pairs, new over old: above 1 the new build costs
more. The exit code is 0, 1 if a row is beyond the threshold, and 2 if something was not compared.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.measure.builds import NEW, OLD, Build, comparing
from benchmarks.measure.cost_ratios import (
    RatioRow,
    Results,
    missing_rows,
    result_file_rows,
    side_by_side_rows,
)
from benchmarks.measure.errors import MEASURING_ERRORS, reason
from benchmarks.measure.machine import machine_facts
from benchmarks.measure.page import Page, Report, Say
from benchmarks.measure.publish import replace_file
from benchmarks.measure.tables import figure, markdown_table

PAIRS = 12
THRESHOLD = 10.0  # percent
BEYOND, NOT_COMPARED = 1, 2  # exit codes

MeasurePage = Callable[[str], Report]
"""Measures the page of that name."""


class CannotCompare(Exception):
    """OLD and NEW do not fit together, or one is not ready; the message names the remedy."""


@dataclass
class Compared:
    """What a comparison has found.

    Attributes:
        rows: by page.
        failures: what was not compared.
    """

    rows: dict[str, list[RatioRow]] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)


def page_names(text: str) -> list[str]:
    """A list such as ``echo,files``."""
    return [name.strip() for name in text.split(",") if name.strip()]


def add_compare_options(parser: argparse.ArgumentParser) -> None:
    """OLD, NEW and the options of the comparison."""
    parser.add_argument("old", type=Path, metavar="OLD", help="checkout, or result file")
    parser.add_argument("new", type=Path, metavar="NEW", help="checkout, or result file")
    parser.add_argument(
        "--page",
        action="extend",
        type=page_names,
        default=[],
        metavar="PAGE",
        help="page to measure, or several as a,b; may be given more than once",
    )
    parser.add_argument("--pairs", type=int, default=PAIRS, help=f"pairs of a row ({PAIRS})")
    parser.add_argument(
        "--threshold",
        type=float,
        default=THRESHOLD,
        metavar="PERCENT",
        help=f"how much more a row may cost ({THRESHOLD:g})",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the ratios there too")


def compare(
    options: argparse.Namespace,
    page_options: Sequence[str],
    pages: Mapping[str, Page],
    measure_page: MeasurePage,
    say: Say,
) -> int:
    """Compare what the options name, print the rows and return the exit code.

    Raises:
        CannotCompare: if OLD and NEW do not fit together or cannot be measured.
    """
    check_options(options, page_options, pages)
    if options.old.is_dir():
        old, new = Build(OLD, options.old.resolve()), Build(NEW, options.new.resolve())
        # The coroutine library's pages build what they need.
        if any(not name.startswith("cpp_") for name in options.page):
            for build in (old, new):
                check_extension(build)
        compared = Compared()
        for name in options.page:
            with comparing(old, new):
                compare_page(name, pages[name], measure_page, compared)
            write_json(options, compared)
    else:
        compared = compare_files(options, pages)
        write_json(options, compared)
    print(table(compared, options.threshold))
    rows = [row for rows in compared.rows.values() for row in rows]
    for failure in compared.failures:
        say(f"not compared: {failure}")
    if compared.failures:
        return NOT_COMPARED
    return BEYOND if any(row.is_beyond(options.threshold) for row in rows) else 0


def check_options(
    options: argparse.Namespace, page_options: Sequence[str], pages: Mapping[str, Page]
) -> None:
    """Refuse what cannot be compared, before anything is measured.

    Raises:
        CannotCompare: naming the value and the remedy.
    """
    if options.pairs < 1:
        raise CannotCompare(f"--pairs must be at least 1, not {options.pairs}")
    for path in (options.old, options.new):
        if not path.exists():
            raise CannotCompare(f"{path} does not exist; name a checkout or a result file")
    if options.old.is_dir() != options.new.is_dir():
        raise CannotCompare(
            f"{options.old} and {options.new} are a folder and a file; name two checkouts or two"
            " result files"
        )
    if not options.old.is_dir():
        if options.page or page_options:
            raise CannotCompare("result files name their page themselves; leave out --page and --")
        return
    if not options.page:
        raise CannotCompare("no page is named; name one with --page, such as --page echo,files")
    for name in options.page:
        check_page(name, pages)


def check_page(name: str, pages: Mapping[str, Page]) -> None:
    """Refuse a page that is unknown or has no cost of an operation.

    Raises:
        CannotCompare: naming the pages that can be compared.
    """
    comparable = ", ".join(known for known, page in pages.items() if page.COSTS)
    if name not in pages:
        raise CannotCompare(f"there is no page '{name}'; choose from {comparable}")
    if not pages[name].COSTS:
        raise CannotCompare(
            f"the page '{name}' has no cost of an operation to compare; choose from {comparable}"
        )


def check_extension(build: Build) -> None:
    """Make sure that this interpreter imports the extension module of the build.

    Raises:
        CannotCompare: if it imports none, or that of another folder.
    """
    command = [sys.executable, "-P", "-c", "import penstock._core; print(penstock._core.__file__)"]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **build.environment()},
    )
    module = done.stdout.strip()
    if done.returncode != 0 or not Path(module).resolve().is_relative_to(build.folder):
        last_words = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        what = f"it imports {module}" if module else last_words[-1]
        raise CannotCompare(
            f"{build.folder} has no extension module for {sys.executable} ({what});"
            " run 'scripts/setup build' there, or use the Python that it was built for"
        )


def compare_page(name: str, page: Page, measure_page: MeasurePage, compared: Compared) -> None:
    """Measure a page with both builds and add its rows, or why there are none."""
    try:
        results = measure_page(name).results
        rows = side_by_side_rows(results, page.COSTS)
    except MEASURING_ERRORS as error:
        compared.failures.append(f"{name}: {reason(error)}")
        return
    compared.failures += [f"{name}: {failure}" for failure in missing_rows(results)]
    if rows:
        compared.rows[name] = rows
    else:
        compared.failures.append(f"{name}: no row was measured with both builds")


def compare_files(options: argparse.Namespace, pages: Mapping[str, Page]) -> Compared:
    """Compare the rows that two result files have in common.

    Raises:
        CannotCompare: if they are no results, or of different pages.
    """
    old, new = read_results(options.old), read_results(options.new)
    if old["page"] != new["page"]:
        raise CannotCompare(
            f"{options.old} is of the page '{old['page']}' and {options.new} of '{new['page']}'"
        )
    check_page(new["page"], pages)
    try:
        rows = result_file_rows(old, new, pages[new["page"]].COSTS)
    except ValueError as error:
        raise CannotCompare(f"{options.old} and {options.new}: {error}") from error
    return Compared({new["page"]: rows})


def read_results(path: Path) -> Results:
    """The results in a file that a page has written.

    Raises:
        CannotCompare: if the file holds something else.
    """
    try:
        results = json.loads(path.read_text())
    except ValueError as error:
        raise CannotCompare(f"{path} is not JSON: {error}") from error
    if not isinstance(results, dict) or not isinstance(results.get("page"), str):
        raise CannotCompare(f"{path} holds no results of a page")
    return results


def table(compared: Compared, threshold: float) -> str:
    """The rows for a reader: the ratio, its spread, and what is beyond the threshold."""
    rows = [
        [
            page,
            ", ".join(row.name.labels),
            row.name.contender,
            row.name.cost,
            figure(row.ratio, 3),
            str(len(row.pairs)),
            f"beyond {threshold:g} %" if row.is_beyond(threshold) else "",
        ]
        for page, rows in compared.rows.items()
        for row in rows
    ]
    header = ["page", "row", "contender", "cost", "new / old", "pairs", "verdict"]
    return markdown_table(header, rows, labels=4, width=None)


def write_json(options: argparse.Namespace, compared: Compared) -> None:
    """Write what was compared so far to ``--json``, if it was given."""
    if options.json is None:
        return
    contents: dict[str, Any] = {
        "old": describe_side(options.old),
        "new": describe_side(options.new),
        "machine": machine_facts(["penstock"]),
        "threshold_percent": options.threshold,
        "pages": {
            page: [{**row.as_json(), "beyond": row.is_beyond(options.threshold)} for row in rows]
            for page, rows in compared.rows.items()
        },
        "failures": compared.failures,
    }
    replace_file(options.json, json.dumps(contents, indent=1, ensure_ascii=False) + "\n")


def describe_side(path: Path) -> dict[str, str | None]:
    """The path, and the commit of a checkout, ``+`` behind it if files differ from the commit."""
    facts: dict[str, str | None] = {"path": str(path)}
    if path.is_dir():
        done = subprocess.run(
            ["git", "-C", str(path), "describe", "--always", "--dirty=+", "--exclude=*"],
            capture_output=True,
            text=True,
            check=False,
        )
        facts["commit"] = done.stdout.strip() or None
    return facts
