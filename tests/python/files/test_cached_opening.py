"""Files that are opened, read and closed from the page cache, and questions that it answers."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from penstock import files
from tests.python.files.test_file_calls import work_for
from tests.python.files.test_yielding import counted_turns

pytestmark = pytest.mark.anyio

CONTENTS = {
    "nothing": b"",
    "one line": b"no end",
    "feeds": b"a\nb\n",
    "returns": b"a\r\nb\rc\n",
    "a return at the end": b"a\nb\r",
    "more than ASCII": "ä\n€\n𝄞".encode(),
    "a mark": b"\xef\xbb\xbfmarked\n",
    "not decodable": b"a\n\xff\xfe\n",
    "larger than a slice": b"0123456\n" * 20_000,
}
ENCODINGS = (None, "utf-8", "UTF-8", "ascii", "latin-1", "utf-8-sig", "cp1252")


async def outcome(call: Callable[[Any], Any], file: Any) -> Any:
    """What a call with a file of the built-in or of Penstock returns or raises."""
    try:
        result = call(file)
        return await result if hasattr(result, "__await__") else result
    except (OSError, ValueError) as error:
        return type(error)


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("content", CONTENTS)
async def test_a_text_that_is_read_at_once_leaves_the_file_as_the_built_in_does(
    tmp_path: Path, content: str, encoding: str | None
) -> None:
    path = tmp_path / "file"
    path.write_bytes(CONTENTS[content])
    with path.open(encoding=encoding) as plain:
        async with files.open(path, encoding=encoding) as file:
            for each in (
                lambda text: text.read(),
                lambda text: text.newlines,
                lambda text: text.read(),
                lambda text: text.readline(),
                lambda text: text.newlines,
                lambda text: text.seek(0),
                lambda text: text.newlines,
                lambda text: text.readline(),
                lambda text: text.read(),
                lambda text: text.encoding,
                lambda text: text.errors,
                lambda text: (text.mode, text.line_buffering, text.write_through),
            ):
                there, here = await outcome(each, plain), await outcome(each, file)
                assert here == there
                if isinstance(here, type):
                    break  # after an error in a text, positions differ


@pytest.mark.parametrize("mode", ["rb", "r"])
async def test_what_cannot_be_opened_is_named(tmp_path: Path, mode: str) -> None:
    for name, kind in ((tmp_path / "missing", FileNotFoundError), (tmp_path, IsADirectoryError)):
        with pytest.raises(kind) as raised:
            await files.open(name, mode)
        assert raised.value.filename == str(name)
    with pytest.raises(ValueError, match="null"):
        await files.open("a\0b", mode)
    with pytest.raises(TypeError):
        files.open(1.5, mode)  # type: ignore[call-overload]
    with pytest.raises(LookupError):
        files.open(tmp_path, encoding="no such encoding")
    opening = files.open(os.fsencode(tmp_path / "missing"), mode)
    for _ in range(2):
        with pytest.raises(FileNotFoundError):
            await opening


async def test_an_opening_can_be_awaited_more_than_once(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"content")
    opening = files.open(path, "rb")
    first, second = await opening, await opening
    assert first.name == str(path)
    assert await first.read() == await second.read() == b"content"
    await first.close()
    assert not second.closed
    await second.close()
    with pytest.raises(RuntimeError, match="not been opened"):
        await opening.__aexit__(None, None, None)


@pytest.mark.usefixtures("no_descriptor_left")
async def test_a_cancelled_opening_leaves_nothing_open(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"content")
    cancelled = 0
    for _ in range(200):
        work_for(50e-6)
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as group:
                ended = False

                async def read() -> None:
                    nonlocal ended
                    async with files.open(path, "rb") as file:
                        await file.read()
                    ended = True

                group.start_soon(read)
                await anyio.lowlevel.checkpoint()
                scope.cancel()
        cancelled += not ended
    assert cancelled


async def test_a_file_opened_by_the_cache_has_no_flags_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"content")
    async with files.open(path, "rb") as file:
        assert os.get_blocking(file.fileno())
        assert not os.get_inheritable(file.fileno())


async def test_tasks_that_open_files_let_others_run(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"content")
    async with counted_turns() as turns:
        for _ in range(3000):
            async with files.open(path, "rb") as file:
                await file.read()
        assert turns() > 3


async def test_questions_that_the_cache_answers_let_others_run(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"content")
    for question in (
        lambda: files.ospath.isfile(path),
        lambda: files.ospath.exists(path),
        lambda: files.Path(path).exists(),
    ):
        async with counted_turns() as turns:
            for _ in range(5000):
                assert await question()
            assert turns() > 3


async def test_answers_are_those_of_the_standard_library(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "link").symlink_to("folder")
    (tmp_path / "broken").symlink_to("nowhere")
    (tmp_path / "loop").symlink_to("loop")
    names = ["folder", "file", "link", "broken", "loop", "missing", "file/below", "x" * 300, "a\0b"]
    for name in names:
        path = f"{tmp_path}/{name}"
        for question in ("exists", "isdir", "isfile", "islink"):
            expected = getattr(os.path, question)(path)
            assert await getattr(files.ospath, question)(path) is expected
            assert await getattr(files.ospath, question)(os.fsencode(path)) is expected
        if len(name) < 256:
            assert await files.Path(path).exists() is os.path.exists(path)
        if "\0" not in name:
            assert await files.access(path, os.F_OK) is os.access(path, os.F_OK)
    with pytest.raises(TypeError):
        await files.ospath.exists(None)  # type: ignore[arg-type]
