"""An iteration within an iteration, a close within an iteration, a close within a close."""

from __future__ import annotations

import asyncio
import sys
import threading
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
def test_an_iteration_run_by_the_program_refuses_a_close_in_its_callback(
    by: str, run_script: RunScript
) -> None:
    """In a separate process, because the loop once continued in freed memory."""
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
    assert (done.returncode, done.stdout) == (0, "['Cannot close a running event loop']\n"), (
        done.stderr
    )


def test_a_patch_that_nests_runs_is_refused_at_once(
    loop: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not hasattr(loop, "_nest_patched")
    # nest_asyncio.apply() checks this before it changes the loop's class.
    monkeypatch.setitem(sys.modules, "nest_asyncio", types.ModuleType("nest_asyncio"))
    with pytest.raises(RuntimeError, match="nest_asyncio cannot patch"):
        hasattr(loop, "_nest_patched")
    loop.run_until_complete(asyncio.sleep(0))


@pytest.mark.parametrize("again", ["loop.close()", "loop._close_native()", "schedule()"])
def test_a_destructor_run_by_the_close_of_a_loop_may_use_the_loop(
    again: str, run_script: RunScript
) -> None:
    done = run_script(
        f"""
        import socket
        loop = new_loop()
        def schedule():
            loop._closed = False
            loop.call_soon(print)
            loop.call_later(1, print)
        class Dropped:
            def __call__(self):
                pass
            def __del__(self):
                finalized.append(self)
                {again}
        finalized = []
        a, b = socket.socketpair()
        for _ in range(3):
            loop.call_soon(Dropped())
            loop.call_later(1, Dropped())
        loop.add_reader(a, Dropped())
        loop.add_writer(a, Dropped())
        loop.close()
        assert loop.is_closed() or {again!r} == "schedule()"
        assert len(finalized) == 8
        finalized.clear()
        a.close(), b.close()
        print("well")
        """
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "well\n"


def test_another_thread_can_neither_close_nor_iterate_a_waiting_loop(loop: Any) -> None:
    refused: list[str] = []
    waiting = threading.Event()

    def interfere() -> None:
        waiting.wait()
        for act in (loop.close, loop._close_native, loop._run_once):
            try:
                act()
            except RuntimeError as error:
                refused.append(str(error))
        loop.call_soon_threadsafe(loop.stop)

    thread = threading.Thread(target=interfere)
    thread.start()
    loop.call_soon(waiting.set)
    loop.run_forever()
    thread.join()
    assert len(refused) == 3
