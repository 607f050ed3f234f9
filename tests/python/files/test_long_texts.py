"""Random programs over files of several read-aheads and pieces, beside the built-in ``open``."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock import files

Step = tuple[str, int]

ENCODINGS = (
    *("utf-8", "utf-8-sig", "utf-16", "utf-32-le"),
    *("latin-1", "cp1252", "ascii", "shift_jis"),
)
NEWLINES = (None, "", "\n", "\r", "\r\n")
CALLS = ("read", "readline", "part", "iterate", "iterate", "readlines", "mark", "back")
PROGRAMS = 60


def some_text(chance: random.Random, encoding: str) -> str:
    """Lines of very different lengths, with each kind of end."""
    letters = {"utf-8": "aé€𝄞", "utf-16": "aé𝄞", "shift_jis": "aあ", "latin-1": "aé"}.get(
        encoding, "a"
    )
    pieces = []
    while sum(map(len, pieces)) < 25_000:
        length = chance.choice([0, 1, chance.randrange(80), chance.randrange(80), 9000])
        pieces.append("".join(chance.choices(letters, k=length)))
        pieces.append(chance.choice(["\n", "\n", "\r\n", "\r"]))
    return "".join(pieces[: -chance.randrange(2) or None])


def some_program(chance: random.Random) -> list[Step]:
    return [(chance.choice(CALLS), chance.choice([1, 5, 300, 9000])) for _ in range(14)]


def builtin_run(path: Path, program: list[Step], options: dict[str, Any]) -> list[Any]:
    results: list[Any] = []
    marks = [0]
    with path.open(**options) as file:
        for name, number in program:
            if name == "read":
                results.append(file.read(number))
            elif name == "readline":
                results.append(file.readline())
            elif name == "part":
                results.append(file.readline(number))
            elif name == "iterate":
                lines = [file.readline() for _ in range(min(number, 300))]
                results.append([line for line in lines if line])
            elif name == "readlines":
                results.append([file.readline() for _ in range(3)])
            elif name == "mark":
                marks.append(file.tell())
            else:
                file.seek(marks[number % len(marks)])
        results.append(file.readlines())
    return results


async def our_run(path: Path, program: list[Step], options: dict[str, Any]) -> list[Any]:
    results: list[Any] = []
    marks = [0]
    async with files.open(path, **options) as file:
        for name, number in program:
            if name == "read":
                results.append(await file.read(number))
            elif name == "readline":
                results.append(await file.readline())
            elif name == "part":
                results.append(await file.readline(number))
            elif name == "iterate":
                lines: list[Any] = []
                async for line in file:
                    lines.append(line)
                    if len(lines) == min(number, 300):
                        break
                results.append(lines)
            elif name == "readlines":
                results.append([await file.readline() for _ in range(3)])
            elif name == "mark":
                marks.append(await file.tell())
            else:
                await file.seek(marks[number % len(marks)])
        results.append(await file.readlines())
    return results


@pytest.mark.parametrize("loop", ["asyncio", "penstock", "trio"])
@pytest.mark.parametrize("mode", ["r", "rb"])
def test_programs_over_long_files_give_the_results_of_the_built_in(
    loop: str, mode: str, run_on: Callable[..., Any], tmp_path: Path
) -> None:
    chance = random.Random(f"{loop} {mode}")
    path = tmp_path / "file"
    for number in range(PROGRAMS):
        encoding = ENCODINGS[number % len(ENCODINGS)]
        path.write_bytes(some_text(chance, encoding).encode(encoding))
        options: dict[str, Any] = {"mode": mode}
        if mode == "r":
            options |= {"encoding": encoding, "newline": chance.choice(NEWLINES)}
        program = some_program(chance)
        expected = builtin_run(path, program, options)
        assert run_on(loop, our_run, path, program, options) == expected, (options, program)
