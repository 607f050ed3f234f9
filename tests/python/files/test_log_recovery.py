"""Opening a log that was truncated, or damaged, at any byte."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from zlib import crc32

import pytest

from penstock.files import AppendLog, LogDamaged, LogError, NotALog, Recovered, read_log
from penstock.files._log.log_file import open_log_file
from penstock.files._log.log_format import FILE_HEADER_SIZE, LogIdentity, encode_file_header
from tests.python.files.written_log import COMMITS, WrittenLog, encode_commit, open_and_read


@pytest.fixture(params=[1, 2], ids=["format 1", "format 2"])
def version(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture
def written(version: int) -> WrittenLog:
    return WrittenLog(COMMITS, version)


LAYOUTS = {
    1: (
        "70656e73746f636b206c6f6720310a00 01020304 62892ec3",
        "01020304 05000000 1800000000000000 86a61036 7e557a67",
    ),
    2: (
        "70656e73746f636b206c6f6720320a00 01020304 ff93c6f2",
        "01020304 05000000 1800000000000000 00000000 86a61036 26ebf2ca",
    ),
}


def test_the_layout_is_the_documented_one(tmp_path: Path, version: int) -> None:
    """The bytes are constants, because every later version must read today's logs."""
    path = tmp_path / "log"
    header, record = map(bytes.fromhex, LAYOUTS[version])
    data = header + record + b"hello"
    path.write_bytes(data)
    assert open_and_read(path) == (Recovered(1, len(data)), [b"hello"])
    log = LogIdentity(version, bytes.fromhex("01020304"))
    assert encode_file_header(log) == header
    assert encode_commit(log, 24, [b"hello"]) == data[24:]


def test_a_log_cut_at_any_byte_opens_with_the_records_before(
    tmp_path: Path, written: WrittenLog
) -> None:
    path = tmp_path / "log"
    for length in range(len(written.data) + 1):
        path.write_bytes(written.data[:length])
        recovered, records = open_and_read(path)
        whole = written.whole_before(length)
        end = written.ends[whole]
        assert records == written.records[:whole]
        assert (recovered.records, recovered.size) == (whole, end)
        if length >= FILE_HEADER_SIZE:
            assert recovered.torn == length - end
        else:
            assert recovered.torn == length
        assert bool(recovered.reason) == bool(recovered.torn)
        assert path.stat().st_size == end
        # The truncation is permanent: the next opening has nothing to recover.
        assert open_and_read(path)[0] == Recovered(whole, end)


@pytest.mark.parametrize("mask", [0x01, 0x80, 0xFF])
def test_a_flipped_byte_is_never_read_as_data(
    tmp_path: Path, written: WrittenLog, mask: int
) -> None:
    path = tmp_path / "log"
    last_commit = written.commit_ends[-2]
    for offset in range(len(written.data)):
        damaged = bytearray(written.data)
        damaged[offset] ^= mask
        path.write_bytes(damaged)
        whole = written.whole_before(offset)
        if offset < FILE_HEADER_SIZE:
            with pytest.raises(NotALog):
                open_and_read(path)
        elif offset < last_commit:
            # A later commit proves that this commit was durable, so nothing may be discarded.
            with pytest.raises(LogDamaged) as caught:
                open_and_read(path)
            assert caught.value.offset == written.ends[whole]
        else:
            recovered, records = open_and_read(path)
            assert records == written.records[:whole]
            assert recovered.torn == len(damaged) - written.ends[whole]
            continue
        assert path.read_bytes() == damaged


@pytest.mark.parametrize("tail", [b"\0" * 5000, b"\xff" * 100, b"penstock log 1\n\0" * 30])
def test_a_tail_of_other_data_is_cut_off(tmp_path: Path, written: WrittenLog, tail: bytes) -> None:
    path = tmp_path / "log"
    path.write_bytes(written.data + tail)
    recovered, records = open_and_read(path)
    assert records == written.records
    assert recovered.torn == len(tail)
    assert recovered.kept_in == tmp_path / "log.torn"
    assert recovered.kept_in.read_bytes() == tail
    assert "no record begins here" in recovered.reason


def test_a_commit_torn_in_its_middle_is_cut_off_even_with_a_whole_end(
    tmp_path: Path, written: WrittenLog
) -> None:
    """After a power cut the blocks of one write may be on the disk in any combination."""
    path = tmp_path / "log"
    damaged = bytearray(written.data)
    begin = written.commit_ends[-2]
    damaged[begin + written.header_size] ^= 1  # in "delta", with "epsilon" whole after it
    path.write_bytes(damaged)
    recovered, records = open_and_read(path)
    assert records == written.records[:-2]
    assert recovered.torn == len(damaged) - begin
    assert recovered.kept_in is not None
    assert recovered.kept_in.read_bytes() == damaged[begin:]


