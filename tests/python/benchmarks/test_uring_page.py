"""The uring page: every workload completes, and reads are compared with what was written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks.ring_work import BLOCK, WORKLOADS, Wrong, block, check_blocks
from penstock.uring import probe

pytestmark = pytest.mark.skipif(not probe().available, reason=probe().reason)

TINY = ["--rounds", "1", "--seconds", "0.01", "--warmup", "0"]


def test_uring_measures_every_workload(
    measure_page: Callable[..., tuple[dict[str, Any], str]], tmp_path: Path
) -> None:
    results, printed = measure_page("uring", *TINY, "--contenders", "penstock,os")
    assert [cell["labels"] for cell in results["cells"]] == [[name] for name in WORKLOADS]
    for cell in results["cells"]:
        for name in ("floor", "penstock"):
            (sample,) = cell["contenders"][name]["rounds"]
            assert sample["operations"] >= 256
    assert "- os, NOPs: os has no such system call" in printed


def test_a_contender_that_reads_the_wrong_block_is_not_measured() -> None:
    def shifted(offsets: list[int]) -> list[bytes]:
        return [block(offset // BLOCK + 1) for offset in offsets]

    with pytest.raises(Wrong, match="not those that were written"):
        check_blocks(shifted, 1024)
