"""The page about sinks, with tiny rounds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("pyarrow")


def test_every_sink_is_measured(
    measure_page: Callable[..., tuple[dict[str, Any], str]],
) -> None:
    results, printed = measure_page(
        "sinks", "--rounds", "1", "--n", "200", "--contenders", "floor,penstock"
    )
    for part, count in (("many", 7), ("batch", 5)):
        assert len(results[part]) == count
        for cell in results[part]:
            (sample,) = cell["contenders"]["penstock"]["rounds"]
            assert sample["rows_per_s"] > 0
            assert sample["bytes_per_row"] > 0
    assert "parquet-snappy" in printed
