#!/usr/bin/env python3
"""Measures Penstock against its peers: ``benchmarks/run.py [PAGE] [options]``.

``benchmarks/run.py --quick`` measures every page briefly, for a first impression; it publishes
nothing. ``benchmarks/run.py report`` writes the summary of the published results anew.
``benchmarks/run.py compare OLD NEW --page PAGE`` measures two builds of Penstock instead.

Without PAGE, every page is measured. A page that is measured with its defaults is published: JSON
and SVG into ``benchmarks/results``, tables into ``docs/benchmarks``; the machine must be quiet for
it. A page that an option narrows is only printed, and never published; only the choice of the cores
may differ, with ``--publish``. The servers run on the Python that runs this file.
"""

from __future__ import annotations

import argparse
import importlib
import os
import pkgutil
import signal
import sys
import time
from pathlib import Path
from typing import cast

# Python puts the folder of a script on the path; the package is in the folder above.
ROOT = Path(__file__).resolve().parent.parent
sys.path[0] = str(ROOT)

import benchmarks.pages  # noqa: E402
from benchmarks import compare_builds, quick_run  # noqa: E402
from benchmarks.measure.affinity import choose_cores  # noqa: E402
from benchmarks.measure.errors import MEASURING_ERRORS, reason  # noqa: E402
from benchmarks.measure.page import Page, Report  # noqa: E402
from benchmarks.measure.publish import publish, write_json, write_summary  # noqa: E402
from benchmarks.measure.quietness import FOREIGN_LIMIT, ForeignTime, wait_until_quiet  # noqa: E402
from benchmarks.measure.wakefulness import processors_awake  # noqa: E402

COMPARE = "compare"
REPORT = "report"
PUBLISHING = ("publish", "json")
PLACES = ("server_core", "client_core")


def say(line: str) -> None:
    """Report progress on standard error; the result goes to standard output."""
    print(line, file=sys.stderr, flush=True)


def load_pages() -> dict[str, Page]:
    """All modules of ``benchmarks.pages`` by name."""
    names = sorted(module.name for module in pkgutil.iter_modules(benchmarks.pages.__path__))
    return {name: cast(Page, importlib.import_module(f"benchmarks.pages.{name}")) for name in names}


