"""Under no load does an event wait for more steps than on asyncio's own loop."""

from __future__ import annotations

from contextlib import AsyncExitStack

import pytest

from .latency_events import KINDS_OF_EVENTS, MakeReady, Steps
from .latency_loads import LOADS, factories, measure

LOOPS = factories()


@pytest.fixture
def loop_name() -> str:
    return "both"


@pytest.mark.parametrize("event", KINDS_OF_EVENTS)
@pytest.mark.parametrize("load", LOADS)
def test_an_event_waits_for_no_more_steps_than_on_asyncio(load: str, event: str) -> None:
    reference = measure(LOOPS["asyncio"], [load], event)
    measured = measure(LOOPS["penstock"], [load], event)
    assert max(measured) <= max(reference), f"asyncio {reference}, Penstock {measured}"


class DeliberateError(Exception):
    """Raised where an event is made ready."""


async def an_event_that_fails(_steps: Steps, _stack: AsyncExitStack) -> MakeReady:
    def fail() -> None:
        raise DeliberateError

    return fail


@pytest.mark.parametrize("load", LOADS)
@pytest.mark.parametrize("loop", ["asyncio", "penstock"])
def test_an_error_in_a_step_ends_the_load(
    loop: str, load: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(KINDS_OF_EVENTS, "failing", an_event_that_fails)
    with pytest.raises(DeliberateError):
        measure(LOOPS[loop], [load], "failing")
