"""Every example of docs/uring.md and the example program run."""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "uring.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```python\n(.*?)^```", PAGE, re.M | re.S)


def run(arguments: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", *arguments],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        timeout=60,
    )


def test_the_page_has_examples() -> None:
    assert len(EXAMPLES) >= 6


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_an_example_runs(tmp_path: Path, number: int) -> None:
    (tmp_path / "data.bin").write_bytes(b"data" * 10_000)
    done = run(["-c", EXAMPLES[number]], tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert done.stdout


def test_every_operation_is_named_in_the_page() -> None:
    from penstock.uring import UringCtx

    for name in dir(UringCtx):
        if name.startswith("prep_"):
            assert re.search(rf"\b(prep_)?{name.removeprefix('prep_')}\b", PAGE), name


def test_the_example_program_sums_files(tmp_path: Path) -> None:
    data = random.Random(5).randbytes(5_000_001)
    (tmp_path / "large").write_bytes(data)
    (tmp_path / "small").write_bytes(data[:10])
    program = str(ROOT / "examples" / "checksum_files.py")
    done = run([program, "large", "small", "missing"], tmp_path)
    assert done.stdout.splitlines() == [
        f"{zlib.crc32(data):08x}  large",
        f"{zlib.crc32(data[:10]):08x}  small",
    ]
    assert done.returncode == 1
    assert "missing" in done.stderr
