"""Fixtures: a pseudo-terminal, and an emulated driver for features that it lacks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.serial.testing import EmulatedDriver
from tests.python.serial.pty_peer import PtyPeer


@pytest.fixture
def peer() -> Iterator[PtyPeer]:
    with PtyPeer() as pair:
        yield pair


@pytest.fixture
def driver() -> Iterator[EmulatedDriver]:
    """All ioctls of the package go through this object during the test."""
    with EmulatedDriver().installed() as emulated:
        yield emulated
