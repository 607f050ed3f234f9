"""Columns of types that no recording has, which a damaged schema or another program makes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import penstock.record
from penstock.cli import main
from penstock.record import RecordError
from tests.python.record.batches import flow_batch

pa = pytest.importorskip("pyarrow")

ROWS = 10


def odd_columns() -> dict[str, Any]:
    return {
        "half floats": pa.array([1.5] * ROWS).cast(pa.float32()).cast(pa.float16()),
        "numbers beyond 63 bits": pa.array([2**64 - 1] * ROWS, pa.uint64()),
        "numbers without a sign": pa.array([7] * ROWS, pa.uint64()),
        "maps": pa.array([[("a", 1)]] * ROWS, pa.map_(pa.string(), pa.int64())),
        "dates": pa.array([1] * ROWS, pa.date32()),
        "far seconds": pa.array([2**40] * ROWS, pa.timestamp("s")),
        "months": pa.array([(1, 2, 3)] * ROWS, pa.month_day_nano_interval()),
        "runs": pa.RunEndEncodedArray.from_arrays([ROWS], [1.0]),
        "dictionaries of floats": pa.array([1.0] * ROWS).dictionary_encode(),
    }


def written(path: Path, name: str, column: Any) -> Path:
    table = pa.Table.from_batches([flow_batch(ROWS).to_arrow()])
    table = pa.table(
        {each: table[each].combine_chunks() for each in table.column_names}, metadata=None
    )
    plain = pa.schema(
        [
            field.with_type(field.type.value_type) if pa.types.is_dictionary(field.type) else field
            for field in table.schema
        ]
    )
    table = table.cast(plain)
    table = table.set_column(table.column_names.index(name), name, column)
    with pa.ipc.new_file(str(path), table.schema) as writer:
        writer.write_table(table)
    return path


@pytest.mark.parametrize("kind", odd_columns())
@pytest.mark.parametrize("name", ["t_utc", "t_mono_ns", "latency_s", "status", "Mass_Flow"])
def test_a_column_of_another_type_is_a_reading_of_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str, name: str
) -> None:
    path = written(tmp_path / "run.arrow", name, odd_columns()[kind])
    for command in (
        ["verify", str(path)],
        ["plot", str(path)],
        ["export", str(path), str(tmp_path / "out.csv")],
        ["export", str(path), str(tmp_path / "out.parquet")],
    ):
        assert main(command) in (0, 5, 8), (command, capsys.readouterr())
        shown = capsys.readouterr()
        assert "defect of Penstock" not in shown.out + shown.err
    recording = penstock.record.open(path, strict=False)
    table = recording.to_arrow()
    table.validate(full=True)
    if name == "Mass_Flow":
        assert len(table) == ROWS


@pytest.mark.parametrize(
    ("name", "kind"), [("latency_s", "half floats"), ("t_mono_ns", "numbers without a sign")]
)
def test_numbers_of_another_width_are_read(tmp_path: Path, name: str, kind: str) -> None:
    path = written(tmp_path / "run.arrow", name, odd_columns()[kind])
    table = penstock.record.open(path).to_arrow()
    assert set(table[name].to_pylist()) <= {1.5, 7}
    assert len(table) == ROWS


def test_a_column_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    path = written(tmp_path / "run.arrow", "Mass_Flow", odd_columns()["months"])
    with pytest.raises(RecordError, match="Mass_Flow: its type is month_day_nano_interval"):
        penstock.record.open(path).to_arrow()
    path = written(tmp_path / "run.arrow", "t_utc", odd_columns()["far seconds"])
    recording = penstock.record.open(path, strict=False)
    assert not len(recording.to_arrow())
    assert [damage.rows for damage in recording.damages] == [ROWS, ROWS]
    assert "beyond the years" in recording.damages[0].reason
