"""The examples of docs/files.md run, and its layout of a log is the code's."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.files._log import log_format
from tests.python.files.conftest import child_environment

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "files.md").read_text(encoding="utf-8")
PATHS_PAGE = (ROOT / "docs" / "files-paths.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```python\n(.*?)^```", PAGE + PATHS_PAGE, re.M | re.S)

pytest.importorskip("penstock._core")


def run(source: str, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", source],
        cwd=folder,
        env=child_environment(),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def test_the_page_has_examples() -> None:
    assert len(EXAMPLES) >= 4


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_an_example_runs(tmp_path: Path, number: int) -> None:
    if "import trio" in EXAMPLES[number]:
        pytest.importorskip("trio")
    assert run(EXAMPLES[number], tmp_path)


def test_the_logs_example_replays_its_records(tmp_path: Path) -> None:
    (example,) = (each for each in EXAMPLES if "AppendLog(" in each)
    assert run(example, tmp_path) == "3 records\n"
    replayed = run(example, tmp_path).splitlines()
    assert replayed == [*(f"replayed b'order {n}'" for n in range(3)), "6 records"]


def test_the_page_states_the_sizes_in_the_code() -> None:
    assert log_format.FILE_HEADER_SIZE == 24
    assert log_format.new_identity().header_size == 28
    assert log_format.MAX_PAYLOAD == 2**30
    header, record = PAGE.split("### The format")[1].split("| record |")
    for table, end in ((header, 24), (record, 28)):
        rows = re.findall(r"^\| (\d+) \| (\d+) \|", table, re.M)
        offset = 0
        for row_offset, size in rows:
            assert int(row_offset) == offset
            offset += int(size)
        assert offset == end


def test_every_call_that_the_page_names_exists() -> None:
    import penstock.files

    table = PAGE.partition("## Which call")[2].partition("## Engines")[0]
    for name in ("read_file", "read_files", "write_file", "copy", "AppendLog", "open", "stat"):
        assert name in table
    for name in re.findall(r"`(?:await )?(\w+)\(", table):
        assert name in ("pread", "pread_many", "append") or hasattr(penstock.files, name), name
    for name in ("LogDamaged", "LogFailed", "LogLocked", "read_log"):
        assert name in PAGE
        assert hasattr(penstock.files, name)