def test_bytes_that_are_repeated_are_not_accepted_again(tmp_path: Path) -> None:
    """A copy that was resumed at the wrong place, or a block that was in use before."""
    path = tmp_path / "log"
    written = WrittenLog(COMMITS)
    for begin in written.ends[:-1]:
        for end in written.ends[1:]:
            if begin < end:
                path.write_bytes(written.data + written.data[begin:end])
                recovered, records = open_and_read(path)
                assert records == written.records
                assert recovered.torn == end - begin


def test_a_batch_is_found_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "log"
    written = WrittenLog([[b"before"]])
    begin = len(written.data)
    batch = [b"one", b"", b"three"]
    written.data += encode_commit(written.identity, begin, batch, batch=True)
    end = len(written.data)
    following = encode_commit(written.identity, end, [b"after"])
    for length in range(begin, end):
        path.write_bytes(written.data[:length])
        recovered, records = open_and_read(path)
        assert records == [b"before"]
        assert (recovered.size, recovered.torn) == (begin, length - begin)
    path.write_bytes(written.data + following)
    assert open_and_read(path)[1] == [b"before", *batch, b"after"]
    for offset in range(begin, end):
        damaged = bytearray(written.data + following)
        damaged[offset] ^= 1
        path.write_bytes(damaged)
        with pytest.raises(LogDamaged):
            open_and_read(path)
        assert path.read_bytes() == damaged


def test_a_batch_of_two_commits_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "log"
    written = WrittenLog([])
    log, begin = written.identity, len(written.data)
    header = log.encode_header(begin, begin, 0, crc32(b""), continued=True)
    end = begin + len(header)
    path.write_bytes(written.data + header + encode_commit(log, end, [b"x"]))
    recovered, records = open_and_read(path)
    assert (records, recovered.size) == ([], begin)
    assert "contradicts its place" in recovered.reason


