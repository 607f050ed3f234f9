"""clang-tidy on the C++ sources, but only on what has changed since it was last clean.

usage: tidy.py BUILD_FOLDER SOURCE...

BUILD_FOLDER holds compile_commands.json. A source is clean for good while its preprocessed text
(comments and headers included), its command, the configuration and the version of clang-tidy
are the same. What was clean is remembered outside the tree, as a compiler cache is, so that a
fresh clone gains too: in PENSTOCK_TIDY_CACHE, or else in the user's cache folder.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CLANG_TIDY = "clang-tidy-19"
UNUSED_FOR_DAYS = 30


def cache_folder() -> Path:
    chosen = os.environ.get("PENSTOCK_TIDY_CACHE")
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = Path(chosen) if chosen else home / "penstock-tidy"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def unique_commands(build: Path) -> dict[Path, list[str]]:
    """The first command of each source: some are compiled into a second test program as well."""
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
    text = subprocess.run(preprocessing, cwd=build, capture_output=True, check=True).stdout
    digest = hashlib.sha256(version)
    for folder in reversed(source.relative_to(ROOT).parents):
        configuration = ROOT / folder / ".clang-tidy"
        if configuration.exists():
            digest.update(configuration.read_bytes())
    for part in (" ".join(command).encode(), text):
        digest.update(part.replace(os.fsencode(ROOT), b""))
    return digest.hexdigest()


def is_clean(
    source: Path, command: list[str] | None, build: Path, version: bytes, cache: Path
) -> bool:
    if command is None:
        # Compiled by a test, not by the build: clang-tidy takes the command of a source like it.
        return runs_clean([str(source), "-p", str(build)], build)
    try:
        remembered = cache / state_of(source, command, build, version)
    except subprocess.CalledProcessError as exc:
        print(f"{source}: {exc.stderr.decode(errors='replace')}", flush=True)
        return False
    if remembered.exists():
        remembered.touch()
        return True
    clean = runs_clean([str(source), "--", *without_output(command)[1:]], build)
    if clean:
        remembered.touch()
    return clean


def runs_clean(arguments: list[str], build: Path) -> bool:
    checking = [CLANG_TIDY, "--quiet", "--warnings-as-errors=*", *arguments]
    done = subprocess.run(checking, cwd=build, capture_output=True, text=True)
    if done.returncode != 0:
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
        clean = list(
            pool.map(lambda path: is_clean(path, commands.get(path), build, version, cache), paths)
        )
    return 0 if all(clean) else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
