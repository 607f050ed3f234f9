"""``penstock query``: SQL over recordings of every format, folders of parts, and archives."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import anyio
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from penstock.cli import main
from penstock.cli._stored.commands import QUERY_FORMATS
from penstock.cli._stored.query_command import WRITERS, _Worker
from penstock.record import (
    ArrowSink,
    ColumnBuffer,
    CsvSink,
    Field,
    JsonlSink,
    ParquetSink,
    RecordSchema,
    SampleBatch,
    SqliteSink,
)
from penstock.record.sink import Sink
from tests.python.record.batches import NOON_NS, flow_batch

duckdb = pytest.importorskip("duckdb")

NAMES = ["run.parquet", "run.arrow", "run.csv", "run.jsonl", "run.sqlite", "parts"]
MEAN = "SELECT device, avg(Mass_Flow) AS flow, count(*) AS n FROM samples GROUP BY 1 ORDER BY 1"


def sink_at(path: Path) -> Sink:
    sinks = {
        ".parquet": ParquetSink,
        ".arrow": ArrowSink,
        ".csv": CsvSink,
        ".jsonl": JsonlSink,
        ".sqlite": SqliteSink,
        "": ParquetSink,
    }
    return sinks[path.suffix](path)


def two_devices(first: int = 0) -> SampleBatch:
    """Flows 0 to 4 of air, 100 of fuel, and a failed poll of fuel."""
    buffer = ColumnBuffer(flow_batch(0).schema)
    rows = [("air", float(n), None) for n in range(5)]
    rows += [("fuel", 100.0, None), ("fuel", None, "no answer")]
    for number, (device, flow, error) in enumerate(rows, first):
        stamp = NOON_NS + number * 1_000_000_000 + 123
        values = {} if flow is None else {"Mass_Flow": flow, "Gas": "N2"}
        mono = number * 1_000_000_000
        buffer.append_row(device, "A", stamp, stamp, mono, mono, values, "", error)
    return SampleBatch.from_buffer(buffer)


def record_to(path: Path, *batches: SampleBatch) -> Path:
    async def run() -> None:
        async with sink_at(path) as sink:
            for batch in batches or [two_devices()]:
                await sink.write_batch(batch)

    anyio.run(run)
    return path


class Query:
    def __init__(self, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
        self._captured = capfdbinary

    def __call__(self, *arguments: str | Path, code: int = 0) -> tuple[bytes, str]:
        found = main(["query", *map(str, arguments)])
        sys.stdout.flush()
        out, error = self._captured.readouterr()
        assert found == code, error.decode()
        return out, error.decode()


@pytest.fixture
def query(capfdbinary: pytest.CaptureFixture[bytes]) -> Query:
    return Query(capfdbinary)


def test_the_grammar_names_every_format_that_is_written() -> None:
    assert tuple(WRITERS) == QUERY_FORMATS


@pytest.mark.parametrize("name", NAMES)
def test_every_format_gives_the_same_answer(tmp_path: Path, query: Query, name: str) -> None:
    path = record_to(tmp_path / name)
    out, error = query(path, MEAN, "--format", "json")
    assert error == ""
    assert json.loads(out) == [
        {"device": "air", "flow": 2.0, "n": 5},
        {"device": "fuel", "flow": 100.0, "n": 1},
    ]


@pytest.mark.parametrize("name", NAMES)
def test_failed_polls_are_in_recording_and_not_in_samples(
    tmp_path: Path, query: Query, name: str
) -> None:
    path = record_to(tmp_path / name)
    out, _ = query(
        path,
        "SELECT (SELECT count(*) FROM recording) AS a, (SELECT count(*) FROM samples) AS s, "
        "(SELECT count(*) FROM events) AS e",
        "--format",
        "csv",
    )
    assert out == b"a,s,e\n7,6,0\n"


@pytest.mark.parametrize("name", NAMES)
def test_a_time_stamp_keeps_its_nanoseconds_in_utc(
    tmp_path: Path, query: Query, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "America/New_York")
    path = record_to(tmp_path / name)
    sql = "SELECT t_utc FROM recording ORDER BY t_utc LIMIT 1"
    stamp = "2026-11-21T12:00:00.000000123Z"
    assert query(path, sql, "--format", "csv")[0].decode() == f't_utc\n"{stamp}"\n'
    assert json.loads(query(path, sql, "--format", "jsonl")[0]) == {"t_utc": stamp}


def test_the_table_for_people_aligns_numbers_to_the_right(tmp_path: Path, query: Query) -> None:
    path = record_to(tmp_path / "run.parquet")
    out, _ = query(path, MEAN)
    assert out.decode().splitlines() == [
        "device   flow  n",
        "------  -----  -",
        "air       2.0  5",
        "fuel    100.0  1",
        "(2 rows)",
    ]


def test_samples_are_averaged_by_device_and_minute(tmp_path: Path, query: Query) -> None:
    path = record_to(tmp_path / "run.parquet")
    sql = (
        "SELECT device, time_bucket(INTERVAL '1 minute', t_utc::TIMESTAMPTZ) AS minute, "
        "avg(Mass_Flow) AS flow FROM samples GROUP BY ALL ORDER BY ALL"
    )
    rows = [json.loads(line) for line in query(path, sql, "--format", "jsonl")[0].splitlines()]
    assert [row["flow"] for row in rows] == [2.0, 100.0]
    assert rows[0]["minute"] == "2026-11-21T12:00:00.000000Z"


def test_a_long_table_tells_how_many_rows_it_leaves_out(tmp_path: Path, query: Query) -> None:
    path = record_to(tmp_path / "run.parquet")
    out, _ = query(path, "SELECT range AS n FROM range(70000)")
    assert out.decode().splitlines()[-2:] == [
        "... 69800 more rows; --format csv prints all of them",
        "(70000 rows)",
    ]


def test_csv_tells_null_and_empty_text_apart_and_quotes_what_needs_it(
    tmp_path: Path, query: Query
) -> None:
    path = record_to(tmp_path / "run.parquet")
    sql = (
        "SELECT NULL::VARCHAR AS n, '' AS e, 'a,\"b\"' AS \"x,y\", [1, 2] AS l, 1.50::DECIMAL(4,2)"
    )
    out, _ = query(path, sql, "--format", "csv")
    read = pa.csv.read_csv(
        io.BytesIO(out),
        convert_options=pa.csv.ConvertOptions(
            strings_can_be_null=True, quoted_strings_can_be_null=False, null_values=[""]
        ),
    )
    assert list(read.to_pylist()[0].values()) == [None, "", 'a,"b"', "[1, 2]", 1.5]
    assert read.column_names[2] == "x,y"


def test_json_has_null_for_what_is_no_number_there(tmp_path: Path, query: Query) -> None:
    path = record_to(tmp_path / "run.parquet")
    sql = "SELECT 'nan'::DOUBLE AS a, 'inf'::FLOAT AS b, {'c': 'nan'::DOUBLE} AS d, NULL AS e"
    out, _ = query(path, sql, "--format", "json")
    assert json.loads(out) == [{"a": None, "b": None, "d": {"c": None}, "e": None}]
    out, _ = query(path, "SELECT 1 AS a WHERE false", "--format", "json")
    assert json.loads(out) == []


def test_parquet_out_keeps_types_and_the_suffix_chooses_the_format(
    tmp_path: Path, query: Query
) -> None:
    path = record_to(tmp_path / "run.parquet")
    out = tmp_path / "answer.parquet"
    query(path, "SELECT device, t_utc, Mass_Flow FROM samples", "--out", out)
    table = pq.read_table(out)
    assert table.num_rows == 6
    assert table.schema.field("t_utc").type == pa.timestamp("ns", "UTC")
    assert table.schema.field("Mass_Flow").type == pa.float64()
    _, error = query(path, "SELECT 1", "--out", out, code=5)
    assert f"{out} already exists; add --overwrite" in error
    query(path, "SELECT 1 AS one", "--out", out, "--overwrite")
    assert pq.read_table(out).to_pylist() == [{"one": 1}]


def test_a_wrong_query_leaves_no_file(tmp_path: Path, query: Query) -> None:
    path = record_to(tmp_path / "run.parquet")
    query(path, "SELECT 1 / x FROM recording", "--out", tmp_path / "a.csv", code=2)
    query(path, "SELECT error('stop') FROM recording", "--out", tmp_path / "a.csv", code=2)
    assert sorted(p.name for p in tmp_path.iterdir() if p.name.startswith("a")) == []


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        (
            "SELEC 1",
            'the SQL cannot be run: Parser Error: syntax error at or near "SELEC" (line 1)',
        ),
        ("SELECT flow FROM samples", 'Referenced column "flow" not found'),
        ("SELECT 1; SELECT 2", "the SQL has 2 statements; write exactly one"),
        ("DROP VIEW samples", "the SQL statement is DROP, but a query only reads"),
        ("COPY samples TO 'x.csv'", "the SQL statement is COPY, but a query only reads"),
        ("SET threads = 1", "the SQL statement is SET, but a query only reads"),
        (" ; ", "the SQL is empty"),
        ("SELECT * FROM read_csv('/etc/passwd')", "a query reads the recording and nothing else"),
        ("SELECT * FROM read_text('/etc/passwd')", "a query reads the recording and nothing else"),
        ("SELECT * FROM '/etc/passwd'", "Table with name /etc/passwd does not exist"),
        ("SELECT * FROM glob('/etc/*')", "a query reads the recording and nothing else"),
        ("EXPLAIN ANALYZE COPY samples TO 'x.csv'", "the SQL statement is COPY"),
        ("EXPLAIN /**/ ANALYZE SELECT 1", "the SQL"),
        ("EXPLAIN EXPLAIN ANALYZE SELECT 1", "the SQL"),
    ],
)
def test_wrong_sql_is_told_in_a_sentence(
    tmp_path: Path, query: Query, sql: str, expected: str
) -> None:
    path = record_to(tmp_path / "run.parquet")
    out, error = query(path, sql, code=2)
    assert out == b""
    assert error.startswith("penstock: ")
    assert expected in error
    assert len(error.splitlines()) == 1


def test_no_sql_writes_the_recording_that_it_may_read(tmp_path: Path, query: Query) -> None:
    path = record_to(tmp_path / "run.parquet")
    before = path.read_bytes()
    for sql in (
        "EXPLAIN ANALYZE COPY",
        "EXPLAIN (ANALYZE) COPY",
        "-- a remark\nEXPLAIN ANALYZE COPY",
        "COPY",
    ):
        query(path, f"{sql} (SELECT 1) TO '{path}' (USE_TMP_FILE false)", code=2)
        assert path.read_bytes() == before
    for sql in ("EXPLAIN SELECT * FROM samples", "explain analyze FROM samples"):
        out, _ = query(path, sql, "--format", "csv")
        assert b"explain_" in out or b"analyzed_plan" in out


def test_a_damaged_file_is_no_fault_of_the_sql(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = record_to(tmp_path / "run.parquet", flow_batch(1000))
    content = bytearray(path.read_bytes())
    column = pq.read_metadata(path).row_group(0).column(2)
    end = column.data_page_offset + column.total_compressed_size
    content[end - 60 : end - 20] = bytes(40)
    path.write_bytes(content)
    assert main(["query", str(path), "SELECT * FROM recording"]) == 5
    assert "the recording cannot be read" in capsys.readouterr().err
    assert main(["query", str(path), "SELECT nothing FROM recording"]) == 2


def test_other_bad_input_is_told_in_a_sentence(tmp_path: Path, query: Query) -> None:
    path = record_to(tmp_path / "run.parquet")
    _, error = query(tmp_path / "none.parquet", "SELECT 1", code=5)
    assert "none.parquet does not exist" in error
    _, error = query(path, "SELECT 1", "--memory", "plenty", code=2)
    assert "'plenty' is not an amount of memory; write one such as 500MB or 2GB" in error
    _, error = query(path, "SELECT 1", "--out", tmp_path / "answer.xyz", code=2)
    assert "answer.xyz has no format that can be written; add --format" in error
    _, error = query(path, "SELECT 1", "--overwrite", code=2)
    assert "--overwrite needs a file to replace" in error


def test_the_sql_may_come_from_standard_input(
    tmp_path: Path, query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = record_to(tmp_path / "run.parquet")
    monkeypatch.setattr(sys, "stdin", io.StringIO("SELECT 7 AS n\n"))
    assert query(path, "-", "--format", "csv")[0] == b"n\n7\n"


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_a_column_that_a_part_lacks_is_null_there(
    tmp_path: Path, query: Query, suffix: str
) -> None:
    other = RecordSchema((Field("Pressure", "float", "PSIA"),), "{}")
    buffer = ColumnBuffer(other)
    buffer.append_row("fuel", "A", NOON_NS, NOON_NS, 0, 0, {"Pressure": 14.7}, "", None)
    path = record_to(tmp_path / f"run{suffix}", two_devices(), SampleBatch.from_buffer(buffer))
    sql = "SELECT count(*) AS n, count(Mass_Flow) AS f, max(Pressure) AS p FROM recording"
    assert query(path, sql, "--format", "csv")[0] == b"n,f,p\n8,6,14.7\n"


def archive(folder: Path) -> None:
    for device in ("007", "a%2Fb"):
        for day in ("2026-11-20", "2026-11-21"):
            here = folder / f"device={device}" / f"day={day}"
            here.mkdir(parents=True)
            pq.write_table(pa.table({"Mass_Flow": [1.0, 3.0]}), here / "0001.parquet")


def test_an_archive_has_the_columns_of_its_folders(tmp_path: Path, query: Query) -> None:
    archive(tmp_path)
    sql = "SELECT device, day, sum(Mass_Flow) AS f FROM samples GROUP BY ALL ORDER BY ALL"
    out, error = query(tmp_path, sql, "--format", "csv")
    assert error == ""
    assert [line.replace('"', "") for line in out.decode().splitlines()] == [
        "device,day,f",
        "007,2026-11-20,4",
        "007,2026-11-21,4",
        "a/b,2026-11-20,4",
        "a/b,2026-11-21,4",
    ]


def test_unfinished_files_of_an_archive_are_left_out(tmp_path: Path, query: Query) -> None:
    archive(tmp_path)
    (tmp_path / "device=007" / ".0002.parquet").write_bytes(b"PAR1 not yet")
    (tmp_path / "_work").mkdir()
    (tmp_path / "_work" / "0003.parquet").write_bytes(b"")
    whole = (tmp_path / "device=007" / "day=2026-11-20" / "0001.parquet").read_bytes()
    torn = tmp_path / "device=007" / "day=2026-11-20" / "0002.parquet"
    torn.write_bytes(whole[:-20])
    out, error = query(tmp_path, "SELECT count(*) AS n FROM recording", "--format", "csv")
    assert out == b"n\n8\n"
    assert error == f"penstock: warning: {torn}: it is not a complete Parquet file; left out\n"


def test_a_recording_that_grows_is_read_with_its_journal(tmp_path: Path, query: Query) -> None:
    path = tmp_path / "parts"
    sql = "SELECT count(*) AS n, max(Mass_Flow) AS m FROM samples"
    answers = []

    async def run() -> None:
        async with ParquetSink(path) as sink:
            await sink.write_batch(flow_batch(10))
            await sink.flush()
            answers.append(await anyio.to_thread.run_sync(query_in_a_process, path, sql))

    anyio.run(run)
    assert answers == [b"n,m\n10,9\n"]


def query_in_a_process(path: Path, sql: str) -> bytes:
    command = [sys.executable, "-m", "penstock.cli", "query", str(path), sql, "--format", "csv"]
    return subprocess.run(command, check=True, capture_output=True).stdout


def test_an_interruption_before_the_query_has_begun_ends_it() -> None:
    database = duckdb.connect()
    interrupted = threading.Event()

    class Session:
        def interrupt(self) -> None:
            database.interrupt()
            interrupted.set()

    def count() -> object:
        interrupted.wait()
        return database.execute("SELECT count(*) FROM range(1000000000000) a WHERE a.range % 7 = 9")

    with pytest.raises(KeyboardInterrupt), _Worker(Session()) as worker:  # type: ignore[arg-type]
        worker._call = worker._threads.submit(count)
        raise KeyboardInterrupt
    assert isinstance(worker._call.exception(), duckdb.InterruptException)


def test_ctrl_c_ends_a_long_query(tmp_path: Path) -> None:
    path = record_to(tmp_path / "run.parquet")
    sql = (
        "SELECT 0 AS n UNION ALL SELECT count(*) FROM range(1000000000000) a WHERE a.range % 7 = 9"
    )
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-m", "penstock.cli", "query", str(path), sql]
    process = subprocess.Popen(command, env=environment)
    try:
        # The temporary folder of the session is there while the query runs.
        for _ in range(600):
            if list(tmp_path.glob("penstock-query-*")):
                break
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(0.1)
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
    finally:
        process.kill()
        process.wait()
    assert not list(tmp_path.glob("penstock-query-*"))
