"""A pytest plugin that deselects the runs of a test on event loops other than Penstock's.

usage: python -m pytest -p tests.only_penstock ...

It looks at the parameter, not at the name: a test about asyncio has asyncio in its name and may run
on Penstock's loop.
"""

from __future__ import annotations

import pytest

OTHER_LOOPS = frozenset({"asyncio", "asyncio+uvloop", "trio", "uvloop"})


def runs_on_another_loop(item: pytest.Item) -> bool:
    if not isinstance(item, pytest.Function) or not hasattr(item, "callspec"):
        return False
    return not OTHER_LOOPS.isdisjoint(item.callspec.id.split("-"))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    others = [item for item in items if runs_on_another_loop(item)]
    if others:
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if not runs_on_another_loop(item)]
