"""Questions about paths are answered by the engine of the loop that runs in the thread."""

from __future__ import annotations

import asyncio
import copy
import inspect
import os
import pickle
import threading
import weakref
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock import files
from penstock.files import ospath


async def _answers(path: str) -> tuple[object, ...]:
    return (
        await files.stat(path),
        await files.stat(path, follow_symlinks=False),
        await files.access(path, os.R_OK),
        await files.access(path, os.X_OK),
        await ospath.exists(path),
        await ospath.isfile(path),
        await ospath.islink(path),
    )


@pytest.fixture
def linked(tmp_path: Path) -> tuple[str, tuple[object, ...]]:
    (tmp_path / "file").write_text("text")
    path = str(tmp_path / "link")
    os.symlink("file", path)
    return path, (os.stat(path), os.lstat(path), True, False, True, True, True)


def test_each_thread_asks_the_engine_of_its_own_loop(
    linked: tuple[str, tuple[object, ...]],
) -> None:
    path, expected = linked
    both = threading.Barrier(2, timeout=20)
    found: list[tuple[object, ...]] = []

    async def ask() -> None:
        await files.stat(path)
        both.wait()  # both loops are known now
        found.append(await _answers(path))
        both.wait()
        found.append(await _answers(path))

    other = threading.Thread(target=penstock.run, args=(ask(),))
    other.start()
    penstock.run(ask())
    other.join()
    assert found == [expected] * 4


def test_links_are_followed_by_the_truth_of_the_argument(
    linked: tuple[str, tuple[object, ...]],
) -> None:
    path, (status, link, *_) = linked
    os.unlink(os.path.realpath(path))

    async def ask() -> list[object]:
        asked: Any = files.Path(path)
        stat_many: Any = files.stat_many
        return [
            *[await asked.exists(follow_symlinks=follow) for follow in (0, "", 1, True)],
            await asked.is_file(follow_symlinks=0),
            await asked.stat(follow_symlinks=0),
            await asked.lstat(),
            await stat_many([path], follow_symlinks=0),
        ]

    for run in (penstock.run, asyncio.run):
        found: Any = run(ask())
        assert found == [True, True, False, False, False, link, link, [link]]
    assert status != link


def test_a_loop_that_has_ended_is_asked_nothing(
    linked: tuple[str, tuple[object, ...]],
) -> None:
    path, expected = linked
    assert penstock.run(_answers(path)) == expected
    assert asyncio.run(_answers(path)) == expected
    assert penstock.run(_answers(path)) == expected
    coroutine = files.stat(path)
    with pytest.raises(RuntimeError, match="running event loop"):
        coroutine.send(None)


def test_a_forked_child_does_not_use_its_parents_loop(
    linked: tuple[str, tuple[object, ...]],
) -> None:
    path, _ = linked

    async def main() -> int:
        await files.stat(path)
        child = os.fork()
        if child == 0:
            try:
                await files.stat(path)
            except RuntimeError:
                os._exit(7)
            os._exit(1)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    assert penstock.run(main()) == 7


FUNCTIONS = (files.stat, files.access, ospath.exists, ospath.isfile, ospath.isdir, ospath.islink)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_functions_that_the_caches_answer_are_like_others(function: Any) -> None:
    assert inspect.iscoroutinefunction(function)
    assert function.__doc__
    assert next(iter(inspect.signature(function).parameters)) in ("path", "s")
    assert copy.deepcopy(function) is function
    assert weakref.ref(function)() is function


@pytest.mark.anyio
async def test_questions_take_the_arguments_of_their_functions(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()
    stat: Any = files.stat
    assert await files.stat(path=path) == os.stat(path)
    assert await files.access(path=path, mode=os.R_OK)
    assert await files.access(path, mode=os.R_OK)
    assert await ospath.isfile(path)
    assert await ospath.isdir(tmp_path)
    assert not await ospath.isdir(path)
    for wrong in (lambda: stat(), lambda: stat(path, True), lambda: stat(path, other=1)):
        with pytest.raises(TypeError):
            await wrong()
    for wrong_path in (None, 1.5, []):
        with pytest.raises(TypeError):
            await stat(wrong_path)
    assert not await ospath.isfile("a\0b")
    fd = os.open(path, os.O_RDONLY)
    assert await files.stat(fd) == os.fstat(fd)
    assert await ospath.isfile(fd)
    os.close(fd)
    assert not await ospath.isfile(fd)


@pytest.mark.anyio
async def test_a_question_is_asked_once_and_when_it_is_awaited(tmp_path: Path) -> None:
    path = tmp_path / "file"
    question = ospath.exists(path)
    path.touch()
    assert await question
    with pytest.raises(RuntimeError, match="already awaited"):
        await question
    closed = files.stat(path)
    closed.close()
    with pytest.raises(RuntimeError, match="already awaited"):
        await closed


@pytest.mark.anyio
async def test_an_interrupt_while_a_path_is_converted_is_raised() -> None:
    class Interrupted(os.PathLike[str]):
        conversions = 0

        def __fspath__(self) -> str:
            self.conversions += 1
            raise KeyboardInterrupt

    path = Interrupted()
    with pytest.raises(KeyboardInterrupt):
        await ospath.exists(path)
    assert path.conversions == 1


@pytest.mark.anyio
async def test_what_no_file_has_is_answered_as_by_os(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for name in ("missing", "file/below", "n" * 300, "loop"):
        path = str(tmp_path / name)
        if name == "loop":
            os.symlink("loop", path)
        with pytest.raises(OSError) as ours:
            await files.stat(path)
        with pytest.raises(OSError) as theirs:
            os.stat(path)
        assert (ours.value.errno, ours.value.filename) == (theirs.value.errno, path)
        assert await files.access(path, os.F_OK) is False
        assert await ospath.exists(path) is False
    with pytest.raises(ValueError, match="null"):
        await files.stat("a\0b")


def test_functions_say_where_programs_find_them() -> None:
    assert files.stat.__module__ == files.access.__module__ == "penstock.files"
    for module in (files.os, ospath):
        for name in module.__all__:
            if name not in ("access", "path", "wrap"):
                function = getattr(module, name)
                assert (function.__module__, function.__qualname__) == (module.__name__, name)
                assert pickle.loads(pickle.dumps(function)) is function
