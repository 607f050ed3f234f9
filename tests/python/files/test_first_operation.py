"""The first file operation of a process does not block the loop with imports of modules."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import sys
import penstock
from penstock import files

folder = sys.argv[1]

async def main():
    known = set(sys.modules)
    await files.write_file(f"{folder}/written", b"content", atomic=True)
    await files.copy(f"{folder}/written", f"{folder}/copied")
    async with files.AppendLog(f"{folder}/log") as log:
        await log.append(b"a record")
    async with files.open(f"{folder}/written", encoding="utf-8") as file:
        assert await file.read() == "content"
    # The module of the loop's seldom used methods takes one millisecond.
    print(*sorted(name for name in set(sys.modules) - known if not name.startswith("penstock.")))

penstock.run(main())
"""


def test_file_operations_import_nothing_while_the_loop_runs(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    finished = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path_factory.mktemp("first"))],
        capture_output=True,
        text=True,
        check=True,
    )
    assert finished.stdout.split() == []
