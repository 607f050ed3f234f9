"""Leaks on purpose, on which scripts/test-extension-asan sees its check for leaks fail.

No part of the tests: its name keeps it from being collected.
"""

from __future__ import annotations

import importlib
from typing import Any

# Built into the sanitized tree only.
leaking: Any = importlib.import_module("leaking")


def test_a_block_is_leaked() -> None:
    leaking.leak_a_block()


def test_an_object_is_leaked() -> None:
    leaking.leak_an_object()


def test_nothing_is_leaked() -> None:
    assert leaking.leak_a_block is not None
