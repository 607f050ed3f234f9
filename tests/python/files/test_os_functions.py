"""``penstock.files.os`` behaves like ``os``, on each loop."""

from __future__ import annotations

import inspect
import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock import files
from penstock.files import os as async_os

pytestmark = pytest.mark.anyio


async def test_folders_and_names_are_changed(tmp_path: Path) -> None:
    deep = tmp_path / "a" / "b"
    await async_os.makedirs(deep)
    await async_os.mkdir(tmp_path / "c", 0o700)
    (deep / "file").write_bytes(b"content")
    assert sorted(await async_os.listdir(tmp_path)) == ["a", "c"]
    with await async_os.scandir(tmp_path) as entries:
        assert sorted(entry.name for entry in entries) == ["a", "c"]
    await async_os.link(deep / "file", deep / "second")
    await async_os.symlink("file", deep / "symbolic")
    assert await async_os.readlink(deep / "symbolic") == "file"
    await async_os.rename(deep / "second", deep / "renamed")
    await async_os.replace(deep / "renamed", deep / "replaced")
    await async_os.remove(deep / "symbolic")
    await async_os.unlink(deep / "replaced")
    await async_os.renames(deep / "file", tmp_path / "d" / "file")
    assert sorted(await async_os.listdir(tmp_path)) == ["c", "d"]
    await async_os.rmdir(tmp_path / "c")
    await async_os.unlink(tmp_path / "d" / "file")
    os.mkdir(tmp_path / "d" / "e")
    (tmp_path / "stays").touch()
    await async_os.removedirs(tmp_path / "d" / "e")
    assert await async_os.listdir(tmp_path) == ["stays"]
    assert await async_os.getcwd() == os.getcwd()


async def test_status_and_access_queries(tmp_path: Path) -> None:
    path, missing = tmp_path / "file", tmp_path / "missing"
    path.write_bytes(b"content")
    assert await async_os.stat(path) == os.stat(path)
    assert await async_os.stat(path, follow_symlinks=False) == os.stat(path)
    assert await async_os.access(path, os.R_OK)
    assert not await async_os.access(missing, os.F_OK)
    assert (await async_os.statvfs(path)).f_bsize == os.statvfs(path).f_bsize
    assert [await async_os.path.exists(each) for each in (path, missing)] == [True, False]
    assert await async_os.path.isfile(path)
    assert await async_os.path.isdir(tmp_path)
    assert not await async_os.path.islink(path)
    assert await async_os.path.ismount("/")
    assert await async_os.path.samefile(path, tmp_path / "." / "file")
    assert await async_os.path.getsize(path) == 7
    for name in ("getatime", "getctime", "getmtime"):
        assert await getattr(async_os.path, name)(path) == getattr(os.path, name)(path)
    assert await async_os.path.abspath("file") == os.path.abspath("file")
    async with files.open(path) as one, files.open(path) as other:
        assert await async_os.path.sameopenfile(one.fileno(), other.fileno())
    with pytest.raises(FileNotFoundError, match="missing"):
        await async_os.stat(missing)
    with pytest.raises(FileNotFoundError, match="missing"):
        await async_os.path.getsize(missing)


OF_STATUS = ("exists", "isfile", "isdir", "islink", "getsize", "getatime", "getctime", "getmtime")


async def outcome(call: Callable[[], Any]) -> Any:
    """Return what the call returns or raises, awaited if it can be."""
    try:
        result = call()
        result = await result if inspect.isawaitable(result) else result
        if hasattr(result, "close"):  # what scandir returns; of -1 it lists the current folder
            result.close()
            return type(result)
        return result
    except (OSError, ValueError, TypeError, OverflowError) as error:
        return type(error), getattr(error, "errno", None), getattr(error, "filename", None)


