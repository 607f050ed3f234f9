"""Temporary files, wrapped files and standard streams, on each loop."""

from __future__ import annotations

import contextlib
import copy
import gc
import io
import os
import threading
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from penstock import files
from penstock.files import tempfile
from penstock.files._backend import current_backend
from tests.python.files.test_cancelling import caught_in_flight, until

pytestmark = pytest.mark.anyio


@pytest.mark.usefixtures("no_descriptor_left")
@pytest.mark.parametrize("mode", ["w+", "w+b"])
async def test_a_temporary_file_has_no_name_and_leaves_nothing(mode: str, tmp_path: Path) -> None:
    data: Any = b"one\ntwo\n" if "b" in mode else "one\ntwo\n"
    async with tempfile.TemporaryFile(mode, dir=tmp_path) as file:
        await file.write(data)
        assert os.listdir(tmp_path) == []
        await file.seek(0)
        assert [line async for line in file] == data.splitlines(True)


@pytest.mark.parametrize("mode", ["w+", "w+b"])
async def test_a_named_file_is_removed_when_it_is_closed(mode: str, tmp_path: Path) -> None:
    data: Any = b"content" if "b" in mode else "content"
    async with tempfile.NamedTemporaryFile(
        mode, suffix=".txt", prefix="name", dir=tmp_path
    ) as file:
        await file.write(data)
        await file.flush()
        path = Path(file.name)
        assert path.read_bytes() == b"content"
        assert path.name.startswith("name")
        assert path.suffix == ".txt"
    assert os.listdir(tmp_path) == []
    file = await tempfile.NamedTemporaryFile(mode, dir=tmp_path)
    await file.close()
    await file.close()
    assert os.listdir(tmp_path) == []


async def test_a_named_file_is_removed_however_it_ends(tmp_path: Path) -> None:
    async with contextlib.aclosing(await tempfile.NamedTemporaryFile(dir=tmp_path)) as file:
        await file.write(b"content")
    assert os.listdir(tmp_path) == []
    dropped: Any = await tempfile.NamedTemporaryFile(dir=tmp_path)
    with pytest.raises(TypeError):
        copy.copy(dropped)
    assert len(os.listdir(tmp_path)) == 1
    with pytest.warns(ResourceWarning, match="unclosed file"):
        del dropped
        gc.collect()
    assert os.listdir(tmp_path) == []


async def test_a_named_file_can_be_kept(tmp_path: Path) -> None:
    async with tempfile.NamedTemporaryFile(dir=tmp_path, delete_on_close=False) as file:
        await file.close()
        assert os.path.exists(file.name)
    assert os.listdir(tmp_path) == []
    async with tempfile.NamedTemporaryFile(dir=tmp_path, delete=False) as file:
        pass
    assert os.path.exists(file.name)


@pytest.mark.usefixtures("no_descriptor_left")
async def test_a_failed_opening_leaves_no_file(tmp_path: Path) -> None:
    for make in (tempfile.NamedTemporaryFile, tempfile.TemporaryFile):
        with pytest.raises(LookupError):
            await make("w", encoding="no such", dir=tmp_path)
        with pytest.raises(ValueError, match="mode"):
            make("z")
        with anyio.CancelScope() as scope:
            scope.cancel()
            async with make(dir=tmp_path):
                pass
    with anyio.fail_after(30):
        while os.listdir(tmp_path) or current_backend().in_flight:  # type: ignore[attr-defined]
            await anyio.lowlevel.checkpoint()


@pytest.mark.parametrize("mode", ["w+", "w+b"])
async def test_a_spooled_file_moves_to_the_disk(mode: str, tmp_path: Path) -> None:
    data: Any = b"content" if "b" in mode else "content"
    async with tempfile.SpooledTemporaryFile(10, mode, dir=tmp_path) as file:
        await file.write(data)
        await file.write(data)
        await file.rollover()
        assert isinstance(file.fileno(), int)
        await file.seek(0)
        assert await file.read() == data + data
    assert file.closed


async def test_a_temporary_folder_is_removed_with_its_content(tmp_path: Path) -> None:
    async with tempfile.TemporaryDirectory("suffix", "prefix", tmp_path) as path:
        assert os.path.basename(path).startswith("prefix")
        assert path.endswith("suffix")
        await files.write_file(os.path.join(path, "file"), b"content")
    assert os.listdir(tmp_path) == []
    folder = await tempfile.TemporaryDirectory(dir=tmp_path)
    assert os.path.isdir(folder.name)
    await folder.cleanup()
    assert os.listdir(tmp_path) == []


