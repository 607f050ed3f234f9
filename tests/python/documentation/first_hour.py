"""Follows the README and each page of docs/start, as a new user would, and writes down the result.

``python -m tests.python.documentation.first_hour [PAGE...]`` makes a clone of the last commit for
each page, types the page's commands into shells, writes the page's files, and compares what is
printed with what the page shows. Times, commands and output go to tests/results/first_hour.md.
The results of other pages stay there. Of the README ("readme") it types the commands of the
beginning and of "Installing", but not ``make test``. It installs no system packages: it writes down
which of them were there already.
A page whose output differs ends the run. Where ccache is installed, its cache is empty at first:
the first page compiles everything, later ones what no page before them has compiled.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from tests.python.documentation.page_steps import DOCS, ROOT, blocks, matches, resembles

RESULT = ROOT / "tests" / "results" / "first_hour.md"
README = ROOT / "README.md"
SECONDS, COMMANDS = 300, 3
ENDED = "-- ended with"
SHOWN_LINES = 12
"""Of the output of an installation or a build, at its end."""


class Terminal:
    """A shell that commands are typed into."""

    def __init__(self, folder: Path, cache: Path) -> None:
        own = ("VIRTUAL_ENV", "PYTHONPATH", "CMAKE_", "CC", "CXX")
        kept = {name: text for name, text in os.environ.items() if not name.startswith(own)}
        self._shell = subprocess.Popen(
            ["bash"],
            cwd=folder,
            env={**kept, "CCACHE_DIR": str(cache), "PYTHONUNBUFFERED": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def type(self, command: str, until: str | None = None) -> str:
        """Run a command to its end, or until it prints ``until``; what it has printed.

        Raises:
            SystemExit: it has failed.
        """
        assert self._shell.stdin is not None and self._shell.stdout is not None
        self._shell.stdin.write(f"{command}\necho '{ENDED}' $?\n")
        self._shell.stdin.flush()
        printed = ""
        for line in self._shell.stdout:
            if line.startswith(ENDED):
                if int(line.split()[-1]) or until is not None:
                    break
                return printed
            printed += line
            if until is not None and until in line:
                return printed
        raise SystemExit(f"{command}\n{printed}has failed")

    def close(self) -> None:
        """End the shell and what runs in it."""
        os.killpg(self._shell.pid, signal.SIGKILL)
        self._shell.communicate()


class Followed(NamedTuple):
    """A page that was followed: the seconds are those since the first command."""

    page: Path
    commands: int
    installed: float
    first_byte: float
    transcript: str


def apt_packages() -> list[str]:
    """The Debian packages that the README and the pages tell a user to install."""
    pages = [DOCS / "install.md", *sorted(DOCS.glob("start/*.md"))]
    lines = [
        line
        for page in pages
        for line in re.findall(r"apt-get install ([^`\n]+)", page.read_text(encoding="utf-8"))
    ]
    return list(dict.fromkeys(["python3", "git", "make", *" ".join(lines).split()]))


def preinstalled() -> str:
    """Each of these packages with the version that was there before, or "not installed"."""
    shown = []
    for name in apt_packages():
        asked = ["dpkg-query", "--show", "--showformat=${db:Status-Status} ${Version}", name]
        found = subprocess.run(asked, capture_output=True, text=True, check=False).stdout
        status, _, version = found.partition(" ")
        shown.append(f"{name} {version if status == 'installed' else 'not installed'}\n")
    return "".join(shown)


def readme_commands(text: str) -> list[str]:
    """What the README says to type, with comments away."""
    begin = re.findall(r"as root or with sudo:\n\n((?: {4}.*\n)+)", text)
    installing = re.findall(r"^## Installing\n\n((?: {4}.*\n)+)", text, re.M)
    lines = "".join([*begin, *installing]).splitlines()
    return [re.sub(r" +# .*", "", line).strip() for line in lines]


# Not typed, and why.
NOT_RUN = {"make test": "every test, up to 40 minutes; the gate of each commit runs it"}
# Typed after ``make demo``. The README's own DEMO_ARGS=--dash runs for ten minutes.
DASHBOARD = 'make demo DEMO_ARGS="--dash 0 --duration 5 --no-plot"'


def follow_readme(folder: Path, cache: Path) -> Followed:
    """Type the README's commands in a clone; the first data are those of ``make demo``."""
    terminal = Terminal(folder, cache)
    typed, commands, first, apt = "", 0, 0.0, " ".join(apt_packages())
    begin = time.monotonic()
    try:
        for command in [f"apt-get install --simulate {apt}", *readme_commands(README.read_text())]:
            if command in NOT_RUN:
                typed += f"$ {command}\n(not run: {NOT_RUN[command]})\n"
                continue
            for each in [command, DASHBOARD] if command == "make demo" else [command]:
                printed = terminal.type(each)
                typed += f"$ {each}\n{last_lines(printed)}"
                commands += 1
                if each == command == "make demo":
                    if "recorded 4 devices" not in printed:
                        raise SystemExit(f"README.md: {each!r} printed\n{printed}")
                    first = time.monotonic() - begin
                if each == DASHBOARD and "dashboard: http://" not in printed:
                    raise SystemExit(f"README.md: {each!r} printed\n{printed}")
    finally:
        terminal.close()
    assert first, "the README has no 'make demo'"
    return Followed(README, commands, first, first, typed)


def last_lines(text: str) -> str:
    lines = text.splitlines(keepends=True)
    return "".join(["…\n", *lines[-SHOWN_LINES:]] if len(lines) > SHOWN_LINES else lines)