@pytest.mark.parametrize("payload", ["marker", "headers"])
def test_a_payload_that_imitates_headers_costs_no_time_for_each(
    tmp_path: Path, version: int, payload: str
) -> None:
    """The search behind a damage: 64 MiB of copies of the marker, or of a whole header."""
    path = tmp_path / "log"
    written = WrittenLog([], version)
    log = written.identity
    imitation = log.marker if payload == "marker" else log.encode_header(24, 24, 5, 0)
    copies = imitation * ((8 << 20) // len(imitation))
    path.write_bytes(written.data + encode_commit(log, len(written.data), [copies])[:-1])
    recovered, records = open_and_read(path)
    assert (records, recovered.size) == ([], FILE_HEADER_SIZE)
    assert recovered.torn == log.header_size + len(copies) - 1


def test_records_of_another_log_are_not_accepted(tmp_path: Path, written: WrittenLog) -> None:
    """Neither after the end, nor as a later commit after a torn tail."""
    path = tmp_path / "log"
    other = WrittenLog([[b"x" * 100], [b"y" * 400]], written.identity.version)
    path.write_bytes(written.data + other.data[FILE_HEADER_SIZE:])
    recovered, records = open_and_read(path)
    assert records == written.records
    assert recovered.torn == len(other.data) - FILE_HEADER_SIZE


def test_a_record_that_contains_its_own_log_is_an_ordinary_record(
    tmp_path: Path, written: WrittenLog
) -> None:
    path = tmp_path / "log"
    copy = written.data
    written.data += encode_commit(written.identity, len(copy), [copy])
    path.write_bytes(written.data)
    assert open_and_read(path)[1] == [*written.records, copy]
    # If it is torn, the offsets of its inner records precede their place, so they prove nothing.
    path.write_bytes(written.data[:-1])
    recovered, records = open_and_read(path)
    assert records == written.records
    assert recovered.torn == written.header_size + len(copy) - 1


def test_later_commits_are_found_far_after_the_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    """Also where a read ends in the middle of a header."""
    path = tmp_path / "log"
    written = WrittenLog([[b"a"], [b"b" * 700], [b"c" * 1500], [b"d"]], version)
    for piece in range(written.header_size, 200, 7):
        monkeypatch.setattr("penstock.files._log.log_file._PIECE", piece)
        damaged = bytearray(written.data)
        damaged[written.ends[1]] ^= 1
        path.write_bytes(damaged)
        with pytest.raises(LogDamaged):
            open_and_read(path)
        path.write_bytes(written.data)
        assert open_and_read(path)[1] == written.records


def test_records_only_in_the_page_cache_are_cut_off(
    tmp_path: Path, written: WrittenLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failed sync leaves pages that can be read, but that no later sync writes."""
    path = tmp_path / "log"
    begin = written.commit_ends[-2]
    first_lost = begin

    def forget(fd: int, offset: int, length: int, advice: int) -> None:
        assert (offset <= begin, length, advice) == (True, 0, os.POSIX_FADV_DONTNEED)
        with open(path, "r+b") as file:
            file.seek(first_lost)
            file.write(bytes(len(written.data) - first_lost))

    for first_lost in range(begin, len(written.data)):
        path.write_bytes(written.data)
        with monkeypatch.context() as patched:
            patched.setattr(os, "posix_fadvise", forget)
            recovered, records = open_and_read(path)
        whole = written.whole_before(first_lost)
        assert records == written.records[:whole]
        end = written.ends[whole]
        assert (recovered.records, recovered.size) == (whole, end)
        assert recovered.torn == len(written.data) - end
        assert "not on the disk" in recovered.reason
        assert path.stat().st_size == end


@pytest.mark.parametrize(
    ("torn", "call"),
    [
        (False, "ftruncate"),
        (False, "pwrite"),
        (False, "fsync"),
        (True, "ftruncate"),
        (True, "fsync"),
    ],
)
def test_an_error_on_opening_names_the_file(
    tmp_path: Path, written: WrittenLog, monkeypatch: pytest.MonkeyPatch, torn: bool, call: str
) -> None:
    path = tmp_path / "log"
    path.write_bytes(written.data[:-1] if torn else b"")

    def fail(*arguments: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patched:
        patched.setattr(os, call, fail)
        with pytest.raises(OSError, match="Input/output error") as failed:
            open_log_file(str(path), 0o666)
    # A tail is synced in its own file before it is cut off.
    named = "log.torn" if torn and call == "fsync" else "log"
    assert failed.value.filename == str(tmp_path / named)
    os.close(open_log_file(str(path), 0o666).fd)  # no lock is left


@pytest.mark.anyio
async def test_cut_off_data_are_reported_and_appending_continues(
    tmp_path: Path, written: WrittenLog
) -> None:
    path = tmp_path / "log"
    path.write_bytes(written.data[:-1])
    async with AppendLog(path) as log:
        assert log.recovered.torn == written.header_size + len(written.records[-1]) - 1
        assert log.recovered.reason == "the last record is not complete"
        assert await log.append(b"new") == len(written.records) - 1
    async with AppendLog(path) as log:
        assert not log.recovered.torn
        assert [record async for record in log] == [*written.records[:-1], b"new"]


@pytest.mark.anyio
async def test_a_reader_stops_before_a_torn_tail_and_keeps_the_file(
    tmp_path: Path, written: WrittenLog
) -> None:
    path = tmp_path / "log"
    for length in range(len(written.data) + 1):
        path.write_bytes(written.data[:length])
        assert [record async for record in read_log(path)] == written.records[
            : written.whole_before(length)
        ]
        assert path.stat().st_size == length


@pytest.mark.anyio
async def test_a_reader_yields_the_records_before_the_damage(
    tmp_path: Path, written: WrittenLog
) -> None:
    path = tmp_path / "log"
    for offset in range(FILE_HEADER_SIZE, len(written.data)):
        damaged = bytearray(written.data)
        damaged[offset] ^= 0x10
        path.write_bytes(damaged)
        records = []
        try:
            async for record in read_log(path):
                records.append(record)
        except LogDamaged as error:
            assert offset < written.commit_ends[-2]
            assert f"penstock log salvage {path}" in str(error)
        else:
            assert offset >= written.commit_ends[-2]
        assert records == written.records[: written.whole_before(offset)]


@pytest.mark.anyio
async def test_iteration_detects_damage_to_an_open_log(tmp_path: Path) -> None:
    path = tmp_path / "log"
    async with AppendLog(path) as log:
        await log.append(b"whole")
        await log.append(b"damaged")
        with open(path, "r+b") as file:
            file.seek(-1, os.SEEK_END)
            file.write(b"?")
        with pytest.raises(LogDamaged, match="does not match its checksum"):
            _ = [record async for record in log]
        os.truncate(path, log.size - 1)
        with pytest.raises(LogDamaged, match="shorter than it was"):
            _ = [record async for record in log]
        assert issubclass(LogDamaged, LogError)
