"""Runs clang-tidy on the C++ sources that have changed since they were last clean.

usage: tidy.py BUILD_FOLDER SOURCE...

BUILD_FOLDER contains compile_commands.json. A source stays clean while its preprocessed text
(including comments and headers), its command, the configuration and the version of clang-tidy are
the same. The record of clean sources is outside the tree, like a compiler cache, so that a new
clone benefits too: in PENSTOCK_TIDY_CACHE, or else in the user's cache folder.

Most of the time goes into the standard library's headers, which every check visits. Sources of one
folder are therefore checked together, as one translation unit that includes them. Sources that do
not compile together, because both define a name, are separated. A finding counts only if it also
appears for the source alone.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CLANG_TIDY = "clang-tidy-19"
UNUSED_FOR_DAYS = 30
TOGETHER = 8  # Most sources of one translation unit; more leave a core idle at the end
MAIN = re.compile(rb"^int main\(", re.M)
# What counts in such a unit: its sources, and the headers that .clang-tidy names.
UNIT_HEADERS = r"(include/penstock|src|python)/.*|\.cpp$"


def cache_folder() -> Path:
    chosen = os.environ.get("PENSTOCK_TIDY_CACHE")
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = Path(chosen) if chosen else home / "penstock-tidy"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def unique_commands(build: Path) -> dict[Path, list[str]]:
    """The first command of each source; some are also compiled into a second test program."""
    commands: dict[Path, list[str]] = {}
    for entry in json.loads((build / "compile_commands.json").read_text(encoding="utf-8")):
        path = Path(entry["directory"], entry["file"]).resolve()
        commands.setdefault(path, shlex.split(entry["command"]))
    return commands


def without_output(command: list[str]) -> list[str]:
    place = command.index("-o")
    return [word for word in (*command[:place], *command[place + 2 :]) if word != "-c"]


def state_of(source: Path, command: list[str], build: Path, version: bytes) -> str:
    # -CC keeps comments: a NOLINT is one.
    preprocessing = [*without_output(command), "-E", "-CC"]
    # If it fails, clang-tidy reports why.
    text = subprocess.run(preprocessing, cwd=build, capture_output=True).stdout
    digest = hashlib.sha256(version)
    for folder in reversed(source.relative_to(ROOT).parents):
        configuration = ROOT / folder / ".clang-tidy"
        if configuration.exists():
            digest.update(configuration.read_bytes())
    for part in (" ".join(command).encode(), text):
        digest.update(part.replace(os.fsencode(ROOT), b""))
    return digest.hexdigest()


@dataclass(frozen=True)
class Source:
    """A source that is not known to be clean."""

    path: Path
    command: tuple[str, ...]  # The compiler's, without source and output
    record: Path

    @property
    def kind(self) -> tuple[str, ...]:
        """What sources that are checked together have in common."""
        program = str(self.path) if MAIN.search(self.path.read_bytes()) else ""
        return str(self.path.parent), program, *self.command


def unknown_source(
    path: Path, command: list[str], build: Path, version: bytes, cache: Path
) -> Source | None:
    """The source, unless it is known to be clean."""
    record = cache / state_of(path, command, build, version)
    if record.exists():
        record.touch()
        return None
    words = without_output(command)
    words.remove(next(word for word in words[1:] if word.endswith(path.name)))
    return Source(path, tuple(words), record)


def together(sources: Sequence[Source]) -> list[Sequence[Source]]:
    """Groups of sources of one kind."""
    groups: list[Sequence[Source]] = []
    for _, same in groupby(sorted(sources, key=lambda each: each.kind), lambda each: each.kind):
        group = list(same)
        count = -(-len(group) // TOGETHER)
        groups += [group[number::count] for number in range(count)]
    return sorted(groups, key=len, reverse=True)


def are_clean(sources: Sequence[Source], build: Path) -> bool:
    """Check sources of one kind together if they compile together."""
    if len(sources) == 1:
        source = sources[0]
        clean = runs_clean([str(source.path), "--", *source.command[1:]], build)
    else:
        clean = check_as_one(sources, build)
        if not clean:
            middle = len(sources) // 2
            halves = [are_clean(half, build) for half in (sources[:middle], sources[middle:])]
            return all(halves)
    if clean:
        for source in sources:
            source.record.touch()
    return clean


def check_as_one(sources: Sequence[Source], build: Path) -> bool:
    folder, command = sources[0].path.parent, sources[0].command
    name = "-".join((*folder.relative_to(ROOT).parts, sources[0].path.stem, str(len(sources))))
    unit = build / "tidy" / f"{name}.cpp"
    unit.parent.mkdir(exist_ok=True)
    unit.write_text(
        "".join(
            f'#include "{source.path}" // NOLINT(bugprone-suspicious-include)\n'
            for source in sources
        ),
        encoding="utf-8",
    )
    compiling = [*command, "-fsyntax-only", str(unit)]
    if subprocess.run(compiling, cwd=build, capture_output=True).returncode != 0:
        return False
    # The unit is in the build folder, where another configuration applies.
    dumping = [CLANG_TIDY, "--dump-config", str(sources[0].path), "--", *command[1:]]
    configuration = unit.with_suffix(".yaml")
    configuration.write_bytes(
        subprocess.run(dumping, cwd=build, capture_output=True, check=True).stdout
    )
    checking = [f"--config-file={configuration}", f"--header-filter={UNIT_HEADERS}", str(unit)]
    return runs_clean([*checking, "--", *command[1:]], build, quietly=True)


def runs_clean(arguments: list[str], build: Path, *, quietly: bool = False) -> bool:
    checking = [CLANG_TIDY, "--quiet", "--warnings-as-errors=*", *arguments]
    done = subprocess.run(checking, cwd=build, capture_output=True, text=True)
    if done.returncode != 0 and not quietly:
        print(done.stdout, done.stderr, sep="", flush=True)
    return done.returncode == 0


def main(build_folder: str, *sources: str) -> int:
    build = Path(build_folder).resolve()
    cache = cache_folder()
    for old in cache.iterdir():
        if old.stat().st_mtime < time.time() - UNUSED_FOR_DAYS * 86400:
            old.unlink(missing_ok=True)
    version = subprocess.run([CLANG_TIDY, "--version"], capture_output=True, check=True).stdout
    commands = unique_commands(build)
    paths = [Path(source).resolve() for source in sources]
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        # Compiled by a test, not by the build: clang-tidy takes the command of a similar source.
        others = [path for path in paths if path not in commands]
        checks = [pool.submit(runs_clean, [str(path), "-p", str(build)], build) for path in others]
        unknown = pool.map(
            lambda path: unknown_source(path, commands[path], build, version, cache),
            (path for path in paths if path in commands),
        )
        groups = together([source for source in unknown if source is not None])
        checks += [pool.submit(are_clean, group, build) for group in groups]
    return 0 if all(check.result() for check in checks) else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
