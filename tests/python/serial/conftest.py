"""Fixtures: pseudo-terminals, and an emulated driver for features that they lack."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.serial.testing import EmulatedDriver, PtyBench
from tests.python.serial.pty_peer import PtyPeer


@pytest.fixture
def peer() -> Iterator[PtyPeer]:
    with PtyPeer() as pair:
        yield pair


@pytest.fixture
def bench() -> Iterator[PtyBench]:
    """Two ttys connected by a cable."""
    with PtyBench() as wired:
        yield wired


@pytest.fixture
def driver() -> Iterator[EmulatedDriver]:
    """All ioctls of the package go through this object during the test."""
    with EmulatedDriver().installed() as emulated:
        yield emulated
