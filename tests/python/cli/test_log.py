"""`penstock log`: check, salvage and tail."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.python.files.written_log import COMMITS, WrittenLog, encode_commit, open_and_read

pytestmark = pytest.mark.usefixtures("native_loop")


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    written = WrittenLog(COMMITS)
    data = bytearray(written.data)
    data[written.ends[1] + 30] ^= 1
    path = tmp_path / "orders.log"
    path.write_bytes(data)
    return path


def test_check_names_what_is_damaged(penstock: Any, tmp_path: Path, damaged: Path) -> None:
    whole = tmp_path / "whole.log"
    whole.write_bytes(WrittenLog(COMMITS, 1).data + b"torn")
    done = penstock("log", "check", whole, damaged)
    assert done.returncode == 8, done.stderr
    first, torn, second, gap = done.stdout.splitlines()
    assert first == f"{whole}: no damage; format 1, {whole.stat().st_size} bytes, records 6"
    assert "an unfinished write (the last record is not complete)" in torn
    assert second.startswith(f"{damaged}: damaged; format 2, ")
    assert gap.startswith("  bytes ") and "damaged (" in gap
    done = penstock("log", "check", "--json", whole)
    assert done.returncode == 0
    facts = json.loads(done.stdout)
    assert (facts["records"], facts["gaps"][0]["torn"]) == (6, True)


def test_salvage_copies_the_good_records(penstock: Any, tmp_path: Path, damaged: Path) -> None:
    before = damaged.read_bytes()
    new = tmp_path / "new.log"
    done = penstock("log", "salvage", damaged, "--to", new)
    assert done.returncode == 8
    assert done.stdout.splitlines()[-1] == f"  copied 5 records to {new}"
    assert len(open_and_read(new)[1]) == 5
    assert damaged.read_bytes() == before
    done = penstock("log", "salvage", damaged, "--to", new)
    assert (done.returncode, done.stderr) == (
        5,
        f"penstock: {new} already exists; choose another name with --to\n",
    )


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["check", "absent"], "absent cannot be read: No such file or directory"),
        (["tail", "absent"], "absent cannot be read: No such file or directory"),
        (["check", "text"], "text: is not a Penstock log"),
        (["tail", "text"], "text: does not begin with the header of a Penstock log"),
        (["check", "."], ". cannot be read: Is a directory"),
        (["salvage", "whole", "--to", "absent/new"], "cannot write absent/new"),
    ],
)
def test_what_cannot_be_read_is_named_in_a_sentence(
    penstock: Any, tmp_path: Path, arguments: list[str], sentence: str
) -> None:
    (tmp_path / "text").write_text("some text\n" * 100)
    (tmp_path / "whole").write_bytes(WrittenLog(COMMITS).data)
    done = penstock("log", *arguments, cwd=tmp_path)
    assert done.returncode == 5
    assert done.stderr.startswith(f"penstock: {sentence}"), done.stderr
    assert done.stderr.count("\n") == 1


def test_tail_prints_the_last_records(penstock: Any, tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(WrittenLog([[b"first"], ["grün\n".encode(), b"\xff\x00"]]).data)
    for option, shown in {
        "-n1": ["\\xff\\x00"],
        "-n2": ["grün\\n", "\\xff\\x00"],
        "-n0": [],
        "--hex": ["66 69 72 73 74", "67 72 c3 bc 6e 0a", "ff 00"],
        "--json": ['"first"', '"gr\\u00fcn\\n"', '"\\\\xff\\u0000"'],
    }.items():
        done = penstock("log", "tail", option, path)
        assert (done.returncode, done.stdout.splitlines()) == (0, shown), done.stderr


def test_tail_waits_for_further_records(start: Callable[..., Any], tmp_path: Path) -> None:
    path = tmp_path / "log"
    written = WrittenLog([[b"one"], [b"two"]])
    path.write_bytes(written.data)
    running = start("log", "tail", "-n1", "-f", path)
    assert running.process.stdout.readline() == "two\n"
    record = encode_commit(written.identity, len(written.data), [b"three"])
    for part in (record[:10], record[10:]):
        with open(path, "ab") as file:
            file.write(part)
    assert running.process.stdout.readline() == "three\n"
    path.unlink()
    assert running.process.wait(60) == 0