def make_parser(pages: dict[str, Page]) -> argparse.ArgumentParser:
    """The command line: a subcommand for each page."""
    assert __doc__ is not None
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--quick",
        dest="quick_run",
        action="store_true",
        help="measure every page for a first impression, in 10 minutes; publish nothing",
    )
    subcommands = parser.add_subparsers(dest="page", metavar="PAGE")
    subcommands.add_parser(REPORT, help="write the summary of the published results anew")
    compare_builds.add_compare_options(
        subcommands.add_parser(
            COMPARE,
            help="measure two builds of Penstock side by side, or compare two result files",
            description=compare_builds.__doc__,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
    )
    for name, page in pages.items():
        subparser = subcommands.add_parser(name, help=page.SUMMARY, description=page.SUMMARY)
        page.add_options(subparser)
        common = subparser.add_argument_group("every page")
        common.add_argument("--server-core", type=int, help="core of the measured program")
        common.add_argument("--client-core", type=int, help="core of its load")
        common.add_argument(
            "--shared-core", action="store_true", help="allow one core for both (not a result)"
        )
        common.add_argument(
            "--let-sleep",
            action="store_true",
            help="let idle processors sleep: their wake-up then counts",
        )
        common.add_argument(
            "--busy",
            action="store_true",
            help="measure although other programs run (not a result)",
        )
        common.add_argument(
            "--json", type=Path, metavar="FILE", help="also write the results to FILE"
        )
        common.add_argument(
            "--publish",
            action=argparse.BooleanOptionalAction,
            help="write results and documentation (default: only if no option is given); refused if"
            " an option other than the cores narrows the page",
        )
    return parser


def quick_options(parser: argparse.ArgumentParser, name: str) -> argparse.Namespace:
    """The options of a page in the quick run: its ``--quick``, and one round if it has rounds."""
    options = parser.parse_args([name, "--quick"])
    if "rounds" in options:
        options.rounds = 1
    return options


def narrowing(parser: argparse.ArgumentParser, name: str, options: argparse.Namespace) -> list[str]:
    """The options that change the measurement, as they are written on the command line."""
    defaults = parser.parse_args([name])
    return [
        "--" + option.replace("_", "-")
        for option, value in vars(options).items()
        if option not in PUBLISHING and value != getattr(defaults, option)
    ]


def check_publishing(
    parser: argparse.ArgumentParser, options: argparse.Namespace, narrowed_by: list[str]
) -> None:
    """End with a usage error if a narrowed page shall be published."""
    places = {"--" + option.replace("_", "-") for option in PLACES}
    forbidden = [option for option in narrowed_by if option not in places]
    if options.publish and forbidden:
        parser.error(
            f"--publish: {', '.join(forbidden)} narrows the page, and a narrowed page is not"
            " published; leave one of the two out"
        )


def measure_page(page: Page, options: argparse.Namespace) -> Report:
    """Measure a page on its cores, with idle processors kept awake unless they may sleep."""
    cores = choose_cores(options.server_core, options.client_core, allow_shared=options.shared_core)
    with processors_awake(wanted=not options.let_sleep):
        return page.measure(options, cores, say)


def run_page(name: str, page: Page, options: argparse.Namespace, *, narrowed: bool) -> Report:
    """Measure and print a page, and publish it if wanted."""
    wanted = options.publish if options.publish is not None else not narrowed
    begin = time.monotonic()
    foreign = wait_until_quiet(say) if wanted and not options.busy else None
    during = ForeignTime()
    report = measure_page(page, options)
    report.results["foreign_cpu_before"] = foreign
    report.results["foreign_cpu_during"] = share = round(during.share(), 3)
    if share > FOREIGN_LIMIT:
        say(f"other programs and the kernel's threads took {share:.0%} of a processor meanwhile")
    report.results["minutes"] = round((time.monotonic() - begin) / 60, 1)
    print(f"## {page.SUMMARY}\n\n{report.markdown}\n")
    if options.json is not None:
        write_json(options.json, report)
    if wanted and not report.failures:
        publish(name, report)
    return report


def run_compare(arguments: list[str], pages: dict[str, Page]) -> int:
    """Run ``compare``; its exit code."""
    own, page_options = arguments, []
    if "--" in arguments:
        split = arguments.index("--")
        own, page_options = arguments[:split], arguments[split + 1 :]
    parser = make_parser(pages)
    options = parser.parse_args(own)

    def measure(name: str) -> Report:
        parsed = parser.parse_args([name, *pages[name].COMPARISON_OPTIONS, *page_options])
        parsed.rounds = options.pairs
        return measure_page(pages[name], parsed)

    try:
        return compare_builds.compare(options, page_options, pages, measure, say)
    except compare_builds.CannotCompare as error:
        say(f"benchmarks/run.py compare: {error}")
        return compare_builds.NOT_COMPARED


def main(arguments: list[str]) -> int:
    """Run the command. The exit code is 0 only if no row lacks Penstock or the floor."""
    # pip compiles the packages that it installs. Without this, each measured process would compile
    # Penstock's modules anew, a late one of them within the measured time.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    pages = load_pages()
    if arguments[:1] == [COMPARE]:
        return run_compare(arguments, pages)
    parser = make_parser(pages)
    chosen = parser.parse_args(arguments)
    if chosen.page == REPORT:
        write_summary()
        return 0
    if chosen.quick_run:
        if chosen.page:
            parser.error(f"--quick before {chosen.page} means every page; write it after the page")
        return quick_run.run_all(
            list(pages),
            lambda name: measure_page(pages[name], quick_options(parser, name)),
            say,
        )
    names = [chosen.page] if chosen.page else list(pages)
    failures = []
    for name in names:
        options = chosen if chosen.page else parser.parse_args([name])
        narrowed_by = narrowing(parser, name, options)
        check_publishing(parser, options, narrowed_by)
        try:
            report = run_page(name, pages[name], options, narrowed=bool(narrowed_by))
        except MEASURING_ERRORS as error:
            failures.append(f"{name}: {reason(error)}")
        else:
            failures += [f"{name}: {failure}" for failure in report.failures]
    for failure in failures:
        say(f"benchmarks/run.py: {failure}")
    return 1 if failures else 0


if __name__ == "__main__":
    # SIGTERM must restore the machine's settings too.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