async def test_status_functions_answer_as_those_of_os(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"content")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "fifo")
    for link, target in ("link", "file"), ("dangling", "nothing"), ("loop", "loop"):
        (tmp_path / link).symlink_to(target)
    with socket.socket(socket.AF_UNIX) as listener, open(tmp_path / "file") as opened:
        listener.bind(str(tmp_path / "socket"))
        names = [
            "file",
            "folder",
            "fifo",
            "link",
            "dangling",
            "loop",
            "socket",
            "missing",
            "file/below",
            "folder/",
            "link/",
        ]
        paths: list[Any] = [f"{tmp_path}/{name}" for name in names]
        paths += [tmp_path / "file", bytes(tmp_path / "link"), opened.fileno(), 10**6]
        paths += ["", "/", "/dev/null", "/proc/self", "/dev/shm", "x" * 300, "a\0b", None]
        for path in paths:
            for name in OF_STATUS:
                expected = await outcome(lambda path=path, name=name: getattr(os.path, name)(path))
                ours = await outcome(
                    lambda path=path, name=name: getattr(async_os.path, name)(path)
                )
                assert ours == expected, (path, name)
            if path != "/proc/self":  # its times change
                expected = await outcome(lambda path=path: os.stat(path))
                assert await outcome(lambda path=path: async_os.stat(path)) == expected, path
                if not isinstance(path, int):
                    expected = await outcome(lambda path=path: os.lstat(path))
                    ours = await outcome(lambda path=path: files.stat(path, follow_symlinks=False))
                    assert ours == expected, path


WITH_DESCRIPTORS: dict[str, Callable[[Any, Any], Any]] = {
    "stat": lambda module, fd: module.stat(fd),
    "statvfs": lambda module, fd: module.statvfs(fd),
    "access": lambda module, fd: module.access(fd, os.R_OK),
    "listdir": lambda module, fd: module.listdir(fd),
    "scandir": lambda module, fd: module.scandir(fd),
    "sendfile from": lambda module, fd: module.sendfile(1, fd, 0, 1),
    "sendfile to": lambda module, fd: module.sendfile(fd, 1, 0, 1),
    "path.ismount": lambda module, fd: module.path.ismount(fd),
    "path.samefile": lambda module, fd: module.path.samefile(fd, fd),
    "path.sameopenfile": lambda module, fd: module.path.sameopenfile(fd, fd),
    **{
        f"path.{name}": lambda module, fd, name=name: getattr(module.path, name)(fd)  # type: ignore[misc]
        for name in OF_STATUS
    },
    **{
        name: lambda module, fd, name=name: getattr(module, name)(fd)  # type: ignore[misc]
        for name in ("mkdir", "rmdir", "unlink", "remove", "readlink", "makedirs", "removedirs")
    },
    **{
        name: lambda module, fd, name=name: getattr(module, name)(fd, "name")  # type: ignore[misc]
        for name in ("link", "symlink", "rename", "replace", "renames")
    },
}


async def test_wrong_descriptors_are_refused_as_by_os() -> None:
    for fd in (-1, -2, -100, 10**6, 2**31 - 1, 2**31, 2**70, -(2**31), -(2**31) - 1):
        for name, call in WITH_DESCRIPTORS.items():
            expected = await outcome(lambda call=call, fd=fd: call(os, fd))
            ours = await outcome(lambda call=call, fd=fd: call(async_os, fd))
            assert ours == expected, (fd, name)


async def test_cached_status_comes_without_a_wait(tmp_path: Path, anyio_backend_name: str) -> None:
    if anyio_backend_name == "trio":
        pytest.skip("each await of trio lets other tasks run")
    (tmp_path / "file").touch()

    async def ends_at_once(call: Callable[[Path], Any]) -> bool:
        await files.stat(tmp_path)  # may begin a time slice of the loop
        waiting = call(tmp_path / "file")
        try:
            waiting.send(None)
        except StopIteration:
            return True
        waiting.close()
        return False

    for call in async_os.path.exists, async_os.path.isfile, async_os.stat, files.stat:
        assert any([await ends_at_once(call) for _ in range(100)]), call


async def test_sendfile_copies_data(tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(b"content")
    async with (
        files.open(tmp_path / "source", "rb") as source,
        files.open(tmp_path / "target", "wb") as target,
    ):
        assert await async_os.sendfile(target.fileno(), source.fileno(), 3, 100) == 4
    assert (tmp_path / "target").read_bytes() == b"tent"


async def test_any_function_can_be_awaited() -> None:
    def where(*arguments: int, name: str) -> tuple[int, tuple[int, ...], str]:
        """Its text."""
        return threading.get_ident(), arguments, name

    awaited = async_os.wrap(where)
    thread, *rest = await awaited(1, 2, name="three")
    assert thread != threading.get_ident()
    assert rest == [(1, 2), "three"]
    assert awaited.__doc__ == "Its text."


async def test_every_name_is_a_function_of_os() -> None:
    for module, original in ((async_os, os), (async_os.path, os.path)):
        for name in module.__all__:
            if name in ("path", "wrap"):
                continue
            assert callable(getattr(original, name))
            assert inspect.iscoroutinefunction(getattr(module, name))
