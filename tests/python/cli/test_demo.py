"""``penstock demo`` and ``penstock record`` end to end: real processes, ports and files."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.usefixtures("native_loop")

NAMES = ["argon", "helium", "nitrogen", "oxygen"]


def test_demo_records_every_device_at_its_rate_in_both_formats(
    penstock: Any, recorded: Any, tmp_path: Path
) -> None:
    done = penstock("demo", "--duration", 2, "--rate", 20, "--out", "out")
    assert (done.returncode, done.stderr) == (0, "")
    counts = recorded(tmp_path / "out").rows_of_each()
    assert sorted(counts) == NAMES
    # A late slot is skipped and counted, so rows and late slots add up to the expected total.
    summary = next(line for line in done.stdout.splitlines() if line.startswith("recorded"))
    late = int(summary.split(" late")[0].rsplit(" ", 1)[1])
    assert sum(counts.values()) + late == 4 * 2 * 20
    assert f"{sum(counts.values())} samples, {late} late, 0 errors" in summary
    for name in ("samples.parquet", "samples.csv", "samples.csv.meta.json", "flow.svg", "flow.png"):
        assert (tmp_path / "out" / name).stat().st_size > 0
        assert f"wrote out/{name}\n" in done.stdout


def test_setpoints_step_and_flows_follow(penstock: Any, recorded: Any, tmp_path: Path) -> None:
    # Two seconds for each step, so that it is polled although a process stands still for one.
    done = penstock("demo", "--duration", 6, "--out", "out", "--no-plot")
    assert done.returncode == 0, done.stderr
    table = recorded(tmp_path / "out").parquet()
    argon = [
        (setpoint, flow)
        for device, setpoint, flow in zip(
            table["device"], table["Mass_Flow_Setpt"], table["Mass_Flow"], strict=True
        )
        if device == "argon"
    ]
    # The first step is due half a slot after the first poll, which may be late.
    steps = [setpoint for setpoint in dict.fromkeys(setpoint for setpoint, _ in argon) if setpoint]
    assert steps == [200.0, 400.0, 100.0]
    assert max(flow for _, flow in argon) > 300
    assert set(table["error"]) == {None}
    assert set(table["unit_id"]) == {"A", "B", "C", "D"}


def test_json_summary_agrees_with_the_files(penstock: Any, recorded: Any, tmp_path: Path) -> None:
    done = penstock("demo", "--duration", 3, "--rate", 10, "--out", "out", "--no-plot", "--json")
    assert done.returncode == 0
    summary = json.loads(done.stdout)
    counts = recorded(tmp_path / "out").rows_of_each()
    assert {name: device["samples"] for name, device in summary["devices"].items()} == counts
    assert summary["samples"] == sum(counts.values())
    assert summary["errors"] == 0
    assert summary["failed_setpoints"] == []
    assert summary["ended_by"] is None
    assert summary["worst_latency_ms"] > 0
    assert summary["files"] == [
        "out/samples.parquet",
        "out/samples.csv",
        "out/samples.csv.meta.json",
    ]
    assert "samples" in done.stderr, "progress goes to standard error"


def test_without_a_terminal_one_line_per_second_is_printed_without_escapes(penstock: Any) -> None:
    done = penstock("demo", "--duration", 4, "--out", "out", "--no-plot")
    assert (done.returncode, done.stderr) == (0, "")
    assert "\x1b" not in done.stdout
    lines = [line for line in done.stdout.splitlines() if " samples, " in line and " s  " in line]
    assert len(lines) >= 3
    for name in NAMES:
        assert name in lines[-1]


def test_without_out_every_run_gets_its_own_folder(penstock: Any, tmp_path: Path) -> None:
    assert penstock("demo", "--duration", 0.5, "--no-plot").returncode == 0
    (folder,) = tmp_path.iterdir()
    assert folder.name.startswith("demo-")
    assert (folder / "samples.parquet").exists()


def test_second_run_replaces_the_first_only_with_overwrite(
    penstock: Any, recorded: Any, tmp_path: Path
) -> None:
    arguments = ["demo", "--rate", 10, "--out", "out", "--no-plot"]
    assert penstock(*arguments, "--duration", 1).returncode == 0
    before = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    refused = penstock(*arguments, "--duration", 1)
    assert refused.returncode == 5
    assert "samples.parquet already exists; add --overwrite" in refused.stderr
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == before
    assert penstock(*arguments, "--duration", 0.5, "--overwrite").returncode == 0
    assert sum(recorded(tmp_path / "out").rows_of_each().values()) <= 4 * 5


def test_record_uses_the_ports_of_its_configuration_file(
    penstock: Any, recorded: Any, simulator: Any, tmp_path: Path
) -> None:
    _, (first, second) = simulator("A:500,B:100", "C:5000")
    (tmp_path / "run.toml").write_text(
        f"""
        [record]
        rate_hz = 20
        duration = 60
        out = "elsewhere"
        formats = ["csv", "parquet"]
        [[device]]
        name = "left [1]"
        port = "{first}"
        baudrate = 115200
        timeout = 10
        [[device.setpoint]]
        at = 0.1
        value = 250
        [[device.setpoint]]
        at = 50
        value = 0
        [[device]]
        name = "right"
        port = "{first}"
        unit_id = "B"
        baudrate = 115200
        timeout = 10
        [[device]]
        name = "sole"
        port = "{second}"
        unit_id = "C"
        baudrate = 115200
        timeout = 10
        """
    )
    done = penstock("record", "run.toml", "--duration", 3, "--out", "out", "--json")
    assert (done.returncode, json.loads(done.stdout)["failed_setpoints"]) == (0, []), done.stderr
    assert not (tmp_path / "elsewhere").exists()
    recording = recorded(tmp_path / "out")
    assert set(recording.rows_of_each()) == {"left [1]", "right", "sole"}
    assert max(recording.parquet()["Mass_Flow_Setpt"]) == 250.0
    assert (tmp_path / "out" / "flow.png").exists()


def test_single_format_writes_one_file(penstock: Any, simulator: Any, tmp_path: Path) -> None:
    _, (port,) = simulator("A:500")
    (tmp_path / "run.toml").write_text(
        f"""
        [record]
        duration = 0.5
        formats = ["parquet"]
        out = "out"
        [[device]]
        name = "argon"
        port = "{port}"
        baudrate = 115200
        timeout = 10
        """
    )
    assert penstock("record", "--config", "run.toml", "--no-plot").returncode == 0
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert names == ["samples.parquet", "samples.parquet.seals"]


def test_device_failure_becomes_error_rows_and_the_run_continues(
    start: Any, recorded: Any, simulator: Any, tmp_path: Path
) -> None:
    _, (alive,) = simulator("A:500")
    doomed, (dying,) = simulator("A:500")
    (tmp_path / "run.toml").write_text(
        f"""
        [record]
        rate_hz = 20
        duration = 8
        out = "out"
        [[device]]
        name = "alive"
        port = "{alive}"
        baudrate = 115200
        timeout = 10
        [[device]]
        name = "dying"
        port = "{dying}"
        baudrate = 115200
        timeout = 2
        [[device.setpoint]]
        at = 6.5
        value = 1
        """
    )
    running = start("record", "--config", "run.toml", "--no-plot")
    running.wait_for(r"dying -?[0-9.]+ of")
    doomed.kill()
    doomed.wait()
    running.wait_for(r"dying failing")
    code, output, errors = running.finish()
    assert code == 6
    assert errors.startswith("penstock: the run is complete, but ")
    assert "polls failed (dying)" in errors
    assert "1 setpoint step was not accepted" in errors
    assert "dying, last failed poll: " in output
    assert "setpoint not accepted: dying, 1 at 6.5 s: " in output
    table = recorded(tmp_path / "out").parquet()
    rows = list(zip(table["device"], table["Mass_Flow"], table["error"], strict=True))
    failed = [error for device, flow, error in rows if device == "dying" and flow is None]
    assert failed
    assert all(failed)
    first = rows.index(("dying", None, failed[0]))
    assert any(device == "alive" and error is None for device, _, error in rows[first:])
    # A failed poll like the one before it has no row of its own.
    told = re.search(r"(\d+) of (\d+) polls failed", errors)
    assert told is not None, errors
    errors_told, polls = map(int, told.groups())
    assert errors_told == len(failed) + polls - table["event"].count(None)
    assert f"{errors_told} errors" in output


def test_terminal_shows_the_table_and_then_the_summary(tmp_path: Path, environment: Any) -> None:
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "penstock.cli", "demo", "--duration", "1", "--no-plot"],
        cwd=tmp_path,
        env={**environment, "TERM": "xterm", "COLUMNS": "100", "LINES": "40"},
        stdin=slave,
        stdout=slave,
        stderr=slave,
    )
    os.close(slave)
    text = _read_all(master).decode()
    assert process.wait(timeout=60) == 0, text
    for word in ("device", "value", "unit", "setpoint", "status", "samples", "late", *NAMES):
        assert word in text
    assert "SCCM" in text
    assert "\x1b[1A" in text, "the table is redrawn in place"
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l"), "the cursor is shown again"
    assert text.index("recorded 4 devices") > text.rindex("\x1b[1A")


def test_closed_output_pipe_does_not_end_the_recording(
    start: Any, recorded: Any, tmp_path: Path
) -> None:
    running = start("demo", "--duration", "2", "--out", "out", "--no-plot")
    running.wait_for(r" samples, ")
    running.process.stdout.close()
    running.process.stdout = None
    code, _, errors = running.finish()
    assert code == 141
    assert errors == (
        "penstock: the summary cannot be written to standard output: Broken pipe; "
        "the run's files are complete in out\n"
    )
    assert recorded(tmp_path / "out").slots_of_each() == dict.fromkeys(NAMES, 2 * 20)


def _read_all(descriptor: int) -> bytes:
    data = bytearray()

    def read() -> None:
        # Reading the near end of a pty raises EIO when the far end is closed.
        try:
            while chunk := os.read(descriptor, 65536):
                data.extend(chunk)
        except OSError:
            pass

    thread = threading.Thread(target=read)
    thread.start()
    thread.join(timeout=60)
    os.close(descriptor)
    return bytes(data)
