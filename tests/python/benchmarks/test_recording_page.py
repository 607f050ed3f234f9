"""The page about recordings, with tiny rounds."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import pytest


@pytest.mark.skipif(
    importlib.util.find_spec("penstock._core") is None, reason="the extension is not built"
)
def test_every_part_measures_penstock(
    measure_page: Callable[..., tuple[dict[str, Any], str]],
) -> None:
    results, printed = measure_page(
        *("recording", "--rounds", "1", "--ports", "2", "--rate", "20", "--seconds", "0.5"),
        *("--fast-ports", "1", "--fast-rate", "20", "--fast-seconds", "0.5"),
        *("--fast-rounds", "1", "--samples", "500", "--sinks", "csv", "--contenders", "penstock"),
    )
    (many,) = results["many"]
    for name in ("null sink", "penstock"):
        (sample,) = many["contenders"][name]["rounds"]
        assert 0 < sample["rows"] <= 20
        assert sample["errors"] == 0
    assert len(results["fast"]) == 2
    for fast in results["fast"]:
        assert fast["contenders"]["penstock"]["rounds"][0]["bytes_a_row"] > 0
    for cell in results["pipe"]:
        (sample,) = cell["contenders"]["penstock"]["rounds"]
        assert sample["samples_a_second"] > 0
        assert sample["bytes_a_sample"] > 0
    assert "## Samples through pipe()" in printed
