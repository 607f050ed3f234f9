"""Runs the cases on several loops and writes the table by loop.

usage: python -m tests.conformance.reports.run [--loops NAME,NAME=PYTHON,...] [--out PAGE]

NAME is one of LOOPS; NAME=PYTHON runs that loop under another interpreter. Without --out the page
goes to standard output.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from tests.conformance.reports.case import Room
from tests.conformance.reports.rooms import CASES, ROOMS
from tests.conformance.reports.running import Outcome, run_cases

LOOPS = {
    "penstock": "penstock:new_event_loop",
    "asyncio": "asyncio:SelectorEventLoop",
    "uvloop": "uvloop:new_event_loop",
    "zloop": "zloop:new_event_loop",
    "rloop": "rloop:new_event_loop",
    "uringcore": "uringcore:UringEventLoop",
}
# What the page writes for an outcome, and the order of its counts.
SIGNS = {
    "right": "+",
    "wrong": "wrong",
    "crash": "**crash**",
    "hang": "hang",
    "not applicable": "–",
}
PROBE = """
import importlib, sys
from importlib.metadata import PackageNotFoundError, version
importlib.import_module(sys.argv[1])
try:
    print(version(sys.argv[1]))
except PackageNotFoundError:
    print("")
print(".".join(map(str, sys.version_info[:3])))
"""

Table = Mapping[str, Mapping[str, Outcome]]


def version_of(loop: str, python: str) -> tuple[str, str] | None:
    """Return the versions of the loop and of the interpreter; None if the loop is not there."""
    root = str(Path(__file__).resolve().parents[3] / "python")
    probe = subprocess.run(
        [python, "-c", f"import sys; sys.path.insert(0, {root!r})\n{PROBE}", loop],
        capture_output=True,
        text=True,
        check=False,
    )
    if probe.returncode != 0:
        return None
    first, second = probe.stdout.split("\n")[:2]
    return first, second


def page(table: Table, headings: Mapping[str, str], command: str) -> str:
    """Return the page as Markdown."""
    lines = [
        "# Reported faults of event loops",
        "",
        "Faults that users of CPython's asyncio, uvloop, zuvloop, rloop, AnyIO and aiohttp",
        "reported, each as a short program in `tests/conformance/reports` with one right outcome:",
        "what the maintainers settled on, or what asyncio documents. A report that holds",
        "for several kinds of connection, arguments or moments is one case for each. Every loop",
        "runs the same programs, each on a loop of its own. This page is written by",
        "",
        "```text",
        command,
        "```",
        "",
        "The tests fail if a case is not right on Penstock's loop.",
        "",
        "| outcome | " + " | ".join(headings.values()) + " |",
        "|---|" + "---|" * len(headings),
    ]
    for outcome in SIGNS:
        counts = [Counter(o.result for o in table[loop].values())[outcome] for loop in headings]
        lines.append(f"| {outcome} | " + " | ".join(map(str, counts)) + " |")
    lines += [
        "",
        "`+` is right and `–` not applicable: the loop has not implemented the method, or the",
        "CPython version lacks the behaviour. A hang is a case without an end in the time limit. A",
        "number beside an outcome points to what was seen, below the table.",
    ]
    for room in ROOMS:
        lines += room_table(room, table, list(headings))
    return "\n".join(lines) + "\n"


def room_table(room: Room, table: Table, loops: list[str]) -> list[str]:
    lines = [
        "",
        f"## {room.name.replace('_', ' ').capitalize()}",
        "",
        "| report | case | " + " | ".join(loops) + " |",
        "|---|---|" + "---|" * len(loops),
    ]
    notes: dict[str, int] = {}
    told: set[str] = set()
    for case in room.cases:
        cells = []
        for loop in loops:
            outcome = table[loop][case.name]
            cell = SIGNS[outcome.result]
            if outcome.result in ("wrong", "crash"):
                note = f"{loop}: {plain(outcome.detail)}"
                cell += f" {notes.setdefault(note, len(notes) + 1)}"
            cells.append(cell)
        _, _, row = case.name.partition("[")
        text = row.removesuffix("]")
        if case.saw not in told:
            told.add(case.saw)
            text = case.saw + (f": {text}" if text else "")
        lines.append(f"| {case.report} | {text} | " + " | ".join(cells) + " |")
    if notes:
        lines.append("")
        lines += [f"{number}. {note}" for note, number in notes.items()]
    return lines


def plain(text: str) -> str:
    """Return the text without what Markdown reads as markup, and without folders."""
    text = re.sub(r"(?<![\w/])/(?:[\w.-]+/)+", "", text)
    text = re.sub(r"<(function|bound method) (?:[^<>]|<[^<>]*>)*>", r"a \1", text)
    for sign in "\\`*_<>[]|":
        text = text.replace(sign, {"|": "/", "`": "'"}.get(sign, f"\\{sign}"))
    return " ".join(text.split())[:220]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--loops", default="penstock,asyncio,uvloop", help="NAME or NAME=PYTHON")
    parser.add_argument("--out", type=Path, help="the page to write")
    parser.add_argument("--seconds", type=float, default=10.0, help="the limit of a case")
    options = parser.parse_args()
    table: dict[str, dict[str, Outcome]] = {}
    headings: dict[str, str] = {}
    for name in options.loops.split(","):
        loop, _, python = name.partition("=")
        python = python or sys.executable
        versions = version_of(loop, python)
        if versions is None:
            print(f"{loop}: not installed for {python}, left out", file=sys.stderr)
            continue
        names = [case.name for case in CASES]
        table[loop] = run_cases(names, LOOPS[loop], options.seconds, python)
        label = " ".join(part for part in (loop, versions[0] if loop != "penstock" else "") if part)
        headings[loop] = f"{label}, CPython {versions[1]}"
        counts = Counter(outcome.result for outcome in table[loop].values())
        print(f"{headings[loop]}: {dict(counts)}", file=sys.stderr)
    loops = ",".join(headings)
    command = f"python -m tests.conformance.reports.run --loops {loops} --out docs/bug_reports.md"
    text = page(table, headings, command)
    if options.out:
        options.out.write_text(text, encoding="utf-8")
    else:
        print(text, end="")
    ours = [o.result for o in table.get("penstock", {}).values()]
    return 1 if any(result in ("wrong", "crash", "hang") for result in ours) else 0


if __name__ == "__main__":
    sys.exit(main())
