"""Runs every module of random programs, and the C++ tests with them, for as long as wanted.

usage: python scripts/fuzz.py [--programs N | --minutes M] [--seed S] [--gc-threshold N]
                              [--python VENV ...] [--no-cpp]

A module under tests/python takes part if it is a program that tells of --programs. With --minutes
each goes on in rounds of 500 programs, every round from the seed behind the last. What came of it
is appended to tests/results/fuzz.md; the exit code is not 0 if anything was found.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "tests" / "results" / "fuzz.md"
MODULES = sorted(
    path
    for path in (ROOT / "tests" / "python").rglob("*.py")
    if "--programs" in (text := path.read_text(encoding="utf-8"))
    and '\nif __name__ == "__main__":' in text
)
CPP_PRESETS = ("asan", "tsan")
PROGRAMS_A_ROUND = 500
# GoogleTest's tests that ask tests/cpp/support/stress.hpp how long to go on.
CPP_TESTS = re.compile(r"^TEST(?:_F)?\((\w+), (\w+)\) \{(?:(?!^\}).)*?\bStress\b", re.M | re.S)


@dataclass
class Outcome:
    what: str
    seeds: str
    seconds: float
    says: str
    well: bool


def bounds(options: argparse.Namespace) -> tuple[int, float]:
    """Programs a round, and until when rounds go on."""
    if options.minutes is None:
        return options.programs, 0.0
    return PROGRAMS_A_ROUND, options.minutes * 60


def in_rounds(
    what: str, options: argparse.Namespace, command: list[str], environment: dict[str, str]
) -> Outcome:
    """Run a command round after round; `{programs}` and `{seed}` in its words are filled in."""
    programs, seconds = bounds(options)
    began, seed = time.monotonic(), options.seed
    while True:
        fill = {"programs": str(programs), "seed": str(seed)}
        done = subprocess.run(
            [word.format(**fill) for word in command],
            cwd=ROOT,
            env={
                **os.environ,
                **{name: value.format(**fill) for name, value in environment.items()},
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        seed += programs
        took = time.monotonic() - began
        if done.returncode != 0 or took >= seconds:
            break
    lines = done.stdout.strip().splitlines() or ["(silent)"]
    if done.returncode != 0:
        print(done.stdout, flush=True)
    last = f"exit code {done.returncode}: {lines[-1]}" if done.returncode else lines[-1]
    outcome = Outcome(what, f"{options.seed} to {seed - 1}", took, last, done.returncode == 0)
    print(f"{outcome.what}: seeds {outcome.seeds}, {took:.0f} s: {outcome.says}", flush=True)
    return outcome


def python_programs(options: argparse.Namespace) -> list[Outcome]:
    outcomes = []
    for venv in options.python:
        python = ROOT / venv / "bin" / "python"
        for path in MODULES:
            module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            command = [str(python), "-m", module, "--programs", "{programs}", "--seed", "{seed}"]
            if options.gc_threshold is not None:
                command += ["--gc-threshold", str(options.gc_threshold)]
            environment = {"PYTHONPATH": f"{ROOT / 'python'}{os.pathsep}{ROOT}"}
            outcomes.append(in_rounds(f"{venv} {module}", options, command, environment))
    return outcomes


def cpp_programs(options: argparse.Namespace) -> list[Outcome]:
    found = [
        f"{suite}.{test}"
        for path in sorted((ROOT / "tests" / "cpp").rglob("*_test.cpp"))
        for suite, test in CPP_TESTS.findall(path.read_text(encoding="utf-8"))
    ]
    outcomes = []
    for preset in CPP_PRESETS:
        program = ROOT / "build" / preset / "tests" / "cpp" / "coro" / "coroutine_test"
        if not program.exists():
            print(f"C++ {preset}: not built, left out (make test builds it)", flush=True)
            continue
        for test in found:
            environment = {
                "PENSTOCK_STRESS_ROUNDS": "{programs}",
                "PENSTOCK_STRESS_SEED": "{seed}",
            }
            command = [str(program), f"--gtest_filter={test}"]
            outcomes.append(in_rounds(f"C++ {preset} {test}", options, command, environment))
    return outcomes


def write(outcomes: Sequence[Outcome]) -> None:
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True
    ).stdout.strip()
    RESULTS.parent.mkdir(exist_ok=True)
    new = not RESULTS.exists()
    with RESULTS.open("a", encoding="utf-8") as file:
        if new:
            file.write("# What `make fuzz` has run\n\n")
            file.write("| day | commit | program | seeds | seconds | last line |\n")
            file.write("|---|---|---|---|---|---|\n")
        day = time.strftime("%Y-%m-%d", time.gmtime())
        for each in outcomes:
            says = each.says.replace("|", "\\|").replace(str(ROOT), ".")[:160]
            cells = (day, commit, each.what, each.seeds, f"{each.seconds:.0f}", says)
            file.write(f"| {' | '.join(cells)} |\n")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    long = parser.add_mutually_exclusive_group()
    long.add_argument("--programs", type=int, default=2000, help="of each module (default: 2000)")
    long.add_argument("--minutes", type=float, help="of each module, in place of --programs")
    parser.add_argument("--seed", type=int, default=1, help="of the first program (default: 1)")
    parser.add_argument("--gc-threshold", type=int, help="collect garbage after so many objects")
    every = [".venv", *sorted(str(p.relative_to(ROOT)) for p in ROOT.glob("build/venv-*"))]
    parser.add_argument("--python", nargs="+", default=every, help="virtual environments (all)")
    parser.add_argument("--no-cpp", action="store_true", help="leave out the C++ tests")
    options = parser.parse_args(arguments)
    if not MODULES:
        parser.error("no module under tests/python has random programs")
    outcomes = python_programs(options)
    if not options.no_cpp:
        outcomes += cpp_programs(options)
    write(outcomes)
    return 0 if all(each.well for each in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
