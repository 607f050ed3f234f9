"""No cut without a copy: what recovery and appending take off a file of a text file."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from penstock._torn_end import EndTooLargeError, cut_end
from penstock.record import (
    CsvSink,
    JsonlSink,
    RecoveryError,
    SinkWriteError,
    recover,
)
from tests.python.record.batches import flow_batch
from tests.python.record.killed_recordings import flows, numbers

pytest.importorskip("pyarrow")

LINES: dict[str, Callable[..., Any]] = {"run.csv": CsvSink, "run.jsonl": JsonlSink}


def write(path: Path, rows: int, first: int = 0, **options: Any) -> Any:
    sink = LINES[path.name](path, **options)

    async def main() -> None:
        async with sink:
            await sink.write_batch(flow_batch(rows, first=first))

    anyio.run(main)
    return sink


def by_recovery(path: Path) -> None:
    recover(path)


def by_appending(path: Path) -> None:
    write(path, 1, first=20, append=True)


WAYS = pytest.mark.parametrize("repair", [by_recovery, by_appending])


def stray_quote(data: bytes) -> bytes:
    rows = data.split(b"\n")
    rows[10] = rows[10].replace(b"fuel,A", b'fuel,A"')
    return b"\n".join(rows)


def opened_quote(data: bytes) -> bytes:
    rows = data.split(b"\n")
    rows[10] = rows[10].replace(b"fuel,A", b'fuel,"A')
    return b"\n".join(rows)


@WAYS
@pytest.mark.parametrize("name", LINES)
@pytest.mark.parametrize(
    "change",
    [
        lambda data: data.replace(b"\r\n", b"\n"),
        lambda data: data.replace(b"\r\n", b"\n").removesuffix(b"\n"),
        lambda data: data.removesuffix(b"\n").removesuffix(b"\r"),
        lambda data: b"\xef\xbb\xbf" + data,
    ],
)
def test_a_file_that_an_editor_has_saved_keeps_all_its_rows(
    tmp_path: Path, name: str, repair: Any, change: Any
) -> None:
    write(tmp_path / name, 20)
    (tmp_path / name).write_bytes(change((tmp_path / name).read_bytes()))
    repair(tmp_path / name)
    assert flows(tmp_path / name) == numbers(21 if repair is by_appending else 20)
    assert not list(tmp_path.glob("*.torn*"))


@WAYS
@pytest.mark.parametrize("change", [stray_quote, opened_quote])
def test_a_quote_takes_no_row_but_its_own(tmp_path: Path, repair: Any, change: Any) -> None:
    path = tmp_path / "run.csv"
    write(path, 20)
    changed = change(path.read_bytes())
    path.write_bytes(changed)
    repair(path)
    assert path.read_bytes().startswith(changed)
    assert not list(tmp_path.glob("*.torn*"))


@WAYS
@pytest.mark.parametrize("name", LINES)
def test_a_torn_row_is_kept_beside_its_file(tmp_path: Path, name: str, repair: Any) -> None:
    path = tmp_path / name
    for number, kept in enumerate(("run.X.torn", "run.X.torn2"), 1):
        if not path.exists():
            write(path, 20)
        torn = (b'{"device": "fu' if name == "run.jsonl" else b"fuel,A,20") + b"%d" % number
        path.write_bytes(path.read_bytes() + torn)
        repair(path)
        copy = tmp_path / kept.replace("run.X", name)
        assert copy.read_bytes() == torn
        assert flows(path)[:20] == numbers(20)


@pytest.mark.parametrize("name", LINES)
def test_the_parts_behind_a_text_file_are_recovered_with_it(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    write(path, 20)
    second = path.with_stem("run.part2")
    second.write_bytes(path.read_bytes()[:-40])
    (cut,) = recover(path).cuts
    assert cut.path == second
    assert (tmp_path / f"{second.name}.torn").stat().st_size == cut.size


def test_what_a_sink_cuts_is_in_its_cuts(tmp_path: Path) -> None:
    write(tmp_path / "run.csv", 20)
    with open(tmp_path / "run.csv", "ab") as file:
        file.write(b"fuel,A")
    (cut,) = write(tmp_path / "run.csv", 1, first=20, append=True).cuts
    assert (cut.size, cut.kept_in) == (6, tmp_path / "run.csv.torn")
    assert str(cut.kept_in) in str(cut)


@pytest.mark.parametrize("name", LINES)
def test_more_than_a_torn_row_is_cut_only_by_force(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    write(path, 20)
    before = path.read_bytes() + b"x" * 100_000
    path.write_bytes(before)
    for repair in (by_recovery, by_appending):
        with pytest.raises(RecoveryError, match="--force, or force=True"):
            repair(path)
        assert path.read_bytes() == before
    assert not list(tmp_path.glob("*.torn*"))
    recovery = recover(path, force=True)
    assert recovery.bytes_cut == 100_000
    assert recovery.cuts[0].kept_in.read_bytes() == b"x" * 100_000
    assert flows(path) == numbers(20)


def test_a_last_row_with_zero_bytes_in_it_is_torn(tmp_path: Path) -> None:
    """Its fields are all there, but the last one would be a text of zero bytes."""
    path = tmp_path / "run.csv"
    write(path, 20)
    path.write_bytes(path.read_bytes().removesuffix(b"\r\n") + bytes(4096))
    assert recover(path).cuts
    assert flows(path) == numbers(19)
    assert b"\0" not in path.read_bytes()


def test_an_error_behind_a_cut_names_the_copy(tmp_path: Path) -> None:
    write(tmp_path / "run.csv", 20)
    shutil.copy(tmp_path / "run.csv", tmp_path / "run.part2.csv")
    for name, torn in (("run.csv", 5), ("run.part2.csv", 70_000)):
        with open(tmp_path / name, "ab") as file:
            file.write(b"x" * torn)
    with pytest.raises(RecoveryError, match=r"part2\.csv .*; nothing was.*5 bytes.*run\.csv\.torn"):
        recover(tmp_path / "run.csv")


@pytest.mark.parametrize("taken", [Path.mkdir, lambda path: path.symlink_to("nowhere")])
def test_a_copy_gets_a_free_name(tmp_path: Path, taken: Callable[[Path], None]) -> None:
    path = tmp_path / "run.csv"
    path.write_bytes(b"whole\ntorn")
    taken(tmp_path / "run.csv.torn")
    with open(path, "r+b") as file:
        cut = cut_end(file.fileno(), path, 6)
    assert cut is not None
    assert cut.kept_in == tmp_path / "run.csv.torn2"
    assert cut.kept_in.read_bytes() == b"torn"


def test_zero_bytes_that_a_power_cut_leaves_need_no_force(tmp_path: Path) -> None:
    write(tmp_path / "run.csv", 20)
    with open(tmp_path / "run.csv", "ab") as file:
        file.write(bytes(200_000))
    assert recover(tmp_path / "run.csv").bytes_cut == 200_000


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("run.csv", b"a,b\r\n1,2\r\n3"),
        ("run.csv", b'"x\n' * 100),
        ("run.jsonl", b'{"a": 1}\n{"b'),
        ("run.jsonl", b"\xff\xfe not JSON"),
    ],
)
def test_a_file_that_penstock_has_not_written_is_left_as_it_is(
    tmp_path: Path, name: str, content: bytes
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    for force in (False, True):
        with pytest.raises(RecoveryError, match="was not written by Penstock"):
            recover(path, force=force)
        with pytest.raises(RecoveryError, match="was not written by Penstock"):
            write(path, 1, append=True, force=force)
        assert path.read_bytes() == content
    assert [each.name for each in tmp_path.iterdir()] == [name]


def test_a_cut_that_was_killed_after_its_copy_makes_no_second_one(tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    path.write_bytes(b"whole\ntorn")
    (tmp_path / "run.csv.torn").write_bytes(b"torn")
    (tmp_path / ".run.csv.torn.0123abcd.tmp").write_bytes(b"to")
    with open(path, "r+b") as file:
        cut = cut_end(file.fileno(), path, 6)
    assert cut is not None
    assert cut.kept_in == tmp_path / "run.csv.torn"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["run.csv", "run.csv.torn"]


def test_a_copy_that_cannot_be_made_prevents_the_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "run.csv", 20)
    with open(tmp_path / "run.csv", "ab") as file:
        file.write(b"fuel,A")
    before = (tmp_path / "run.csv").read_bytes()

    def refuse(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("penstock._torn_end.put_file", refuse)
    with pytest.raises(SinkWriteError, match="No space left"):
        recover(tmp_path / "run.csv")
    assert (tmp_path / "run.csv").read_bytes() == before


def test_the_copy_is_as_private_as_the_file(tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    path.write_bytes(b"torn")
    path.chmod(0o600)
    with open(path, "r+b") as file:
        cut_end(file.fileno(), path, 0)
    assert (tmp_path / "run.csv.torn").stat().st_mode & 0o777 == 0o600


def test_a_cut_with_more_behind_it_says_what(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"abc")
    with open(path, "r+b") as file, pytest.raises(EndTooLargeError, match="3 batches follow"):
        cut_end(file.fileno(), path, 1, more="3 batches follow")
    assert path.read_bytes() == b"abc"
