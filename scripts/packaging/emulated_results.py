"""Sums up the tests of the wheel for aarch64: ``emulated_results.py FOLDER PAGE VERSIONS``.

FOLDER has a JUnit file for each part of the tests. The counts are printed, and PAGE gets them with
the tests that emulation cannot run, each reason once. The exit code is 1 if a test failed.
"""

from __future__ import annotations

import re
import sys
import textwrap
import xml.etree.ElementTree as xml
from collections import defaultdict
from pathlib import Path

# What tests/emulated.py begins a reason with.
BY_EMULATION = "emulation: "


class Part:
    """What one JUnit file says."""

    def __init__(self, path: Path) -> None:
        self.name = path.stem
        self.passed = 0
        self.failed: list[str] = []
        self.skipped: dict[str, list[str]] = defaultdict(list)
        for case in xml.parse(path).iter("testcase"):
            name = case.get("name", "")
            skip = case.find("skipped")
            if case.find("failure") is not None or case.find("error") is not None:
                self.failed.append(name)
            elif skip is not None:
                self.skipped[reason_of(case, skip)].append(name)
            else:
                self.passed += 1

    def by_emulation(self) -> int:
        return sum(
            len(names) for why, names in self.skipped.items() if why.startswith(BY_EMULATION)
        )

    def otherwise(self) -> int:
        return sum(map(len, self.skipped.values())) - self.by_emulation()


def reason_of(case: xml.Element, skip: xml.Element) -> str:
    """Why a test was skipped. Of GoogleTest's, CTest has only the output.

    They are skipped only where the machine refuses something.
    """
    if said := re.search(r": Skipped\n(.*)", case.findtext("system-out", "")):
        return BY_EMULATION + said[1]
    return skip.get("message", "")


def functions(names: list[str]) -> str:
    """Each test once, with the number of its parameters' values."""
    counts: dict[str, int] = defaultdict(int)
    for name in names:
        counts[re.sub(r"<.*|\[.*|/\d+$", "", name)] += 1
    return ", ".join(
        f"`{name}`" + (f" ({count} times)" if count > 1 else "") for name, count in counts.items()
    )


def item(part: Part, why: str, names: list[str]) -> str:
    said = " ".join(why.removeprefix(BY_EMULATION).split())
    text = f"- {part.name}, {len(names)}: {said}: {functions(names)}"
    return textwrap.fill(
        text, 120, subsequent_indent="  ", break_on_hyphens=False, break_long_words=False
    )


def page(parts: list[Part], versions: str) -> str:
    lines = [
        "# The wheel for aarch64 under emulation",
        "",
        "Written by `scripts/dist aarch64`. The wheel for CPython 3.11 was installed on Debian 12",
        "for arm64, without a compiler, and tested there under QEMU's user emulation, on",
        "Penstock's loop alone, with at most 20 examples for most property tests.",
        versions,
        "",
        "| tests | passed | failed | emulation cannot run | skipped for another reason |",
        "|---|---|---|---|---|",
    ]
    lines += [
        f"| {part.name} | {part.passed} | {len(part.failed)} | {part.by_emulation()} "
        f"| {part.otherwise()} |"
        for part in parts
    ]
    for title, wanted in (("What emulation cannot run", True), ("Other skipped tests", False)):
        lines += ["", f"## {title}", ""]
        lines += [
            item(part, why, names)
            for part in parts
            for why, names in part.skipped.items()
            if why.startswith(BY_EMULATION) is wanted
        ]
    return "\n".join(lines) + "\n"


def main(folder: Path, target: Path, versions: str) -> None:
    parts = [Part(path) for path in sorted(folder.glob("*.xml"))]
    target.write_text(page(parts, versions))
    for part in parts:
        print(
            f"{part.name:10} {part.passed:5} passed, {len(part.failed)} failed, "
            f"{part.by_emulation()} cannot run under emulation, {part.otherwise()} skipped"
        )
        for name in part.failed:
            print("  failed:", name)
    print(f"what emulation cannot run, and why: {target}")
    if any(part.failed for part in parts):
        raise SystemExit(1)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
