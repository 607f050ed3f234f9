"""An iteration of the loop within another, and the end of the loop within one."""

from __future__ import annotations

import asyncio
import sys
import types
from typing import Any

import pytest

from .conftest import RunScript

pytestmark = pytest.mark.usefixtures("only_penstock")


def test_an_iteration_within_another_is_refused(loop: Any) -> None:
    refused: list[str] = []

    def nest() -> None:
        for iterate in (loop._run_once, loop._run_until_stopped):
            with pytest.raises(RuntimeError, match="cannot be nested") as caught:
                iterate()
            refused.append(str(caught.value))
        loop.stop()

    loop.call_soon(nest)
    loop.run_forever()
    assert len(refused) == 2
    loop.call_soon(loop.stop)
    loop.run_forever()


@pytest.mark.parametrize("by", ["call_soon", "call_later", "reader"])
def test_an_iteration_run_by_hand_outlives_a_callback_that_closes_the_loop(
    by: str, run_script: RunScript
) -> None:
    """In a process of its own: what it once did was to go on in freed memory."""
    done = run_script(
        """
        import socket, sys
        loop = new_loop()
        refused = []
        def close():
            try:
                loop.close()
            except RuntimeError as error:
                refused.append(str(error))
            loop.remove_reader(a)
        a, b = socket.socketpair()
        b.send(b"x")
        if sys.argv[1] == "reader":
            loop.add_reader(a, close)
        elif sys.argv[1] == "call_later":
            loop.call_later(0, close)
        else:
            loop.call_soon(close)
        for _ in range(100):
            loop.call_soon(int)
        while not refused:
            loop._run_once()
        print(refused)
        loop.close()
        a.close(), b.close()
        """,
        by,
    )
    assert (done.returncode, done.stdout) == (0, "['Cannot close a running event loop']\n"), done.stderr


def test_a_patch_that_nests_runs_is_refused_at_once(
    loop: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not hasattr(loop, "_nest_patched")
    # As nest_asyncio.apply() asks, before it changes the loop's class.
    monkeypatch.setitem(sys.modules, "nest_asyncio", types.ModuleType("nest_asyncio"))
    with pytest.raises(RuntimeError, match="nest_asyncio cannot patch"):
        hasattr(loop, "_nest_patched")
    loop.run_until_complete(asyncio.sleep(0))
