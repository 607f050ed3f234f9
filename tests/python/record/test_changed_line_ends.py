"""A text whose line ends an editor or a file transfer has changed is told as that."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

import penstock.record
from penstock.cli import main
from penstock.record import ColumnBuffer, CsvSink, SampleBatch, check_seals
from tests.python.record.batches import MASS_FLOW
from tests.python.record.sealed_recordings import TEXTS, only, write

HOW = {"run.csv": "from CRLF to LF", "run.jsonl": "from LF to CRLF"}
TOLD = "its line ends were changed {}, as an editor or a file transfer does, and {}"


def with_other_line_ends(path: Path) -> bytes:
    data = path.read_bytes()
    is_csv = path.suffix == ".csv"
    return data.replace(b"\r\n", b"\n") if is_csv else data.replace(b"\n", b"\r\n")


@pytest.mark.parametrize("name", TEXTS)
def test_changed_line_ends_are_told_and_no_row_is_said_to_be_missing(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / name
    write(path, 0, 5000)
    path.write_bytes(with_other_line_ends(path))
    told = TOLD.format(HOW[name], "nothing else")
    assert only(path).problems == [told]
    assert main(["verify", str(path)]) == 8
    out = capsys.readouterr().out
    assert f"changed: {told}\n" in out
    assert "missing" not in out
    assert "samples 5000" in out


@pytest.mark.parametrize("name", TEXTS)
def test_what_else_has_changed_is_told_by_its_rows(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    write(path, 0, 5000)
    data = with_other_line_ends(path)
    path.write_bytes(data.replace(b"3333", b"4333", 1))
    told, problem = only(path).problems
    assert told == TOLD.format(HOW[name], "more than that has changed")
    _, first, _, last, *_ = problem.split()
    assert int(first) <= 3334 <= int(last) < int(first) + 1000
    assert problem.endswith("have changed")


def test_line_breaks_inside_texts_are_no_line_ends(tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    buffer = ColumnBuffer(MASS_FLOW)
    for number in range(20_000):
        error = f'no reply\nafter "{number}" s' if number % 3 else None
        buffer.append_row("d", "A", number, number, number, number, {}, "", error)

    async def record() -> None:
        async with CsvSink(path) as sink:
            await sink.write_batch(SampleBatch.from_buffer(buffer))

    anyio.run(record)
    path.write_bytes(with_other_line_ends(path))
    assert path.stat().st_size > 1 << 20  # more than is looked at together
    assert only(path).problems == [TOLD.format("from CRLF to LF", "nothing else")]


def test_a_text_that_was_sealed_with_such_line_ends_is_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "run.csv"

    async def record() -> None:
        async with CsvSink(path, seals=False) as sink:
            buffer = ColumnBuffer(MASS_FLOW)
            buffer.append_row("d", "A", 1, 1, 1, 1, {}, "", None)
            await sink.write_batch(SampleBatch.from_buffer(buffer))

    anyio.run(record)
    path.write_bytes(with_other_line_ends(path))
    write(path, 10, 100, append=True)
    assert only(path).problems == []


@pytest.mark.parametrize("name", TEXTS)
def test_a_resumed_run_leaves_such_a_text_and_its_seals_as_they_are(
    tmp_path: Path, name: str
) -> None:
    path = tmp_path / name
    write(path, 0, 1000)
    path.write_bytes(with_other_line_ends(path))
    before = path.read_bytes()
    write(path, 1000, 100, append=True)
    assert path.read_bytes() == before
    first, second = check_seals(path)
    assert first.problems == [TOLD.format(HOW[name], "nothing else")]
    assert (second.rows, second.unchanged) == (100, True)
    assert len(penstock.record.open(path).to_arrow()) == 1100
