"""Random conversations over WebSocket have the same outcome on both loops, and lose no message."""

from __future__ import annotations

import pytest

from tests.python.loop.random_programs import gc_threshold

from .message_conversations import KINDS


@pytest.mark.parametrize("seed", range(1, 31))
def test_conversation_has_the_same_outcome(seed: int) -> None:
    kind = KINDS["messages"]
    with gc_threshold(1 if seed % 5 == 0 else None):
        assert kind.difference(kind.make(seed)) is None
