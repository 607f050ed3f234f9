"""The page file_gaps: a blocked loop is detected, and every operation runs."""

from __future__ import annotations

import asyncio
import importlib.util
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks import file_gaps
from benchmarks.pages import file_gaps as page


def test_a_blocked_loop_is_detected() -> None:
    async def stand_still() -> None:
        time.sleep(0.05)

    figures = asyncio.run(file_gaps.measure(stand_still))
    assert figures["gap"] >= 0.05
    assert figures["seconds"] >= 0.05


def test_every_operation_has_a_name() -> None:
    assert set(page.NAMES) == set(file_gaps.OPERATIONS)


@pytest.mark.skipif(
    importlib.util.find_spec("penstock._core") is None, reason="penstock._core is not built"
)
def test_the_page_measures_every_operation(
    measure_page: Callable[..., tuple[dict[str, Any], str]], tmp_path: Path
) -> None:
    results, printed = measure_page(
        "file_gaps", "--rounds", "1", "--quick", "--folder", str(tmp_path / "data")
    )
    assert len(results["cells"]) == len(file_gaps.OPERATIONS)
    for cell in results["cells"]:
        (sample,) = cell["contenders"]["penstock"]["rounds"]
        assert 0 < sample["gap"] <= sample["seconds"] + 1
    assert "Longest gap" in printed
    assert list((tmp_path / "data").iterdir()) == []
