"""Random conversations over streams have the same outcome on asyncio's loop and on Penstock's."""

from __future__ import annotations

from pathlib import Path

import pytest

from .conftest import penstock_factory
from .stream_conversations import Tally, compare


@pytest.fixture
def loop_name() -> str:
    return "both"


@pytest.mark.parametrize("seed", range(1, 81))
def test_a_conversation_has_the_same_outcome(seed: int, tmp_path: Path) -> None:
    penstock_factory()
    assert compare(seed, str(tmp_path), Tally()) is None
