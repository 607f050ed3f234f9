#!/usr/bin/env python3
"""Measures Penstock against its peers: ``benchmarks/run.py [PAGE] [options]``.

Without a page every page is measured. A page measured with its own defaults is published: JSON and
SVG into ``benchmarks/results``, tables into ``docs/benchmarks.md``. One narrowed by any option is
printed only, unless ``--publish`` is given. The servers run on the Python that runs this file.
"""

from __future__ import annotations

import argparse
import importlib
import os
import pkgutil
import signal
import sys
from pathlib import Path
from typing import cast

# Run as a script, Python puts this folder on the path, where 'benchmarks' cannot be found.
ROOT = Path(__file__).resolve().parent.parent
sys.path[0] = str(ROOT)

import benchmarks.pages  # noqa: E402
from benchmarks.measure.affinity import choose_cores  # noqa: E402
from benchmarks.measure.native import BuildFailed  # noqa: E402
from benchmarks.measure.page import Page, Report  # noqa: E402
from benchmarks.measure.publish import MarkersMissing, publish, write_json  # noqa: E402
from benchmarks.measure.sanity import Impossible  # noqa: E402
from benchmarks.measure.syscalls import StraceMissing  # noqa: E402
from benchmarks.measure.wakefulness import processors_awake  # noqa: E402

PUBLISHING = ("publish", "json")


QUIET_LOAD = 0.5


def say(line: str) -> None:
    """Report progress, beside the result on standard output."""
    print(line, file=sys.stderr, flush=True)


def load_pages() -> dict[str, Page]:
    """Every module of ``benchmarks.pages``, by its name."""
    names = sorted(module.name for module in pkgutil.iter_modules(benchmarks.pages.__path__))
    return {name: cast(Page, importlib.import_module(f"benchmarks.pages.{name}")) for name in names}


def make_parser(pages: dict[str, Page]) -> argparse.ArgumentParser:
    """The command line: a subcommand a page."""
    assert __doc__ is not None
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    subcommands = parser.add_subparsers(dest="page", metavar="PAGE")
    for name, page in pages.items():
        subparser = subcommands.add_parser(name, help=page.SUMMARY, description=page.SUMMARY)
        page.add_options(subparser)
        common = subparser.add_argument_group("every page")
        common.add_argument("--server-core", type=int, help="core of what is measured")
        common.add_argument("--client-core", type=int, help="core of its load")
        common.add_argument(
            "--shared-core", action="store_true", help="allow one core for both (not a result)"
        )
        common.add_argument(
            "--let-sleep",
            action="store_true",
            help="let idle processors sleep: their wake-up is then part of what is measured",
        )
        common.add_argument("--json", type=Path, metavar="FILE", help="write the results there too")
        common.add_argument(
            "--publish",
            action=argparse.BooleanOptionalAction,
            help="write results and documentation (default: only if no option narrows the page)",
        )
    return parser


def is_narrowed(parser: argparse.ArgumentParser, name: str, options: argparse.Namespace) -> bool:
    """Whether an option that changes the measurement differs from its default."""
    defaults = parser.parse_args([name])
    return any(
        value != getattr(defaults, option)
        for option, value in vars(options).items()
        if option not in PUBLISHING
    )


def run_page(name: str, page: Page, options: argparse.Namespace, *, narrowed: bool) -> Report:
    """Measure, print and, where wanted, publish a page."""
    cores = choose_cores(options.server_core, options.client_core, allow_shared=options.shared_core)
    with processors_awake(wanted=not options.let_sleep):
        report = page.measure(options, cores, say)
    print(f"## {page.SUMMARY}\n\n{report.markdown}\n")
    if options.json is not None:
        write_json(options.json, report)
    wanted = options.publish if options.publish is not None else not narrowed
    if wanted and not report.failures:
        publish(name, report)
    return report


def main(arguments: list[str]) -> int:
    """Run the command; the exit code: 0 only if Penstock and the floor were measured everywhere."""
    pages = load_pages()
    parser = make_parser(pages)
    chosen = parser.parse_args(arguments)
    names = [chosen.page] if chosen.page else list(pages)
    failures = []
    load = os.getloadavg()[0]
    if load > QUIET_LOAD:
        say(f"the machine is busy (load average {load:.2f}): expect a wide spread, publish nothing")
    for name in names:
        options = chosen if chosen.page else parser.parse_args([name])
        narrowed = is_narrowed(parser, name, options)
        try:
            report = run_page(name, pages[name], options, narrowed=narrowed)
        except (
            ValueError,
            OSError,
            BuildFailed,
            Impossible,
            MarkersMissing,
            StraceMissing,
        ) as error:
            failures.append(f"{name}: {error}")
        except ModuleNotFoundError as error:
            failures.append(f"{name}: {error}; pip install 'penstock[bench]'")
        else:
            failures += [f"{name}: {failure}" for failure in report.failures]
    for failure in failures:
        say(f"benchmarks/run.py: {failure}")
    return 1 if failures else 0


if __name__ == "__main__":
    # What was set for the machine is put back also when the run is told to stop.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
