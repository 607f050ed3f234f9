"""``readlines`` and ``writelines`` do what the built-in's do, with one call for many lines."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock import files
from penstock.files import AsyncFile
from tests.python.files.faulty_backend import FaultyBackend

pytestmark = pytest.mark.anyio

CONTENTS = {
    "nothing": b"",
    "no end": b"a\nb",
    "every end": b"a\rb\r\nc\n\n\r\r\nd",
    "other separators": "a\x0bb\x0cc\x1cd\x85e\u2028f\n".encode(),
    "many": b"".join(b"line %d\r\n" % number for number in range(40_000)),
}
NEWLINES = (None, "", "\n", "\r", "\r\n")


@pytest.mark.parametrize("hint", [None, -1, 0, 5])
@pytest.mark.parametrize("content", CONTENTS)
async def test_readlines_returns_the_built_ins_lines(
    tmp_path: Path, content: str, hint: int | None
) -> None:
    path = tmp_path / "file"
    path.write_bytes(CONTENTS[content])
    with path.open("rb") as plain:
        plain.readline()
        expected = plain.readlines(hint if hint is not None else -1)
    async with files.open(path, "rb") as binary:
        await binary.readline()
        assert await binary.readlines(hint) == expected
    for newline in NEWLINES:
        with path.open(encoding="utf-8", newline=newline) as text:
            text.readline()
            lines = text.readlines(hint if hint is not None else -1)
            # With a hint the built-in iterates, and does not know its position.
            position = text.tell() if hint != 5 else None
        async with files.open(path, encoding="utf-8", newline=newline) as file:
            await file.readline()
            assert await file.readlines(hint) == lines
            assert position is None or await file.tell() == position


def failing(lines: Iterable[Any]) -> Iterator[Any]:
    yield from lines
    raise ArithmeticError


WRITTEN: dict[str, Callable[[], Iterable[Any]]] = {
    "nothing": list,
    "a list": lambda: ["a\n", "b", "", "c\n"],
    "a generator": lambda: (f"{number}\n" for number in range(1000)),
    "long lines": lambda: ["x" * 100_000 + "\n"] * 3,
    "an error of the iterable": lambda: failing(["a\n", "b\n"]),
    "another type": lambda: ["a\n", "b\n", 7, "c\n"],
    "a character without bytes": lambda: ["a\n", "b\n", "\ud800\n", "c\n"],
}


@pytest.mark.parametrize("buffering", [-1, 1])
@pytest.mark.parametrize("written", WRITTEN)
async def test_writelines_writes_what_the_built_in_writes(
    tmp_path: Path, written: str, buffering: int
) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    errors: list[type[BaseException] | None] = [None, None]
    for newline in NEWLINES:
        with there.open("w", buffering, encoding="utf-8", newline=newline) as plain:
            try:
                plain.writelines(WRITTEN[written]())
            except Exception as error:
                errors[0] = type(error)
        async with files.open(here, "w", buffering, encoding="utf-8", newline=newline) as file:
            try:
                await file.writelines(WRITTEN[written]())
            except Exception as error:
                errors[1] = type(error)
        assert here.read_bytes() == there.read_bytes()
        assert errors[0] is errors[1]


@pytest.mark.parametrize("buffering", [-1, 0])
async def test_writelines_of_a_binary_file_takes_every_kind_of_bytes(
    tmp_path: Path, buffering: int
) -> None:
    path = tmp_path / "file"
    lines = [b"a\n", bytearray(b"b\n"), memoryview(b"c\n"), b"d\n"]
    async with files.open(path, "wb", buffering) as file:
        with contextlib.suppress(TypeError):
            await file.writelines([*lines, "text", b"e\n"])  # type: ignore[list-item]
    assert path.read_bytes() == b"a\nb\nc\nd\n"


async def test_each_line_of_an_unbuffered_file_is_a_write_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = {}
    for buffering in (0, -1):
        async with files.open(tmp_path / "file", "wb", buffering) as file:
            backend = FaultyBackend()
            with monkeypatch.context() as patched:
                patched.setattr(file, "_backend", backend)
                await file.writelines([b"a\n", b"b\n", b"c\n"])
            calls[buffering] = backend.calls.count("write")
    assert calls == {0: 3, -1: 0}


@pytest.mark.parametrize("mode", ["wb", "w"])
async def test_lines_that_a_generator_makes_are_not_collected(tmp_path: Path, mode: str) -> None:
    line: Any = "x" * (1 << 20) if mode == "w" else bytes(1 << 20)
    path = tmp_path / "file"
    in_memory = []

    def lines() -> Iterator[Any]:
        for number in range(20):
            in_memory.append(number * len(line) - path.stat().st_size)
            yield line

    async with files.open(path, mode) as file:
        await file.writelines(lines())
    assert max(in_memory) <= len(line)


async def test_a_file_closes_under_the_name_that_others_use(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"0123456789")
    opened: AsyncFile[bytes]
    async with contextlib.aclosing(await files.open(path, "rb")) as opened:
        assert isinstance(opened, files.BinaryFile)
        target = bytearray(4)
        assert await opened.readinto1(target) == 4
        assert target == b"0123"
        assert await opened.readinto1(bytearray()) == 0
    assert opened.closed


def test_names_that_are_imported_by_a_star_replace_no_module_of_the_program() -> None:
    program: dict[str, Any] = {}
    exec("import os\nbefore = os\nfrom penstock.files import *", program)
    assert program["os"] is program["before"]
    assert "write_file" in program


async def test_long_lines_are_joined_up_to_a_length(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    lines = [b"%0499d\n" % number for number in range(1000)] + [bytes(200_000), b"end"]
    async with files.open(path, "wb") as file:
        backend = FaultyBackend()
        with monkeypatch.context() as patched:
            patched.setattr(file, "_backend", backend)
            await file.writelines(lines)
    assert path.read_bytes() == b"".join(lines)
    assert backend.calls.count("write") < 20
