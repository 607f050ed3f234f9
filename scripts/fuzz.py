"""Runs random programs in Python and C++, and libFuzzer, for a chosen time.

usage: python scripts/fuzz.py [--programs N | --minutes M] [--seed S] [--gc-threshold N]
                              [--python VENV ...] [--asan] [--only NAME ...] [--no-cpp]

A module under tests/python takes part if it is a program with an option --programs. With --minutes,
each runs in rounds of 500 programs, and every round starts at the seed after the last one. With
--asan, the extension is the one that scripts/test-extension-asan builds. The result is appended to
tests/results/fuzz.md; the exit code is not 0 if anything was found.
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
# The test program of a folder of tests/cpp/coro, where it is not the one of all others.
CPP_PROGRAMS = {"http": "http_test", "http_client": "http_client_test", "tls": "tls_test"}
# The GoogleTest tests whose length tests/cpp/support/stress.hpp controls.
CPP_TESTS = re.compile(r"^TEST(?:_F)?\((\w+), (\w+)\) \{(?:(?!^\}).)*?\bStress\b", re.M | re.S)


@dataclass
class Outcome:
    what: str
    seeds: str
    seconds: float
    says: str
    well: bool


def bounds(options: argparse.Namespace) -> tuple[int, float]:
    """Programs per round, and the time at which rounds end."""
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
        python = [str(ROOT / venv / "bin" / "python")]
        if options.asan:
            python = [str(ROOT / "scripts" / "test-extension-asan"), venv]
        for path in MODULES:
            module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            if options.only and module.rsplit(".", 1)[-1] not in options.only:
                continue
            command = [*python, "-m", module, "--programs", "{programs}", "--seed", "{seed}"]
            what = f"{venv} {module}"
            if options.asan:
                what = f"ASan {what}"
            if options.gc_threshold is not None:
                command += ["--gc-threshold", str(options.gc_threshold)]
                what += f" --gc-threshold {options.gc_threshold}"
            environment = {"PYTHONPATH": f"{ROOT / 'python'}{os.pathsep}{ROOT}"}
            outcomes.append(in_rounds(what, options, command, environment))
    return outcomes


def cpp_programs(options: argparse.Namespace) -> list[Outcome]:
    sources = ROOT / "tests" / "cpp" / "coro"
    found = [
        (CPP_PROGRAMS.get(path.relative_to(sources).parts[0], "coroutine_test"), f"{suite}.{test}")
        for path in sorted(sources.rglob("*_test.cpp"))
        for suite, test in CPP_TESTS.findall(path.read_text(encoding="utf-8"))
    ]
    outcomes = []
    for preset in CPP_PRESETS:
        for name, test in found:
            program = ROOT / "build" / preset / "tests" / "cpp" / "coro" / name
            if not program.exists():
                print(f"C++ {preset} {test}: not built, left out (make test builds it)", flush=True)
                continue
            environment = {
                "PENSTOCK_STRESS_ROUNDS": "{programs}",
                "PENSTOCK_STRESS_SEED": "{seed}",
            }
            command = [str(program), f"--gtest_filter={test}"]
            outcomes.append(in_rounds(f"C++ {preset} {test}", options, command, environment))
    return outcomes


def libfuzzer_programs(options: argparse.Namespace) -> list[Outcome]:
    """Run each libFuzzer program of the asan preset; the build keeps the inputs it finds."""
    built = ROOT / "build" / "asan" / "tests" / "cpp" / "fuzz"
    limit = [f"-runs={options.programs}"]
    if options.minutes is not None:
        limit = [f"-max_total_time={options.minutes * 60:.0f}"]
    outcomes = []
    for source in sorted((ROOT / "tests" / "cpp" / "fuzz").glob("*_fuzz.cpp")):
        program = built / source.stem
        subject = source.stem.removesuffix("_fuzz")
        if not program.exists():
            print(f"libFuzzer {subject}: not built, left out", flush=True)
            continue
        folders = [built / "found" / subject, source.parent / "corpus" / subject]
        folders[0].mkdir(parents=True, exist_ok=True)
        command = [str(program), *limit, "-seed={seed}", "-timeout=10", "-max_len=2048"]
        command += [f"-artifact_prefix={built}/", *map(str, folders)]
        # The program keeps to the time itself: one round.
        once = argparse.Namespace(**{**vars(options), "minutes": None})
        outcome = in_rounds(f"libFuzzer {subject}", once, command, {})
        outcome.seeds = str(options.seed)  # of the program's own generator; it counts its runs
        outcomes.append(outcome)
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
    parser.add_argument("--asan", action="store_true", help="the extension under ASan+UBSan")
    names = [path.stem for path in MODULES]
    parser.add_argument("--only", nargs="+", choices=names, help="modules under tests/python (all)")
    parser.add_argument("--no-cpp", action="store_true", help="leave out all of C++")
    options = parser.parse_args(arguments)
    if not MODULES:
        parser.error("no module under tests/python has random programs")
    outcomes = python_programs(options)
    if not options.no_cpp:
        outcomes += cpp_programs(options) + libfuzzer_programs(options)
    write(outcomes)
    return 0 if all(each.well for each in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
