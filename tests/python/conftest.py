"""The event loops that asynchronous tests run on.

A test marked ``@pytest.mark.anyio`` runs once on each of ``BACKENDS``. A loop that is not
installed is skipped with the reason; under ``PENSTOCK_REQUIRE_LOOPS=1`` (``make test``) it is an
error instead, so that a broken build cannot pass as a row of skips.
"""

from __future__ import annotations

import importlib.util
import os
from typing import Any, NoReturn

import hypothesis
import pytest

REQUIRE_LOOPS = os.environ.get("PENSTOCK_REQUIRE_LOOPS") == "1"


# How long an example takes is the machine's affair.
hypothesis.settings.register_profile(
    "untimed", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("untimed")


def skip_absent(reason: str) -> NoReturn:
    """Skip a test for what this machine lacks; under ``PENSTOCK_REQUIRE_LOOPS=1`` it fails."""
    if REQUIRE_LOOPS:
        pytest.fail(f"{reason} (PENSTOCK_REQUIRE_LOOPS=1 allows no skip)", pytrace=False)
    pytest.skip(reason)


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
    # Imported when the loop is wanted: tests that do not use it run without the extension.
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
    """``(name, options)`` as AnyIO's pytest plugin wants it."""
    return request.param
