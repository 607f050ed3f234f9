"""Binary files behave like the built-in's, call by call."""

from __future__ import annotations

import array
import io
import os
import tempfile
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock
from penstock import files

Call = tuple[str, tuple[Any, ...]]

CALLS = st.lists(
    st.one_of(
        st.tuples(st.just("read"), st.tuples(st.integers(-1, 40))),
        st.tuples(st.just("readline"), st.tuples(st.just(-1) | st.integers(1, 20))),
        st.tuples(st.just("readlines"), st.tuples(st.integers(0, 20))),
        st.tuples(st.just("seek"), st.tuples(st.integers(0, 60), st.just(0))),
        st.tuples(st.just("seek"), st.tuples(st.integers(-10, 10), st.sampled_from([1, 2]))),
        st.tuples(st.just("tell"), st.just(())),
        st.tuples(st.just("write"), st.tuples(st.binary(max_size=30))),
        st.tuples(st.just("truncate"), st.tuples(st.none() | st.integers(0, 60))),
        st.tuples(st.just("flush"), st.just(())),
        st.tuples(st.just("readinto"), st.tuples(st.integers(0, 30))),
        st.tuples(st.just("peek"), st.tuples(st.integers(0, 9))),
    ),
    max_size=12,
)


def _call_builtin(file: Any, name: str, arguments: tuple[Any, ...]) -> Any:
    if name == "readinto":
        buffer = bytearray(arguments[0])
        return file.readinto(buffer), bytes(buffer)
    if name == "peek" and not hasattr(file, "peek"):
        found = file.read(1)
        file.seek(-len(found), os.SEEK_CUR)
        return found
    if name == "peek":  # how much it returns is the file's choice
        return file.peek(*arguments)[:1]
    return getattr(file, name)(*arguments)


async def _call_ours(file: Any, name: str, arguments: tuple[Any, ...]) -> Any:
    if name == "readinto":
        buffer = bytearray(arguments[0])
        return await file.readinto(buffer), bytes(buffer)
    if name == "peek":
        return (await file.peek(*arguments))[:1]
    return await getattr(file, name)(*arguments)


def builtin_run(path: str, mode: str, buffering: int, calls: list[Call]) -> list[Any]:
    results: list[Any] = []
    with open(path, mode, buffering) as file:
        for name, arguments in calls:
            try:
                results.append(_call_builtin(file, name, arguments))
            except (OSError, ValueError) as error:
                results.append(_kind(error))
    return results


def our_run(path: str, mode: str, buffering: int, calls: list[Call]) -> list[Any]:
    async def main() -> list[Any]:
        results: list[Any] = []
        async with files.open(path, mode, buffering) as file:
            for name, arguments in calls:
                try:
                    results.append(await _call_ours(file, name, arguments))
                except (OSError, ValueError) as error:
                    results.append(_kind(error))
        return results

    return penstock.run(main())


def _kind(error: Exception) -> str:
    for kind in (io.UnsupportedOperation, OSError):
        if isinstance(error, kind):
            return kind.__name__
    return "ValueError"


