"""What the compiler needs for the TCP echo examples, beside the headers of another commit.

    python benchmarks/compile_time.py BEFORE [--examples echo_scope] [--compilers clang++-19,g++-14]
    python benchmarks/compile_time.py BEFORE --instructions --rounds 1

BEFORE is a commit, or the folder of another checkout. Each compiles the example that it has itself,
in turns: old, new, old, new. A ratio is new over old, the median of the rounds with the lowest and
the highest; above 1, the new headers need more. User CPU time is that of the compiler with its
child processes. Instructions are counted by Valgrind's cachegrind, which takes minutes for each
compilation and does not depend on what else runs. A folder of another layout or a compiler that
cannot read the headers is an error with the compiler's words.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

# Python puts the folder of a script on the path; the package is in the folder above.
ROOT = Path(__file__).resolve().parent.parent
sys.path[0] = str(ROOT)

from benchmarks.measure.compilers import CLANG, output, version_of_compiler  # noqa: E402
from benchmarks.measure.spread import paired_ratio, spread  # noqa: E402
from benchmarks.measure.tables import figure, markdown_table  # noqa: E402

EXAMPLES = ["echo_sequential", "echo_scope", "echo_shutdown", "echo_timeout"]
OPTIONS = ["-std=c++23", "-O2", "-c", "-o", os.devnull]
CACHEGRIND = [
    "valgrind",
    "--tool=cachegrind",
    "--cache-sim=no",
    "--cachegrind-out-file=/dev/null",
    "--trace-children=yes",
]
COUNTED = re.compile(r"I +refs: +([\d,]+)")


class NotCompiled(Exception):
    """A compilation failed, or something that it needs is missing."""


@dataclass(frozen=True)
class Cost:
    """One compilation."""

    user_seconds: float
    instructions: int | None = None


def compile_command(checkout: Path, example: str, compiler: str) -> list[str]:
    """The compiler with an example and the headers of a checkout, which writes nothing."""
    source = checkout / "examples" / "cpp" / f"{example}.cpp"
    return [compiler, *OPTIONS, "-I", str(checkout / "include"), str(source)]


def cpu_of(command: Sequence[str]) -> Cost:
    """Run the compiler; its user CPU time with that of its children.

    Raises:
        NotCompiled: with the first error that it reports.
    """
    with tempfile.TemporaryFile() as errors:
        actions = [(os.POSIX_SPAWN_DUP2, errors.fileno(), 2)]
        try:
            pid = os.posix_spawnp(command[0], list(command), os.environ, file_actions=actions)
        except FileNotFoundError as error:
            raise NotCompiled(f"{command[0]} is not installed") from error
        _, status, usage = os.wait4(pid, 0)
        if status != 0:
            errors.seek(0)
            said = errors.read().decode(errors="replace").splitlines()
            first = next((line for line in said if "error: " in line), "it said no reason")
            raise NotCompiled(f"{command[-1]}: {first}")
    return Cost(usage.ru_utime)


def instructions_of(command: Sequence[str]) -> Cost:
    """The same under cachegrind, with the instructions of all its processes.

    Raises:
        NotCompiled: as :func:`cpu_of`; also if Valgrind counts nothing.
    """
    if shutil.which(CACHEGRIND[0]) is None:
        raise NotCompiled("valgrind is not installed (Debian: valgrind)")
    with tempfile.TemporaryDirectory() as folder:
        cost = cpu_of([*CACHEGRIND, f"--log-file={folder}/%p", *command])
        logs = "\n".join(file.read_text() for file in Path(folder).iterdir())
    counted = sum(counts_in(logs))
    if counted == 0:
        raise NotCompiled(f"valgrind counted no instruction of {command[0]}")
    return Cost(cost.user_seconds, counted)


def counts_in(logs: str) -> list[int]:
    """The instructions of each process in cachegrind's logs."""
    return [int(count.replace(",", "")) for count in COUNTED.findall(logs)]


@contextmanager
def checkout_of(before: str) -> Iterator[Path]:
    """The folder of a checkout; for a commit, its headers and examples in a temporary one.

    Raises:
        NotCompiled: if it is neither.
    """
    if Path(before).is_dir():
        yield Path(before).resolve()
        return
    with tempfile.TemporaryDirectory() as folder:
        archive = Path(folder) / "archive.tar"
        wanted = ["--output", str(archive), before, "include", "examples/cpp"]
        if output("git", "-C", str(ROOT), "archive", *wanted) is None:
            raise NotCompiled(f"{before} is neither a folder nor a commit with include/")
        subprocess.run(["tar", "-xf", str(archive), "-C", folder], check=True)
        yield Path(folder)


def compare(
    before: Path, example: str, compiler: str, rounds: int, *, instructions: bool
) -> list[str]:
    """A row of the table: the example, the compiler, and old, new and ratio of each figure."""
    measure = instructions_of if instructions else cpu_of
    commands = [compile_command(checkout, example, compiler) for checkout in (before, ROOT)]
    print(f"{example}, {compiler} ...", file=sys.stderr, flush=True)
    for command in commands:
        cpu_of(command)  # brings the files into memory
    pairs = [(measure(commands[0]), measure(commands[1])) for _ in range(rounds)]

    def cells(old: list[float], new: list[float], digits: int) -> list[str]:
        both = [figure(spread(values), digits) for values in (old, new)]
        return [*both, figure(paired_ratio(new, old), 3)]

    if instructions:
        counts = [
            [cost.instructions / 1e9 for cost in costs if cost.instructions is not None]
            for costs in zip(*pairs, strict=True)
        ]
        return [example, compiler, *cells(counts[0], counts[1], 3)]
    times = [[cost.user_seconds for cost in costs] for costs in zip(*pairs, strict=True)]
    return [example, compiler, *cells(times[0], times[1], 2)]


def make_parser() -> argparse.ArgumentParser:
    """The command line."""
    assert __doc__ is not None
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("before", metavar="BEFORE", help="a commit, or the folder of a checkout")
    parser.add_argument(
        "--examples", type=lambda text: text.split(","), default=EXAMPLES, help=",".join(EXAMPLES)
    )
    parser.add_argument(
        "--compilers", type=lambda text: text.split(","), default=[CLANG], help=f"{CLANG}"
    )
    parser.add_argument("--rounds", type=int, default=12, help="pairs of each (12)")
    parser.add_argument(
        "--instructions", action="store_true", help="count instructions instead of CPU time"
    )
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; 1 if something does not compile."""
    options = make_parser().parse_args(arguments)
    unit = "G instructions" if options.instructions else "user CPU, s"
    try:
        with checkout_of(options.before) as before:
            rows = [
                compare(
                    before, example, compiler, options.rounds, instructions=options.instructions
                )
                for compiler in options.compilers
                for example in options.examples
            ]
    except NotCompiled as error:
        print(f"benchmarks/compile_time.py: {error}", file=sys.stderr)
        return 1
    versions = ", ".join(str(version_of_compiler(compiler)) for compiler in options.compilers)
    print(f"{versions}; {' '.join(OPTIONS[:2])}; {unit}:\n")
    print(markdown_table(["example", "compiler", "old", "new", "new / old"], rows, labels=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
