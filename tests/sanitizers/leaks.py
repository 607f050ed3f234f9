"""Deliberate faults, with which scripts/test-extension-asan verifies its checks.

Not part of the test suite: pytest does not collect a file of this name.
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


def test_python_code_is_called_under_a_lease() -> None:
    leaking.call_under_a_lease(print)