@settings(max_examples=300)
@given(
    mode=st.sampled_from(["rb", "wb", "r+b", "w+b", "a+b", "ab"]),
    buffering=st.sampled_from([-1, 0, 7, 16]),
    content=st.binary(max_size=50)
    | st.lists(st.sampled_from([b"a\n", b"bc", b"\n"])).map(b"".join),
    calls=CALLS,
)
def test_calls_have_the_results_of_the_built_in_file(
    mode: str, buffering: int, content: bytes, calls: list[Call]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        theirs, ours = os.path.join(folder, "theirs"), os.path.join(folder, "ours")
        Path(theirs).write_bytes(content)
        Path(ours).write_bytes(content)
        # The built-in's buffer has wrong positions in append mode, see the next test.
        expected = builtin_run(theirs, mode, 0 if mode[0] == "a" else buffering, calls)
        assert our_run(ours, mode, buffering, calls) == expected
        assert Path(ours).read_bytes() == Path(theirs).read_bytes()


@pytest.mark.parametrize(
    ("calls", "last", "content"),
    [
        ([("seek", (3,)), ("write", (b"ab",)), ("tell", ())], 12, b"0123456789ab"),
        (
            [("seek", (0,)), ("read", (2,)), ("write", (b"ab",)), ("read", (2,))],
            b"",
            b"0123456789ab",
        ),
        (
            [("seek", (0,)), ("read", (4,)), ("write", (b"ab",)), ("seek", (0,)), ("read", (6,))],
            b"012345",
            b"0123456789ab",
        ),
        (
            [("write", (b"abc",)), ("seek", (-2, 1)), ("write", (b"X",)), ("tell", ())],
            14,
            b"0123456789abcX",
        ),
        (
            [("seek", (3,)), ("write", (b"abc",)), ("seek", (4,)), ("flush", ()), ("tell", ())],
            4,
            b"0123456789abc",
        ),
        (
            [("seek", (3,)), ("write", (b"ab",)), ("truncate", (5,)), ("tell", ())],
            12,
            b"01234",
        ),
    ],
)
def test_in_append_mode_the_position_is_that_of_a_file_without_a_buffer(
    tmp_path: Path, calls: list[Call], last: Any, content: bytes
) -> None:
    """What is appended is behind the end, and the position behind it (open(2), O_APPEND).

    The built-in's buffered file takes written data to be at the position where they were buffered:
    it tells that position, lets a later write replace them, reads them there, and corrects its
    position when it writes, wherever that was moved to meanwhile. Its unbuffered file is right.
    """
    for name in ("ours", "theirs"):
        (tmp_path / name).write_bytes(b"0123456789")
    ours = our_run(str(tmp_path / "ours"), "a+b", -1, calls)
    assert ours == builtin_run(str(tmp_path / "theirs"), "a+b", 0, calls)
    assert ours[-1] == last
    assert (tmp_path / "ours").read_bytes() == (tmp_path / "theirs").read_bytes() == content


@pytest.mark.anyio
async def test_a_file_has_the_attributes_of_the_built_in(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"content")
    async with files.open(path, "r+b") as file:
        with open(path, "r+b") as builtin:
            assert file.name == builtin.name
            assert (file.readable(), file.writable(), file.seekable()) == (True, True, True)
            assert file.isatty() is False
            assert not file.closed
            assert os.fstat(file.fileno()) == os.fstat(builtin.fileno())
    assert file.mode == "r+b"
    assert file.closed
    assert isinstance(file, files.AsyncFile)


@pytest.mark.anyio
async def test_every_method_of_a_closed_file_raises(tmp_path: Path) -> None:
    file = await files.open(tmp_path / "file", "w+b")
    await file.close()
    await file.close()
    for name, arguments in [
        ("read", ()), ("readline", ()), ("readinto", (bytearray(4),)), ("write", (b"x",)),
        ("seek", (0,)), ("tell", ()), ("truncate", ()), ("flush", ()), ("fsync", ()),
        ("fdatasync", ()), ("pread", (1, 0)), ("pwrite", (b"x", 0)), ("peek", ()), ("read1", ()),
    ]:  # fmt: skip
        with pytest.raises(ValueError, match="closed file"):
            await getattr(file, name)(*arguments)
    for name in ("fileno", "isatty", "readable", "writable", "seekable"):
        with pytest.raises(ValueError, match="closed file"):
            getattr(file, name)()


@pytest.mark.anyio
async def test_moves_and_reads_into_buffers_keep_the_order_of_their_calls(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"0123456789")
    async with files.open(tmp_path / "file", "rb") as file:
        buffer = bytearray(3)
        results: dict[str, Any] = {}

        async def call(name: str, *arguments: Any) -> None:
            results[f"{name}{arguments}"] = await getattr(file, name)(*arguments)

        await file._take_turn()
        async with anyio.create_task_group() as calls:
            calls.start_soon(call, "seek", 4)
            await anyio.wait_all_tasks_blocked()
            calls.start_soon(call, "readinto", buffer)
            await anyio.wait_all_tasks_blocked()
            with anyio.move_on_after(0):
                await file.seek(0)  # is cancelled before its turn
            calls.start_soon(call, "peek")
            await anyio.wait_all_tasks_blocked()
            calls.start_soon(call, "seek", -1, os.SEEK_END)
            await anyio.wait_all_tasks_blocked()
            assert not results
            file._give_up_turn()
        assert list(results.values()) == [4, 3, b"789", 9]
        assert bytes(buffer) == b"456"
        assert await file.read() == b"9"


@pytest.mark.anyio
async def test_readinto_fills_a_buffer_of_any_shape_and_size(tmp_path: Path) -> None:
    content = os.urandom(300_000)
    (tmp_path / "file").write_bytes(content)
    async with files.open(tmp_path / "file", "rb") as file:
        for begin, size in ((0, 10), (10, 8192), (8202, 200_000), (208_202, 0), (290_000, 20_000)):
            await file.seek(begin)
            await file.peek()  # a part of it is buffered
            numbers = array.array("I", bytes(-(-size // 4) * 4))
            expected = content[begin : begin + 4 * len(numbers)]
            assert await file.readinto(numbers) == len(expected)
            assert numbers.tobytes()[: len(expected)] == expected
            assert await file.tell() == begin + len(expected)


@pytest.mark.anyio
@pytest.mark.parametrize("target", [(-1, 0), (-11, 1), (1 << 63, 0), ((1 << 63) - 1, 2), (0, 3)])
async def test_a_seek_to_nowhere_is_refused_and_moves_nothing(
    tmp_path: Path, target: tuple[int, int]
) -> None:
    (tmp_path / "file").write_bytes(b"0123456789")
    async with files.open(tmp_path / "file", "rb") as file:
        await file.seek(offset=2, whence=0)
        with pytest.raises((OSError, ValueError)):
            await file.seek(*target)
        assert await file.read() == b"23456789"


@pytest.mark.anyio
async def test_a_mode_allows_only_its_operations(tmp_path: Path) -> None:
    async with files.open(tmp_path / "file", "wb") as file:
        with pytest.raises(io.UnsupportedOperation):
            await file.read()
        with pytest.raises(io.UnsupportedOperation):
            await file.pread(1, 0)
    async with files.open(tmp_path / "file", "rb") as file:
        with pytest.raises(io.UnsupportedOperation):
            await file.write(b"x")
        with pytest.raises(io.UnsupportedOperation):
            await file.truncate()


@pytest.mark.anyio
async def test_positional_calls_keep_the_position_and_see_written_data(
    tmp_path: Path,
) -> None:
    async with files.open(tmp_path / "file", "w+b") as file:
        await file.write(b"0123456789")
        assert await file.pread(4, 3) == b"3456"
        assert await file.tell() == 10
        assert await file.pwrite(b"ab", 4) == 2
        await file.seek(0)
        assert await file.read(3) == b"012"
        assert await file.pwrite(b"X", 5) == 1
        buffer = bytearray(8)
        assert await file.pread_into(buffer, 4) == 6
        assert buffer == b"aX6789\0\0"
        assert await file.read() == b"3aX6789"[0:1] + b"aX6789"
        assert await file.pread(5, 100) == b""
        for call in (file.pread, file.pwrite):
            with pytest.raises(ValueError, match="negative"):
                await call(*((1, -1) if call == file.pread else (b"", -1)))


@pytest.mark.anyio
async def test_large_transfers_are_whole(tmp_path: Path) -> None:
    data = os.urandom(5 << 20)
    async with files.open(tmp_path / "file", "w+b") as file:
        assert await file.write(memoryview(data)) == len(data)
        assert await file.pread(len(data) + 5, 0) == data
        await file.seek(0)
        assert await file.read() == data
        buffer = bytearray(len(data))
        await file.seek(0)
        assert await file.readinto(buffer) == len(data)
        assert buffer == data
        await file.fsync()
        await file.fdatasync()


@pytest.mark.anyio
async def test_lines_are_iterated(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"".join(b"%d\n" % i * (i % 3) for i in range(30_000)) + b"no end")
    with open(path, "rb") as builtin:
        expected = list(builtin)
    async with files.open(path, "rb") as file:
        assert [line async for line in file] == expected
        await file.seek(0)
        assert await file.readlines() == expected


@pytest.mark.anyio
async def test_data_that_is_not_bytes_is_refused(tmp_path: Path) -> None:
    async with files.open(tmp_path / "file", "wb") as file:
        with pytest.raises(TypeError):
            await file.write("text")  # type: ignore[arg-type]
        await file.writelines([b"a", bytearray(b"b"), memoryview(b"c")])
    assert (tmp_path / "file").read_bytes() == b"abc"


@pytest.mark.anyio
async def test_a_buffered_line_is_awaited_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"one\ntwo\nthree")
    for mode in ("r", "rb"):
        with open(tmp_path / "file", mode) as builtin:
            lines = builtin.readlines()
        async with files.open(tmp_path / "file", mode) as file:
            first = await anext(file)
            second = anext(file)
            third = anext(file)
            assert [first, await second, await third] == lines
            with pytest.raises(RuntimeError, match="already awaited"):
                await second
            with pytest.raises(StopAsyncIteration):
                await anext(file)
        with pytest.raises(ValueError, match="closed"):
            await anext(file)


@pytest.mark.anyio
@pytest.mark.parametrize("size", [0, 5])
async def test_the_position_follows_appended_data(tmp_path: Path, size: int) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"0123456789")
    async with files.open(path, "a+b") as file:
        await file.seek(3)
        await file.write(b"abc")  # at the end, whatever the position is
        assert await file.read(size) == b""
        assert await file.tell() == 13
        await file.seek(4)
        await file.write(b"def")
        assert await file.seek(-3, os.SEEK_CUR) == 13
        assert await file.read() == b"def"
    assert path.read_bytes() == b"0123456789abcdef"


@pytest.mark.anyio
async def test_data_that_could_not_be_written_are_not_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = await files.open("/dev/full", "wb")
    backend = file._backend
    writes: list[Any] = []

    class Counting:
        def __getattr__(self, name: str) -> Any:
            if name == "write":
                writes.append(name)
            return getattr(backend, name)

    monkeypatch.setattr(file, "_backend", Counting())
    await file.write(b"no room for it")
    with pytest.raises(OSError, match="No space left"):
        await file.close()
    assert file.closed
    assert writes == ["write"]


@pytest.mark.anyio
@pytest.mark.parametrize("position", [-1, 1 << 63, 1 << 70])
async def test_an_impossible_position_is_refused(tmp_path: Path, position: int) -> None:
    (tmp_path / "file").write_bytes(b"content")
    async with files.open(tmp_path / "file", "r+b") as file:
        with pytest.raises(OSError, match=f"position {position} is"):
            await file.seek(position)
        assert await file.read() == b"content"


@pytest.mark.anyio
@pytest.mark.parametrize("buffering", [-1, 0])
@pytest.mark.parametrize(
    ("name", "argument", "kind"),
    [
        ("seek", 1.5, TypeError),
        ("seek", None, TypeError),
        ("read", 1.5, TypeError),
        ("read", "1", TypeError),
        ("readline", "1", TypeError),
        ("truncate", 1.5, TypeError),
        ("truncate", -1, OSError),
        ("readinto", b"read-only", TypeError),
        ("readinto", memoryview(bytearray(8))[::2], (BufferError, TypeError)),
        ("write", 5, TypeError),
    ],
)
async def test_an_invalid_argument_is_refused_as_by_the_built_in_and_changes_nothing(
    tmp_path: Path, buffering: int, name: str, argument: Any, kind: Any
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"0123456789")
    with open(path, "r+b", buffering) as builtin, pytest.raises(kind):
        getattr(builtin, name)(argument)
    async with files.open(path, "r+b", buffering) as file:
        assert await file.read(2) == b"01"
        with pytest.raises(kind):
            await getattr(file, name)(argument)
        assert await file.tell() == 2
        assert await file.read() == b"23456789"
    assert path.read_bytes() == b"0123456789"
