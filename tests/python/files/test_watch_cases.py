"""What ``files.watch`` and C++'s ``fs::watch`` both report: tests/watch_cases.txt."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from penstock import files
from penstock.files import Change

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("no_descriptor_left")]

TABLE = Path(__file__).parents[2] / "watch_cases.txt"
CASES = [
    pytest.param(lines, id=name)
    for name, _, lines in (each.partition("\n") for each in TABLE.read_text().split("\ncase ")[1:])
]
KINDS = {"+": Change.added, "~": Change.modified, "-": Change.deleted}


def write(path: str) -> None:
    with open(path, "a") as file:
        file.write("x")


STEPS: dict[str, Callable[..., None]] = {
    "write": write,
    "make": os.mkdir,
    "remove": os.remove,
    "remove-folder": os.rmdir,
    "move": os.rename,
    "permit": lambda path: os.chmod(path, 0o600),
    "link": lambda path, target: os.symlink(target, path),
}


@pytest.mark.parametrize("lines", CASES)
async def test_each_case_is_reported_as_the_table_says(
    lines: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    changes: files.Watch | None = None
    for line in filter(None, lines.splitlines()):
        key, _, rest = line.partition(": ")
        items = rest.split("; ")
        if key in {"before", "do"}:
            for name, *arguments in map(str.split, items):
                STEPS[name](*arguments)
        elif key == "watch":
            paths = [each for each in items if each != "flat"]
            changes = files.watch(*paths, recursive=paths == items, step=0)
            await changes.__aenter__()
        else:
            assert key == "found"
            assert changes is not None
            with anyio.fail_after(30):
                found = await anext(changes)
            assert found == {(KINDS[each[0]], each[2:]) for each in items}
    assert changes is not None
    await changes.aclose()
