"""The page files_objects: every kind of work runs, with every library that has it."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks import file_objects
from benchmarks.pages import files_objects as page

needs_core = pytest.mark.skipif(
    importlib.util.find_spec("penstock._core") is None, reason="penstock._core is not built"
)


def test_every_kind_of_work_has_a_name() -> None:
    assert set(page.NAMES) == set(file_objects.WORKS)


@needs_core
def test_all_contenders_do_the_same_work(tmp_path: Path) -> None:
    data = file_objects.Data(tmp_path)
    data.write_log()
    data.write_small_files(100)
    for work in file_objects.WORKS:
        units = file_objects.on_built_in(work, data)()
        done = asyncio.run(_once(file_objects.on_penstock(work, data)))
        assert 0 <= done - units <= file_objects.TASKS, work


async def _once(work: Callable[[], Any]) -> int:
    return int(await work())


@needs_core
def test_the_page_compares_with_the_built_in(
    measure_page: Callable[..., tuple[dict[str, Any], str]], tmp_path: Path
) -> None:
    results, printed = measure_page(
        "files_objects",
        *("--quick", "--rounds", "1", "--work", "open-read-close"),
        *("--folder", str(tmp_path / "data")),
    )
    (cell,) = results["cells"]
    assert cell["labels"] == [page.NAMES["open-read-close"]]
    for name in ("built-in", "penstock", "penstock@asyncio"):
        (sample,) = cell["contenders"][name]["rounds"]
        assert sample["cpu_us"] > 0
    assert "CPU time" in printed