async def test_a_temporary_folder_can_be_kept_and_its_errors_ignored(tmp_path: Path) -> None:
    folder = tempfile.TemporaryDirectory(dir=tmp_path, delete=False)
    async with folder as path:
        pass
    assert os.path.isdir(path)
    await folder.cleanup()
    assert not os.path.exists(path)
    for ignored in (False, True):
        made = await tempfile.TemporaryDirectory(dir=tmp_path, ignore_cleanup_errors=ignored)
        os.rmdir(made.name)
        Path(made.name).write_text("a file by now")
        if ignored:
            await made.cleanup()
        else:
            with pytest.raises(NotADirectoryError):
                await made.cleanup()


@pytest.mark.parametrize(
    "open_file",
    [
        tempfile.TemporaryFile,
        tempfile.NamedTemporaryFile,
        tempfile.SpooledTemporaryFile,
    ],
)
async def test_a_temporary_file_treats_errors_as_told(open_file: Any) -> None:
    async with open_file(mode="w+", encoding="ascii", errors="replace") as file:
        await file.write("é")
        assert file.errors == "replace"
        await file.seek(0)
        assert await file.read() == "?"


async def test_a_wrapped_file_runs_its_calls_in_order() -> None:
    wrapped = files.wrap(io.BytesIO())
    async with anyio.create_task_group() as group:
        for number in range(50):
            group.start_soon(wrapped.write, b"%02d\n" % number)
    await wrapped.seek(0)
    lines = [line async for line in wrapped]
    assert sorted(lines) == [b"%02d\n" % number for number in range(50)]
    with anyio.CancelScope() as scope:
        scope.cancel()
        await wrapped.read()
    await wrapped.seek(3)
    assert len(await wrapped.read()) == 147
    with pytest.raises(TypeError, match="file object"):
        files.wrap(int)  # type: ignore[arg-type]


async def test_a_folder_whose_making_was_cancelled_is_removed(tmp_path: Path) -> None:
    folders = []
    for _ in range(20):
        folder = tempfile.TemporaryDirectory(dir=tmp_path)
        folders.append(folder)  # so that the garbage collector does not remove it
        if not await caught_in_flight(folder.__aenter__):
            await folder.cleanup()
    await until(lambda: not os.listdir(tmp_path))


class WaitingFile(io.BytesIO):
    """A file whose reads wait for an event."""

    def __init__(self) -> None:
        super().__init__()
        self.go_on = threading.Event()

    def read(self, size: int | None = -1) -> bytes:
        self.go_on.wait(60)
        return super().read(size)


@pytest.mark.parametrize("reads", [False, True])
async def test_a_wrapped_file_is_closed_although_its_close_is_cancelled(reads: bool) -> None:
    inner = WaitingFile()
    wrapped = files.wrap(inner)
    async with anyio.create_task_group() as group:
        if reads:
            group.start_soon(wrapped.read)
            await until(lambda: wrapped._turn_taken)
        with anyio.CancelScope() as scope:
            scope.cancel()
            await wrapped.close()
        assert scope.cancelled_caught
        inner.go_on.set()
    await until(lambda: inner.closed)


async def test_a_wrapped_file_is_not_detached_from_a_call(tmp_path: Path) -> None:
    inner = WaitingFile()
    wrapped = files.wrap(inner)
    async with anyio.create_task_group() as group:
        group.start_soon(wrapped.read)
        await until(lambda: wrapped._turn_taken)
        with pytest.raises(RuntimeError, match="in flight"):
            wrapped.detach()
        inner.go_on.set()
    with pytest.raises(io.UnsupportedOperation):
        wrapped.detach()  # which this kind of file does not have


async def test_standard_streams_are_those_of_sys(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    monkeypatch.setattr("sys.stdout", out)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"one\ntwo\n"), encoding="utf-8"))
    await files.stdout.write("text ")
    await files.stdout.flush()
    await files.stdout_bytes.write(b"bytes")
    assert out.buffer.getvalue() == b"text bytes"  # type: ignore[attr-defined]
    assert await files.stdin.readline() == "one\n"
    assert [line async for line in files.stdin] == ["two\n"]


async def test_a_detached_file_continues_as_a_built_in_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    async with files.open(path, "w+b") as file:
        pass
    file = await files.open(path, "w+b")
    await file.write(b"0123456789")
    await file.seek(4)
    assert await file.read(2) == b"45"
    with file.detach() as raw:
        assert raw.read() == b"6789"
        raw.write(b"more")
    with pytest.raises(ValueError, match="closed"):
        await file.read()
    with pytest.raises(ValueError, match="detached"):
        await file.close()
    assert path.read_bytes() == b"0123456789more"
    text = await files.open(path)
    await text.read(1)
    with pytest.raises(RuntimeError, match="seek"):
        text.detach()
    await text.seek(0)
    with text.detach() as raw:
        assert raw.read(3) == b"012"


async def test_readall_reads_to_the_end(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"0123456789")
    async with files.open(tmp_path / "file", "rb", buffering=0) as file:
        assert await file.read(3) == b"012"
        assert await file.readall() == b"3456789"
        assert await file.readall() == b""
