"""What holds for every test: signal dispositions, and when garbage is collected."""

from __future__ import annotations

import gc
import importlib.util
import signal
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import NoReturn

import pytest


def _survive(number: int, frame: FrameType | None) -> None:
    """Do nothing. Has the effect of SIG_IGN, but child processes do not inherit it."""


def _undo_ignored_signals() -> None:
    """Start child processes with default signal dispositions, whatever this process inherited.

    nohup ignores SIGHUP. A shell without job control ignores SIGINT and SIGQUIT in its background
    processes. A process inherits ignored signals, and Python then installs no SIGINT handler, so
    tests that send these signals would hang.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, _survive)


_undo_ignored_signals()


def _collect_and_freeze() -> None:
    """Collect garbage, and freeze what is left, modules above all.

    The next collections do not visit it: they take about 1 ms in place of 40 ms.
    """
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as slow what needs a browser, and what compiles the programs of the benchmarks."""
    for item in items:
        if isinstance(item, pytest.Function) and (
            {"chromium", "measure_page"} & set(item.fixturenames)
            or "build_native" in vars(item.module)
        ):
            item.add_marker(pytest.mark.slow)


class _WithoutBrowser(pytest.Module):
    def collect(self) -> NoReturn:
        pytest.skip("Playwright is not installed; run scripts/setup test")


def pytest_pycollect_makemodule(
    module_path: Path, parent: pytest.Collector
) -> pytest.Module | None:
    """Skip the modules that import Playwright where it is absent."""
    if module_path.match("dash/test_page*.py") and not importlib.util.find_spec("playwright"):
        return _WithoutBrowser.from_parent(parent, path=module_path)  # type: ignore[no-any-return]
    return None


def pytest_collection_finish() -> None:
    """Freeze the modules that the collection of tests has imported."""
    _collect_and_freeze()


@pytest.fixture(autouse=True)
def _collect_garbage() -> Iterator[None]:
    """Collect garbage after the test's other fixtures, so that a leak fails the test that leaks.

    A connection in a reference cycle warns when it is collected. Otherwise that happens during
    some later test, which fails in place of this one, in one run and not in the next.
    """
    yield
    _collect_and_freeze()
