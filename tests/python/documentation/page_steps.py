"""A page of docs/ as steps that a reader takes: files to write, commands to run, servers to start.

A comment above a fenced block says what the block is:

- ``<!-- file: NAME -->``: a file of that name; it may have folders.
- ``<!-- run -->``, ``<!-- also -->``: commands. A ``text`` block after them is what they print; a
  line with ``…`` in it matches any text in that place, and a line of ``…`` alone any lines.
  ``also`` marks what is not on the way to a page's first result.
- ``<!-- sample -->``, above the ``text`` block after commands: what they have once printed. Figures
  and the order of lines may differ, and where a line of ``…`` stands, others may be too.
- ``<!-- serve: TEXT -->``: a command that goes on; it is ready when it has printed TEXT.
- ``<!-- cpp: NAME -->``: the program examples/cpp/NAME.cpp, which the C++ tests build and run.

Shell blocks without a comment are not run: they install something.
"""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[3]
DOCS = ROOT / "docs"
SECONDS_A_COMMAND = 60

_STEP = re.compile(
    r"^<!-- (?P<kind>file|run|also|serve|cpp)(?:: (?P<argument>[^>]+))? -->\n+"
    r"```(?P<language>\w+)\n(?P<text>.*?)^```\n"
    r"(?:\n*(?P<sample><!-- sample -->\n+)?```text\n(?P<output>.*?)^```\n)?",
    re.M | re.S,
)


_BLOCK = re.compile(
    r"(?:^<!-- (?P<mark>[^\n]*?) -->\n+)?^```(?P<language>\w+)\n(?P<text>.*?)^```\n", re.M | re.S
)


class Block(NamedTuple):
    """A fenced block, and the comment above it."""

    mark: str | None
    language: str
    text: str


class Step(NamedTuple):
    kind: str
    argument: str | None
    language: str
    text: str
    sample: str | None
    output: str | None


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [Block(**match.groupdict()) for match in _BLOCK.finditer(text)]


def steps(page: Path) -> list[Step]:
    return [Step(**match.groupdict()) for match in _STEP.finditer(page.read_text(encoding="utf-8"))]


def matches(expected: str, printed: str) -> bool:
    """Whether output is as the page shows it."""
    pattern = "".join(
        r"(?:.*\n)*" if line == "…\n" else r".*".join(map(re.escape, line.split("…")))
        for line in f"{expected.rstrip()}\n".splitlines(keepends=True)
    )
    return re.fullmatch(pattern, f"{printed.rstrip()}\n") is not None


def without_figures(line: str) -> str:
    """A line with each number as 0, and with single spaces, for a column is as wide as its numbers.

    A time in UTC is a number. A sign belongs to a number after a space. A device has no value at
    the start: ``-``.
    """
    line = re.sub(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "0", line)
    return re.sub(r"(?<![\w.])(?:-(?=[ ,])|-?\d+(?:\.\d+)?)(?!\w)", "0", " ".join(line.split()))


def resembles(sample: str, printed: str) -> bool:
    """Whether output is as a sample of it: the same lines in any order, whatever their figures."""
    shown = Counter(map(without_figures, sample.splitlines()))
    others_too = shown.pop("…", 0) > 0
    found = Counter(map(without_figures, printed.splitlines()))
    return shown <= found if others_too else shown == found


def patient(text: str) -> str:
    """A step with ten seconds for each answer of an instrument.

    The limits of the pages are for lines. A simulator is a process, which a busy machine delays.
    """
    text = re.sub(r"(penstock alicat \w+ [^\n]+)", r"\1 --timeout 10", text)
    text = re.sub(r'(unit_id="\w")', r"\1, timeout=10", text)
    return re.sub(r"^(baudrate = \d+)$", r"\1\ntimeout = 10", text, flags=re.M)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


def environment(folder: Path, base: dict[str, str]) -> dict[str, str]:
    """Variables for commands: ``python``, ``penstock`` and installed programs are this test's.

    They are in ``env``, as in the virtual environment that the pages make.
    """
    programs = folder / "env" / "bin"
    programs.mkdir(parents=True)
    (programs / "activate").touch()
    for name, module in (
        ("python", ""),
        ("penstock", "-m penstock.cli"),
        ("uvicorn", "-m uvicorn"),
    ):
        program = programs / name
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" {module} "$@"\n')
        program.chmod(0o755)
    return {
        **base,
        "PATH": f"{programs}:{base['PATH']}",
        "PYTHONPATH": f"{ROOT / 'python'}:{folder}",
        "PYTHONUNBUFFERED": "1",
    }


@contextmanager
def served(step: Step, folder: Path, variables: dict[str, str]) -> Iterator[None]:
    """Start a command, wait for its line, and end it by SIGTERM.

    Not by SIGINT, which a child of a background job ignores.
    """
    assert step.argument is not None
    # A simple command: the shell becomes it, so that the signal reaches it.
    with subprocess.Popen(
        ["sh", "-c", f"exec {step.text}"],
        cwd=folder,
        env=variables,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            said = []
            for line in process.stdout:
                said.append(line)
                if step.argument in line:
                    break
            else:
                raise AssertionError("".join(said))
            yield
            process.terminate()
            process.communicate(timeout=SECONDS_A_COMMAND)
        finally:
            process.kill()


@contextmanager
def simulated(*arguments: str) -> Iterator[list[dict[str, Any]]]:
    """Run ``penstock sim`` with these arguments; its buses, with their ports."""
    with subprocess.Popen(
        [sys.executable, "-m", "penstock.sim", *arguments],
        env=os.environ | {"PYTHONPATH": str(ROOT / "python")},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            yield json.loads(process.stdout.readline())["buses"]
        finally:
            process.kill()


def run(step: Step, folder: Path, variables: dict[str, str]) -> None:
    """Run the commands of a block and compare what they print."""
    done = subprocess.run(
        ["sh", "-e", "-c", step.text],
        cwd=folder,
        env=variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS_A_COMMAND,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    if step.output is not None:
        as_shown = resembles if step.sample else matches
        assert as_shown(step.output, done.stdout), (
            f"{done.stdout}\n-- the page shows\n{step.output}"
        )
