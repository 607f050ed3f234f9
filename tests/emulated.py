"""A pytest plugin for tests under QEMU's user emulation: skips what that cannot run.

usage: scripts/emulated /venv/bin/python -m pytest -p tests.emulated ...

Property tests run fewer examples, because emulated code takes ten times longer.
"""

from __future__ import annotations

import hypothesis
import pytest

# Prefixes of node IDs, and what QEMU lacks for them.
CANNOT: dict[str, str] = {}


@pytest.hookimpl(tryfirst=True)
def pytest_collection() -> None:
    """Set the number of examples, after conftest.py has loaded its profile."""
    hypothesis.settings.register_profile(
        "emulated", parent=hypothesis.settings.default, max_examples=20
    )
    hypothesis.settings.load_profile("emulated")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for prefix, reason in CANNOT.items():
            if item.nodeid.startswith(prefix):
                item.add_marker(pytest.mark.skip(reason=f"QEMU: {reason}"))
