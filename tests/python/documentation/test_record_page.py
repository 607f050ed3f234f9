"""The programs and the command of docs/record.md, with simulated instruments on serial ports."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import penstock
import penstock.record
from penstock.alicat import AlicatManager, SerialSettings, open_device
from penstock.cli import main as command_line
from penstock.record import (
    CsvSink,
    Field,
    ParquetSink,
    RecordSchema,
    SigningKey,
    StreamSource,
    pipe,
    record,
)
from penstock.sim import Bus, MassFlowController, open_pty
from tests.python.conftest import CORE_MISSING
from tests.python.documentation.page_steps import (
    DOCS,
    ROOT,
    blocks,
    environment,
    patient,
    simulated,
)
from tests.python.record.batches import flow_batch

BLOCKS = [block for block in blocks(DOCS / "record.md") if block.language != "text"]
(
    WHOLE,
    STREAMS,
    FOLDER,
    READING,
    HISTORY,
    DAMAGED,
    SEALS,
    KEYS,
    RECOVER,
) = [block.text for block in BLOCKS]

pytestmark = pytest.mark.skipif(
    CORE_MISSING, reason="penstock._core is not built (run 'make build')"
)

BAUD = 115_200


@pytest.fixture(scope="module")
def port() -> Iterator[str]:
    with simulated("--bus", "A:500", "--baud", str(BAUD)) as (bus,):
        yield bus["path"]


def run(source: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", source],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT / "python")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_first_program_records_to_both_files(port: str, tmp_path: Path) -> None:
    source = patient(WHOLE.replace("/dev/ttyUSB0", port).replace("duration=10", "duration=0.5"))
    done = run(source, tmp_path)
    assert done.stderr == ""
    found = re.fullmatch(r"(\d+) samples, (\d+) late, \d+ errors\n", done.stdout)
    assert found is not None, done.stdout
    assert int(found[1]) + int(found[2]) == 10
    for name in ("run.csv", "run.parquet"):
        table = penstock.record.open(tmp_path / name).to_arrow()
        assert table.column("device").to_pylist().count("fuel") >= int(found[1])


def test_streams_and_polls_are_recorded_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {
        "StreamSource": StreamSource,
        "CsvSink": CsvSink,
        "pipe": pipe,
        "record": record,
    }
    body = textwrap.indent(STREAMS.replace("duration=60", "duration=2"), "    ")
    exec(f"async def program(manager, fuel):\n{body}", names)

    def bus() -> Bus:
        return Bus([MassFlowController("A")], baudrate=BAUD)

    async def main() -> None:
        async with open_pty(bus()) as one, open_pty(bus()) as other, AlicatManager() as manager:
            await manager.add("air", one, serial=SerialSettings(one, baudrate=BAUD), timeout=10)
            serial = SerialSettings(other, baudrate=BAUD)
            async with await open_device(other, serial=serial, timeout=10) as fuel:
                await names["program"](manager, fuel)

    penstock.run(main())
    table = penstock.record.open(tmp_path / "run.csv").to_arrow()
    rows = table.select(["device", "event", "late_s"]).to_pylist()
    pushed = [row["late_s"] for row in rows if row["device"] == "fuel" and row["event"] is None]
    assert pushed and set(pushed) == {None}
    assert any(row["device"] == "air" and row["late_s"] is not None for row in rows)


def test_other_libraries_and_penstock_read_a_folder_of_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for package in ("pandas", "polars", "duckdb", "pint"):
        pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)

    async def main() -> int:
        bus = Bus([MassFlowController("A")], baudrate=BAUD)
        async with open_pty(bus) as path, AlicatManager() as manager:
            await manager.add("fuel", path, serial=SerialSettings(path, baudrate=BAUD), timeout=10)
            async with record(manager, rate_hz=20, duration=1) as recording:
                summary = await pipe(recording, ParquetSink("run"))
        return summary.samples_emitted + summary.events

    rows = penstock.run(main())
    exec(compile(f"import duckdb, pandas, polars\n{FOLDER}", "docs/record.md", "exec"), {})
    names: dict[str, Any] = {}
    exec(compile(READING, "docs/record.md", "exec"), names)
    assert names["part"].table.num_rows == rows > 0


def test_a_damaged_file_is_read_as_the_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)

    async def main() -> None:
        async with CsvSink("run.csv") as sink:
            await sink.write_batch(flow_batch(600))

    penstock.run(main())
    path = tmp_path / "run.csv"
    path.write_bytes(path.read_bytes().replace(b",499,", b",4.x2,"))
    exec(compile(DAMAGED, "docs/record.md", "exec"), {"penstock": penstock})
    shown = capsys.readouterr().out
    assert shown == DAMAGED.rpartition("# ")[2].removesuffix("\n") + "\n"


def test_several_runs_are_one_history_as_the_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)

    async def main() -> None:
        for day, first in (("2026-11-27", 0), ("2026-11-28", 147_670)):
            schema = RecordSchema((Field("Mass_Flow", "float", "SCCM"),), f'{{"run_id": "{day}"}}')
            async with ParquetSink(tmp_path / "lab" / day / "samples.parquet") as sink:
                await sink.write_batch(flow_batch(10, first, schema))

    for day in ("2026-11-27", "2026-11-28"):
        (tmp_path / "lab" / day).mkdir(parents=True)
    penstock.run(main())
    exec(compile(HISTORY, "docs/record.md", "exec"), {"penstock": penstock})
    *runs, pause = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in runs] == ["2026-11-27", "2026-11-28"]
    wanted = HISTORY.rpartition("# ")[2].partition(",")[0]
    assert pause.startswith(f"{wanted}, from ")


CUT_OFF = """
import os, signal

import penstock
from penstock.alicat import AlicatManager, SerialSettings
from penstock.record import ParquetSink, record


async def main():
    async with AlicatManager() as manager:
        serial = SerialSettings("{port}", baudrate={baud})
        await manager.add("fuel", "{port}", serial=serial, timeout=10)
        async with record(manager, rate_hz=50) as recording:
            sink = ParquetSink("run.parquet")
            await sink.open()
            await sink.write_batch(await recording.next_batch(10))
            await sink.flush()
            os.kill(os.getpid(), signal.SIGKILL)


penstock.run(main())
"""


def test_the_command_completes_a_recording_that_was_cut_off(port: str, tmp_path: Path) -> None:
    assert run(CUT_OFF.format(port=port, baud=BAUD), tmp_path).returncode < 0
    assert not (tmp_path / "run.parquet").exists()
    done = subprocess.run(
        ["sh", "-c", RECOVER],
        cwd=tmp_path,
        env=environment(tmp_path, dict(os.environ)),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert penstock.record.open(tmp_path / "run.parquet").to_arrow().num_rows >= 10


def test_a_file_is_sealed_and_signed_as_the_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("cryptography")
    monkeypatch.chdir(tmp_path)
    make, verify = KEYS.splitlines()
    subprocess.run(make, shell=True, check=True)

    async def main() -> None:
        async with CsvSink("run.csv", sign=SigningKey("KEY")) as sink:
            await sink.write_batch(flow_batch(600))

    penstock.run(main())
    exec(compile(SEALS, "docs/record.md", "exec"), {})
    assert capsys.readouterr().out == "run.csv True ['closed'] [] []\n"
    assert command_line(verify.split()[1:]) == 0
    assert "600 rows" in (shown := capsys.readouterr().out)
    assert "signed" in shown
