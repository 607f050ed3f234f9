"""Text files behave like the built-in's: decoding, line ends, positions."""

from __future__ import annotations

import io
import os
import tempfile
from pathlib import Path
from typing import IO, Any

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

import penstock
from penstock import files
from penstock.files._file_objects import text_file

ENCODINGS = [
    "utf-8",
    "utf-8-sig",
    "utf-16",
    "utf-16-le",
    "utf-32",
    "latin-1",
    "shift_jis",
    "iso2022_jp",
]
NEWLINES = [None, "", "\n", "\r", "\r\n"]
TEXT = st.lists(st.sampled_from(["a", "bc", "\r", "\n", "\r\n", "é", "あ", "漢字", "\ufeff"]))

Step = tuple[str, int]

READING = st.lists(
    st.one_of(
        st.tuples(st.just("read"), st.integers(-1, 12)),
        st.tuples(st.just("readline"), st.just(-1) | st.integers(1, 9)),
        st.tuples(st.just("tell"), st.just(0)),
        st.tuples(st.just("back"), st.integers(0, 5)),
        st.tuples(st.just("end"), st.just(0)),
    ),
    max_size=14,
)


def encoded(pieces: list[str], encoding: str) -> bytes:
    return "".join(pieces).encode(encoding, "ignore")


def position_of(file: IO[str]) -> int:
    """Return the built-in's ``tell()``, which fails in damaged text of some stateful encodings."""
    try:
        return file.tell()
    except OverflowError:
        reject()


def without_numbers(results: list[Any]) -> list[Any]:
    return ["tell" if isinstance(result, tuple) else result for result in results]


def builtin_run(path: str, steps: list[Step], **options: Any) -> list[Any]:
    results: list[Any] = []
    returned_positions = [0]
    with open(path, **options) as file:
        for name, argument in steps:
            try:
                if name == "tell":
                    returned_positions.append(position_of(file))
                    results.append(("tell", returned_positions[-1]))
                elif name == "back":
                    file.seek(returned_positions[argument % len(returned_positions)])
                elif name == "end":
                    results.append(file.seek(0, 2))
                else:
                    results.append(getattr(file, name)(argument))
            except UnicodeDecodeError:
                results.append("UnicodeDecodeError")
                break
    return results


def our_run(path: str, steps: list[Step], **options: Any) -> list[Any]:
    async def main() -> list[Any]:
        results: list[Any] = []
        returned_positions = [0]
        async with files.open(path, **options) as file:
            for name, argument in steps:
                try:
                    if name == "tell":
                        returned_positions.append(await file.tell())
                        results.append(("tell", returned_positions[-1]))
                    elif name == "back":
                        await file.seek(returned_positions[argument % len(returned_positions)])
                    elif name == "end":
                        results.append(await file.seek(0, 2))
                    else:
                        results.append(await getattr(file, name)(argument))
                except UnicodeDecodeError:
                    results.append("UnicodeDecodeError")
                    break
        return results

    return penstock.run(main())


@settings(max_examples=400)
@given(
    pieces=TEXT,
    steps=READING,
    encoding=st.sampled_from(ENCODINGS),
    newline=st.sampled_from(NEWLINES),
    damage=st.binary(max_size=3),
    errors=st.sampled_from(["strict", "replace"]),
)
def test_reading_decodes_as_the_built_in_file_does(
    pieces: list[str],
    steps: list[Step],
    encoding: str,
    newline: str | None,
    damage: bytes,
    errors: str,
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "text")
        Path(path).write_bytes(encoded(pieces, encoding) + damage)
        options = {"encoding": encoding, "newline": newline, "errors": errors}
        ours, theirs = our_run(path, steps, **options), builtin_run(path, steps, **options)
        if encoding == "iso2022_jp":  # after a seek, the built-in's decoder has no valid state
            ours, theirs = map(without_numbers, (ours, theirs))
        assert ours == theirs