def follow(page: Path, folder: Path, cache: Path) -> Followed:
    """Take every step of a page in a clone."""
    text = page.read_text(encoding="utf-8")
    terminal = Terminal(folder, cache)
    terminals = [terminal]
    commands, installed, first_byte, typed = 0, 0.0, 0.0, ""
    sequence = blocks(page)
    begin = time.monotonic()
    try:
        for number, block in enumerate(sequence):
            kind, _, argument = (block.mark or "").partition(": ")
            if kind in ("file", "cpp"):
                name = argument if kind == "file" else f"{argument}.cpp"
                (folder / name).write_text(block.text, encoding="utf-8")
                typed += f"(writes {name})\n"
            if block.language != "sh":
                continue
            shown = sequence[number + 1] if number + 1 < len(sequence) else None
            for command in block.text.splitlines():
                printed = terminal.type(command, argument if kind == "serve" else None)
                typed += f"$ {command}\n{last_lines(printed)}"
                commands += kind != "also"
            if not installed:
                installed = time.monotonic() - begin
            if shown is not None and shown.language == "text":
                as_shown = resembles if shown.mark == "sample" else matches
                if not as_shown(shown.text, printed):
                    raise SystemExit(f"{page}: {command!r} printed\n{printed}and not\n{shown.text}")
                if kind != "also":
                    first_byte = time.monotonic() - begin
            if kind == "serve":
                terminal = Terminal(folder, cache)
                terminals.append(terminal)
                typed += "(in a second terminal)\n"
    finally:
        for each in terminals:
            each.close()
    assert first_byte, text
    return Followed(page, commands, installed, first_byte, typed)


_ROW = re.compile(r"^\| \[(\w+)\]\(.*\n", re.M)
_SECTION = re.compile(r"^## (\w+)\n\n.*?^```text\n.*?^```\n", re.M | re.S)


def report(followed: list[Followed], before: str) -> str:
    """The results of these pages, and of the others as they were ``before``."""
    commit = subprocess.check_output(["git", "describe", "--always"], cwd=ROOT, text=True).strip()
    rows = {match[1]: match[0] for match in _ROW.finditer(before)}
    sections = {match[1]: match[0] for match in _SECTION.finditer(before)}
    when = f"{datetime.now(UTC):%Y-%m-%d}, commit {commit}, load {os.getloadavg()[2]:.0f}."
    for number, each in enumerate(followed):
        name = each.page.stem
        cache = "ccache was empty." if number == 0 else "ccache had what earlier pages compiled."
        rows[name] = (
            f"| [{name}](../../{each.page.relative_to(ROOT)}) | {each.commands} |"
            f" {each.installed:.0f} | {each.first_byte:.0f} |\n"
        )
        transcript = anonymous(each.transcript)
        sections[name] = f"## {name}\n\n{when} {cache}\n\n```text\n{transcript}```\n"
    names = [name for name in (page.stem for page in every_page()) if name in sections]
    return "\n".join(
        [
            "# The first hour",
            "",
            "The README, and each page of docs/start to the letter, in a clone of its own:",
            "`python -m tests.python.documentation.first_hour`. At most"
            f" {COMMANDS} commands and {SECONDS} s lead to the",
            "first received byte of a page of docs/start. The README's first data are those of",
            "`make demo`.",
            "",
            f"{machine()}. The run",
            "installs no system packages. These were there before:",
            "",
            f"```text\n{preinstalled()}```",
            "",
            "pip and git had their network, and pip may have had downloads in its cache.",
            "",
            "| page | commands | s, installed | s, first byte |",
            "|---|---:|---:|---:|",
            *(rows[name].rstrip("\n") for name in names),
            "",
            *(sections[name] for name in names),
        ]
    )


def every_page() -> list[Path]:
    return [README, *sorted(DOCS.glob("start/*.md"))]


def machine() -> str:
    name = "unknown processor"
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            name = line.partition(":")[2].strip()
            break
    system = platform.freedesktop_os_release().get("PRETTY_NAME", "Linux")
    return f"{system}, {os.cpu_count()} × {name}, CPython {platform.python_version()}"


def anonymous(text: str) -> str:
    """Without the places of this machine."""
    text = re.sub(r"\S*/tmp\w+/penstock", "~/penstock", text)
    noise = r"^(Looking in indexes|\[notice\]| +Stored in directory| .*still running).*\n"
    return re.sub(noise, "", text, flags=re.M)


def main(names: list[str]) -> int:
    pages = [page for page in every_page() if page.stem.lower() in names] or every_page()
    if unknown := set(names) - {page.stem.lower() for page in pages}:
        raise SystemExit(f"no start page has the name {', '.join(sorted(unknown))}")
    before = RESULT.read_text(encoding="utf-8") if RESULT.exists() else ""
    followed: list[Followed] = []
    with tempfile.TemporaryDirectory() as folder:
        # Each at the same place, which a compiler's cache takes into account.
        clone, cache = Path(folder) / "penstock", Path(folder) / "ccache"
        for page in pages:
            subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
            each = follow_readme(clone, cache) if page == README else follow(page, clone, cache)
            followed.append(each)
            print(f"{page.stem}: {each.commands} commands, {each.first_byte:.0f} s", flush=True)
            RESULT.write_text(report(followed, before), encoding="utf-8")
            shutil.rmtree(clone)
    starts = [each for each in followed if each.page != README]
    missed = [each for each in starts if each.first_byte > SECONDS or each.commands > COMMANDS]
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
