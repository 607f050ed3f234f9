"""The event loops that asynchronous tests run on.

A test marked ``@pytest.mark.anyio`` runs once on each of ``BACKENDS``. If a loop is not installed,
its tests are skipped with the reason. Under ``PENSTOCK_REQUIRE_LOOPS=1`` (``make test``) they fail,
so that a broken build does not appear as skipped tests.
"""

from __future__ import annotations

import importlib.util
import os
from typing import Any, NoReturn

import hypothesis
import pytest

REQUIRE_LOOPS = os.environ.get("PENSTOCK_REQUIRE_LOOPS") == "1"


# The duration of an example depends on the machine.
hypothesis.settings.register_profile(
    "untimed", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("untimed")


def skip_absent(reason: str) -> NoReturn:
    """Skip a test whose requirement this machine lacks; fail it if PENSTOCK_REQUIRE_LOOPS=1."""
    if REQUIRE_LOOPS:
        pytest.fail(f"{reason} (PENSTOCK_REQUIRE_LOOPS=1 allows no skip)", pytrace=False)
    pytest.skip(reason)


def not_sanitized(reason: str) -> pytest.MarkDecorator:
    """The mark of tests that the sanitized extension (PENSTOCK_SANITIZED=1) skips."""
    return pytest.mark.skipif(os.environ.get("PENSTOCK_SANITIZED") == "1", reason=reason)


def _missing(module: str) -> bool:
    try:
        found = importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        found = False
    if not found and REQUIRE_LOOPS:
        raise pytest.UsageError(f"{module} is not available; run 'scripts/setup test' first")
    return not found


CORE_MISSING = _missing("penstock._core")


def _penstock_loop() -> Any:
    # Imported on use, so that tests of other loops run without the extension.
    import penstock

    return penstock.new_event_loop()


BACKENDS = [
    pytest.param(("asyncio", {"use_uvloop": False}), id="asyncio"),
    pytest.param(
        ("asyncio", {"use_uvloop": True}),
        id="asyncio+uvloop",
        marks=pytest.mark.skipif(_missing("uvloop"), reason="uvloop is not installed"),
    ),
    pytest.param(
        ("asyncio", {"loop_factory": _penstock_loop}),
        id="asyncio+penstock",
        marks=pytest.mark.skipif(
            CORE_MISSING, reason="penstock._core is not built (run 'make build')"
        ),
    ),
    pytest.param(
        ("trio", {}),
        id="trio",
        marks=pytest.mark.skipif(_missing("trio"), reason="trio is not installed"),
    ),
]


@pytest.fixture(scope="module", params=BACKENDS)
def anyio_backend(request: pytest.FixtureRequest) -> Any:
    """``(name, options)`` in the form of AnyIO's pytest plugin."""
    return request.param
