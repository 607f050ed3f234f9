"""``penstock record --resume``: a recording that goes on in the same files."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.usefixtures("native_loop")


def test_a_resumed_run_continues_every_file(penstock: Any, simulator: Any, tmp_path: Path) -> None:
    _, (port,) = simulator("A:500")
    formats = ["parts", "csv", "jsonl", "sqlite", "parquet", "arrow"]
    (tmp_path / "run.toml").write_text(
        f"""
        [record]
        rate_hz = 20
        duration = 0.5
        out = "out"
        formats = {json.dumps(formats)}
        [[device]]
        name = "fuel"
        port = "{port}"
        baudrate = 115200
        timeout = 10
        """
    )
    samples = 0
    for _ in range(3):
        done = penstock("record", "run.toml", "--resume", "--no-plot", "--json")
        assert done.returncode == 0, done.stderr
        samples += json.loads(done.stdout)["samples"]
    out = tmp_path / "out"
    suffixes = ("", ".csv", ".jsonl", ".sqlite", ".parquet", ".arrow")
    done = penstock("verify", *(out / f"samples{suffix}" for suffix in suffixes), "--json")
    for file, found in json.loads(done.stdout).items():
        assert (found["problems"], found["runs"]) == (0, 3), (file, found)
        assert found["devices"]["fuel"]["samples"] == samples
    assert done.returncode == 0
    lines = [line for path in out.glob("*.jsonl") for line in path.read_text().splitlines()]
    rows = [json.loads(line) for line in lines]
    assert sum("t_mono_ns" in row and not row.get("event") for row in rows) == samples
    tables = [list(csv.DictReader(path.read_text().splitlines())) for path in out.glob("*.csv")]
    assert sum(not row["event"] for table in tables for row in table) == samples


def test_resume_and_overwrite_exclude_each_other(penstock: Any, tmp_path: Path) -> None:
    done = penstock("record", "run.toml", "--resume", "--overwrite")
    assert done.returncode == 2
    assert "--resume continues the files and --overwrite replaces them" in done.stderr


def test_what_a_resumed_run_cuts_off_is_kept_and_named(
    penstock: Any, simulator: Any, tmp_path: Path
) -> None:
    _, (port,) = simulator("A:500")
    (tmp_path / "run.toml").write_text(
        f"""
        [record]
        rate_hz = 20
        duration = 0.3
        out = "out"
        formats = ["csv"]
        [[device]]
        name = "fuel"
        port = "{port}"
        baudrate = 115200
        timeout = 10
        """
    )
    resume = ("record", "run.toml", "--resume", "--no-plot")
    assert penstock(*resume).returncode == 0
    path = tmp_path / "out" / "samples.csv"
    with path.open("ab") as file:
        file.write(b"fuel,A,2026")
    done = penstock(*resume)
    assert done.returncode == 0, done.stderr
    assert "11 bytes of a torn end were cut off" in done.stdout + done.stderr
    assert "samples.csv.torn" in done.stdout + done.stderr
    assert (tmp_path / "out" / "samples.csv.torn").read_bytes() == b"fuel,A,2026"
    # The resumed run has another id, and so another file.
    path = tmp_path / "out" / "samples.part2.csv"
    with path.open("ab") as file:
        file.write(b"x" * 100_000)
    before = path.read_bytes()
    done = penstock(*resume)
    assert (done.returncode, "add --force" in done.stderr) == (5, True)
    assert path.read_bytes() == before
    assert penstock(*resume, "--force").returncode == 0
    assert (tmp_path / "out" / "samples.part2.csv.torn").read_bytes() == b"x" * 100_000


def test_force_needs_resume(penstock: Any, tmp_path: Path) -> None:
    done = penstock("record", "run.toml", "--force")
    assert (done.returncode, "--force lets --resume cut off" in done.stderr) == (2, True)


def test_after_a_kill_and_a_resume_the_folder_verifies(
    penstock: Any, start: Any, simulator: Any, tmp_path: Path
) -> None:
    _, (port,) = simulator("A:500")
    (tmp_path / "run.toml").write_text(
        f"""
        [record]
        rate_hz = 20
        out = "out"
        formats = ["parquet", "csv", "jsonl", "sqlite"]
        [[device]]
        name = "fuel"
        port = "{port}"
        baudrate = 115200
        timeout = 10
        """
    )
    running = start("record", "run.toml", "--no-plot")
    running.wait_for(r"[1-9][0-9]+ samples")
    running.process.kill()
    running.process.wait()
    done = penstock("record", "run.toml", "--resume", "--no-plot", "--duration", "0.3")
    assert done.returncode == 0, done.stderr
    done = penstock("verify", "out")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "runs 2" in done.stdout
    assert "cut off" in done.stdout