@settings(max_examples=100)
@given(
    pieces=TEXT,
    steps=READING,
    encoding=st.sampled_from(ENCODINGS),
    newline=st.sampled_from(NEWLINES),
    chunk=st.integers(1, 5),
)
def test_characters_and_line_ends_may_be_cut_anywhere(
    pieces: list[str], steps: list[Step], encoding: str, newline: str | None, chunk: int
) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_file, "_CHUNK", chunk)
        path = os.path.join(folder, "text")
        Path(path).write_bytes(encoded(pieces, encoding))
        options = {"encoding": encoding, "newline": newline, "errors": "strict"}
        ours, theirs = our_run(path, steps, **options), builtin_run(path, steps, **options)
        # The number of a position depends on the chunks.
        assert without_numbers(ours) == without_numbers(theirs)


@settings(max_examples=150)
@given(
    pieces=TEXT,
    encoding=st.sampled_from(ENCODINGS),
    newline=st.sampled_from(NEWLINES),
    mode=st.sampled_from(["w", "a", "r+", "x", "w+"]),
    buffering=st.sampled_from([-1, 1, 8]),
)
def test_writing_encodes_as_the_built_in_file_does(
    pieces: list[str], encoding: str, newline: str | None, mode: str, buffering: int
) -> None:
    pieces = [piece.encode(encoding, "ignore").decode(encoding) for piece in pieces]

    async def write(path: str) -> None:
        async with files.open(
            path, mode, buffering, encoding=encoding, newline=newline, errors="replace"
        ) as file:
            for piece in pieces:
                assert await file.write(piece) == len(piece)

    with tempfile.TemporaryDirectory() as folder:
        theirs, ours = os.path.join(folder, "theirs"), os.path.join(folder, "ours")
        if mode not in ("x", "w"):
            for path in (theirs, ours):
                Path(path).write_bytes("begun\n".encode(encoding))
        with open(
            theirs, mode, buffering, encoding=encoding, newline=newline, errors="replace"
        ) as file:
            for piece in pieces:
                file.write(piece)
        penstock.run(write(ours))
        assert Path(ours).read_bytes() == Path(theirs).read_bytes()


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_positions_mean_the_same_to_the_built_in_file(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "text"
    path.write_bytes("".join(f"{i} é漢\r\n" for i in range(50)).encode(encoding, "ignore"))

    async def main() -> None:
        async with files.open(path, encoding=encoding, newline="") as ours:
            with open(path, encoding=encoding, newline="") as theirs:
                for size in range(1, 30):
                    assert await ours.read(size) == theirs.read(size)
                    theirs.seek(await ours.tell())
                    await ours.seek(theirs.tell())

    penstock.run(main())


@pytest.mark.parametrize(
    ("data", "encoding", "newline", "sizes"),
    [
        (b"bcd\n\xe9\r\n\r\r\r\n", "latin-1", None, [1, -1, -1, 1, -1, 1, 1]),
        (b"bcd\r\xc3\xa9bcd\n\r\r\n\r", "utf-8", None, [2, 2, 1, 1, -1, -1, -1, 1]),
        (b"\n\xc3\xa9\r\r\r\nbcd\r", "utf-8", "", [-1, 3, 1, 3, 3, 1, 1]),
        (b"\r", "latin-1", "", [1, 3, 3]),
        (b"\xef\xbb\xbfbcd\r\r", "utf-8-sig", "", [3, -1, -1, 1]),
        ("\nab\ra\r\n漢\r".encode("utf-16"), "utf-16", None, [-1, 1, 2, 3, -1, 1, 2]),
        ("あ\r漢字\r\n".encode("shift_jis"), "shift_jis", "", [1, 1, 1, 1, 2, 2]),
        (("a" * 5000 + "漢" * 2000 + "\r\n").encode(), "utf-8", None, [10, 4995, 1500, 600, -1]),
    ],
)
def test_positions_have_the_numbers_of_the_built_in_file(
    tmp_path: Path, data: bytes, encoding: str, newline: str | None, sizes: list[int]
) -> None:
    path = tmp_path / "text"
    path.write_bytes(data)

    async def main() -> None:
        async with files.open(path, encoding=encoding, newline=newline) as ours:
            with open(path, encoding=encoding, newline=newline) as theirs:
                for size in sizes:
                    if size < 0:
                        assert await ours.readline() == theirs.readline()
                    else:
                        assert await ours.read(size) == theirs.read(size)
                    assert await ours.tell() == theirs.tell()

    penstock.run(main())


@pytest.mark.anyio
async def test_lines_are_iterated(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_text("".join(f"{i} ä\n" * (i % 3) for i in range(20_000)) + "no end", "utf-8")
    with open(path, encoding="utf-8") as builtin:
        expected = list(builtin)
    async with files.open(path, encoding="utf-8") as file:
        assert [line async for line in file] == expected
        await file.seek(0)
        assert await file.readlines() == expected


@pytest.mark.anyio
async def test_a_text_file_has_the_attributes_of_the_built_in(tmp_path: Path) -> None:
    async with files.open(tmp_path / "text", "w", 1, "utf-16", "replace") as file:
        assert isinstance(file, files.AsyncFile)
        assert (file.encoding, file.errors, file.newlines) == ("utf-16", "replace", None)
        assert file.line_buffering
        assert file.mode == "w"
        assert file.buffer.mode == "w"
        assert (file.readable(), file.writable(), file.seekable()) == (False, True, True)
        await file.write("line\n")
        assert (tmp_path / "text").read_text("utf-16") == "line\n"
    assert file.closed
    with open(tmp_path / "text") as builtin:
        async with files.open(tmp_path / "text") as file:
            assert file.encoding.lower() == builtin.encoding.lower()
            assert file.errors == builtin.errors


@pytest.mark.anyio
async def test_operations_that_a_text_file_lacks_are_refused(tmp_path: Path) -> None:
    async with files.open(tmp_path / "text", "w+", encoding="utf-8") as file:
        with pytest.raises(TypeError, match="str"):
            await file.write(b"bytes")  # type: ignore[arg-type]
        for whence in (1, 2):
            with pytest.raises(OSError, match="by 0"):
                await file.seek(1, whence)
        with pytest.raises(ValueError, match="negative"):
            await file.seek(-1)
        with pytest.raises(ValueError, match="whence"):
            await file.seek(0, 5)
        with pytest.raises(UnicodeEncodeError):
            await file.write("\ud800")
        await file.write("written")
        assert await file.truncate(3) == 3
    assert (tmp_path / "text").read_text() == "wri"
    with pytest.raises(LookupError):
        files.open(tmp_path / "text", encoding="no such encoding")
    with pytest.raises(LookupError):
        files.open(tmp_path / "text", encoding="hex")


@pytest.mark.anyio
@pytest.mark.parametrize("text", ["a\nb\n", "a\r\nb\rc\n", "a\rb", "none"])
@pytest.mark.parametrize("newline", [None, ""])
async def test_a_file_reports_the_line_ends_that_it_has_read(
    tmp_path: Path, text: str, newline: str | None
) -> None:
    (tmp_path / "text").write_bytes(text.encode())
    with open(tmp_path / "text", newline=newline) as builtin:
        builtin.read()
        async with files.open(tmp_path / "text", newline=newline) as file:
            await file.read()
            assert file.newlines == builtin.newlines


@pytest.mark.anyio
async def test_a_file_is_truncated_at_the_position_of_its_text(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_text("äbc\ndef\n", "utf-8")
    async with files.open(path, "r+", encoding="utf-8") as file:
        assert await file.readline() == "äbc\n"
        await file.truncate()
    assert path.read_text("utf-8") == "äbc\n"


@pytest.mark.anyio
@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("text", ["ab\r", "ab\r\ncd", "あい\n漢字"])
async def test_a_file_is_truncated_at_a_position_with_decoder_state(
    tmp_path: Path, encoding: str, text: str
) -> None:
    """The state: a byte order mark that was read, a shift state, half a line end."""
    path = tmp_path / "text"
    data = text.encode(encoding, "ignore")
    for size in range(1, 5):
        path.write_bytes(data)
        async with files.open(path, "r+", encoding=encoding, newline="") as file:
            read = await file.read(size)
            length = await file.truncate()
        assert path.stat().st_size == length
        assert path.read_bytes() == data[:length]
        async with files.open(path, encoding=encoding, newline="") as file:
            assert await file.read() == read


@pytest.mark.anyio
@pytest.mark.parametrize("encoding", ENCODINGS)
async def test_written_text_can_be_read_from_its_position(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "text"
    path.write_bytes("abcd\nef\n".encode(encoding))
    async with files.open(path, "r+", encoding=encoding) as file:
        await file.write("AB")
        # The first read of the file, at a position where no byte order mark can be.
        await file.seek(await file.tell())
        assert await file.read() == "cd\nef\n"


@pytest.mark.anyio
@pytest.mark.parametrize("encoding", ENCODINGS)
async def test_the_beginning_is_position_0_even_after_a_seek(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "text"
    path.write_bytes("abcd".encode(encoding))
    async with files.open(path, "r+", encoding=encoding) as file:
        assert await file.read() == "abcd"
        assert await file.seek(0) == 0
        assert await file.tell() == 0
        await file.seek(await file.tell())
        await file.write("ABCD")
    assert path.read_bytes() == "ABCD".encode(encoding)


@pytest.mark.anyio
async def test_settings_that_are_refused_leave_all_of_them(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_bytes(b"one\ntwo\n")
    refused: list[tuple[type[Exception], dict[str, Any]]] = [
        (LookupError, {"encoding": "no-such", "newline": "\r"}),
        (LookupError, {"encoding": "hex"}),
        (LookupError, {"errors": "no-such", "line_buffering": True}),
        (ValueError, {"newline": "x", "encoding": "latin-1"}),
        (TypeError, {"newline": 1}),
        (TypeError, {"encoding": 1}),
    ]
    async with files.open(path, "r+", encoding="utf-8", newline="") as file:
        before = (file.encoding, file.errors, file.line_buffering)
        for kind, settings_refused in refused:
            with pytest.raises(kind):
                await file.reconfigure(**settings_refused)
        assert await file.readline() == "one\n"
        with pytest.raises(io.UnsupportedOperation, match="seek"):
            await file.reconfigure(encoding="latin-1", line_buffering=True)
        assert (file.encoding, file.errors, file.line_buffering) == before
        await file.reconfigure(line_buffering=True, write_through=True)
        assert (file.line_buffering, file.write_through) == (True, True)
        await file.seek(0, os.SEEK_END)
        await file.reconfigure(encoding="latin-1", newline="\r\n")
        await file.write("é\n")
        assert path.read_bytes() == b"one\ntwo\n\xe9\r\n"  # lines are flushed
    with pytest.raises(ValueError, match="closed"):
        await file.reconfigure(line_buffering=False)


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1", "utf-8-sig"])
@pytest.mark.parametrize("newline", [None, ""])
def test_positions_are_the_numbers_of_the_built_in(
    tmp_path: Path, encoding: str, newline: str | None
) -> None:
    path = tmp_path / "text"
    path.write_bytes("a\nbé\n\xfc漢字𝄞\nend".encode(encoding, "ignore"))

    async def main() -> None:
        async with files.open(path, encoding=encoding, newline=newline) as ours:
            with open(path, encoding=encoding, newline=newline) as theirs:
                places = []
                while character := theirs.read(1):
                    assert await ours.read(1) == character
                    places.append(theirs.tell())
                    assert await ours.tell() == places[-1]
                for place in (*reversed(places), 0):
                    assert await ours.seek(place) == theirs.seek(place) == place
                    assert await ours.tell() == theirs.tell()
                    assert await ours.read(2) == theirs.read(2)
                    assert await ours.tell() == theirs.tell()
                assert await ours.seek(0, 2) == theirs.seek(0, 2)
                assert await ours.tell() == theirs.tell()
        with pytest.raises(ValueError, match="closed"):
            await ours.seek(0)
        with pytest.raises(ValueError, match="closed"):
            await ours.tell()

    penstock.run(main())
